"""Members with the exact kernel: their parameters, warped inputs and kernels.

A member sends each input through a monotone function of its own, then through warps
g(x) ⊙ x + h(x), and has a kernel of the distance r of the warped inputs x̃ and x̃',

    s²(k(r) + ρ·k'(r/c)),    r² = Σ_d (x̃_d − x̃'_d)²/ℓ_d²,

where k' is the Matérn-5/2 kernel. Its kind says which of these parts it has. With c well below one,
a member sees a smooth function and ripples on it: it follows the smooth part everywhere, and the
ripples where rows are close together.

Members of all kinds are one batch.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Literal, cast

import torch
from jaxtyping import Float64, Int64
from torch import Tensor, nn

from sswim.base.record import Record
from sswim.kernels.additive_kernel import additive_kernel
from sswim.kernels.exact_kernel import cross_kernel, kernel_matrix
from sswim.kernels.features import Kernel
from sswim.members.start import start_warps
from sswim.rows.rows import Measure
from sswim.warps.monotone_warp import MonotoneWarps, monotone_warp
from sswim.warps.warp import WarpFactors, WarpLayer, warp

Start = Literal["usual", "rough", "fine"]


@dataclass(frozen=True)
class ExactKind:
    """How members warp their inputs, and the kernel that they have on the warped inputs."""

    kernel: Kernel
    monotone: bool = False
    """Whether each input first goes through a monotone function of its own."""
    depth: int = 0
    """Number of warps g(x) ⊙ x + h(x) after that."""
    additive: bool = False
    """Whether the function is a sum of functions of few inputs each, rather than of all."""
    ripples: bool = False
    """Whether the kernel has a second part of much shorter length-scales."""
    start: Start = "usual"
    """Length-scales and noise from which training starts. From long ones and much noise
    (``"rough"``) a member takes ripples that are too fine to follow for noise. From short ones
    (``"fine"``) it finds fast waves that others miss."""

    def start_scale(self, n_inputs: int) -> float:
        """Return the length-scales before training."""
        scale = RIPPLE_START if self.ripples else START[self.start]
        return scale if self.additive else scale * math.sqrt(n_inputs)

    def scale_prior(self, n_inputs: int) -> tuple[float, float]:
        """Return the prior mean and deviation of the logarithms of the length-scales.

        The prior is the one that BoTorch gives them, log-normal with a median of e^{√2}√D and a
        log-deviation of √3: it is wide, and holds against many inputs. Functions of one input vary
        more within its range, so that the median of additive kinds is the range.
        """
        if self.additive:
            return 0.0, ADDITIVE_DEVIATION
        return math.sqrt(2) + 0.5 * math.log(n_inputs), math.sqrt(3)


START: dict[Start, float] = {"usual": 0.5, "rough": 1.0, "fine": 0.15}
"""Length-scales before training, in units of √D and the range of an input. Additive members see one
input at a time, and have no √D."""

RIPPLE_START = 2.0
"""Length-scales of the smooth part of kinds with ripples before training, in the same units."""

ADDITIVE_DEVIATION = 1.2
"""Prior log-deviation of the length-scales of additive members around the range of an input."""


N_PSEUDO = 16
"""Number of pseudo-points of a warp."""

N_WARP_FREQUENCIES = 32
"""Number of frequencies of a warp."""

WARP_SIGNAL = 0.1
"""Prior median of the variance of g and h."""

WARP_NOISE = 0.01
"""Noise of the pseudo-targets, as a fraction of that variance."""

WARP_LENGTH_SCALE = 0.3
"""Prior median of the length-scales of g and h, in units of √D and the range of an input."""

START_NOISE = 1e-6
"""σ² before training. Few rows cannot tell small noise from none: from a larger value it would
hardly fall, and optima would be found only roughly."""

ROUGH_NOISE = 1e-2
"""σ² before training of rough kinds."""

RIPPLE_MEDIAN, RIPPLE_DEVIATIONS = 0.05, (1.5, 1.0)
"""Prior median of ρ and of c, from which training starts, and their log-deviations."""

INTERACTION_DEVIATION = 1.5
"""Prior log-deviation of a around its median of 1/D."""

SMALLEST_NOISE = 1e-10
"""Smallest σ²: kernel matrices of rows side by side need it."""

SIGNAL_DEVIATION = 0.5
"""Prior log-deviation of s² around one: targets are standardised."""

NOISE_MEDIAN, NOISE_DEVIATION = 1e-5, 3.0
"""Prior median and log-deviation of σ²."""


class ExactModels(nn.Module):
    """The parameters of a batch of members, in float64.

    Args:
        kinds: The kind of each member. Kinds with warps come first, deeper ones before others.
        inputs: Inputs of rows, between −½ and ½; pseudo-inputs of warps are drawn near them.
        known_noise: Whether the variance of the rows' noise is known, and σ² is not learnt.
        generator: A generator on the CPU.
    """

    def __init__(
        self,
        kinds: Sequence[ExactKind],
        inputs: Float64[Tensor, "N D"],
        known_noise: bool,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        n_members, n_inputs = len(kinds), inputs.shape[1]
        self.kinds = tuple(kinds)
        self.monotone = MonotoneWarps(torch.tensor([kind.monotone for kind in kinds]), n_inputs)
        self.layers = nn.ModuleList(
            _new_layer(sum(kind.depth > level for kind in kinds), inputs, generator)
            for level in range(max(kind.depth for kind in kinds))
        )
        scales = torch.tensor([kind.start_scale(n_inputs) for kind in kinds], dtype=torch.float64)
        noise = [ROUGH_NOISE if kind.start == "rough" else START_NOISE for kind in kinds]
        self.log_length_scales = nn.Parameter(scales.log()[:, None].repeat(1, n_inputs))
        self.log_signal = nn.Parameter(torch.zeros(n_members, dtype=torch.float64))
        self.mean = nn.Parameter(torch.zeros(n_members, dtype=torch.float64))
        self.log_noise = nn.Parameter(
            torch.tensor(noise, dtype=torch.float64).log(), requires_grad=not known_noise
        )
        self.log_interaction = nn.Parameter(
            torch.full((n_members,), -math.log(n_inputs), dtype=torch.float64)
        )
        # log ρ and log c.
        self.log_ripples = nn.Parameter(
            torch.full((2, n_members), math.log(RIPPLE_MEDIAN), dtype=torch.float64)
        )

    def select(self, indices: Int64[Tensor, " S"]) -> ExactModels:
        """Return a copy of some members, in ascending order."""
        chosen = deepcopy(self)
        chosen.kinds = tuple(self.kinds[index] for index in indices.tolist())
        for tensor in (
            chosen.log_length_scales,
            chosen.log_signal,
            chosen.log_interaction,
            chosen.mean,
            chosen.log_noise,
            chosen.monotone.whitened,
            chosen.monotone.used,
        ):
            _take(tensor, indices)
        _take(chosen.log_ripples, indices, dim=1)
        layers = []
        for layer in chosen.layers:
            tensors = [*layer.parameters(), *layer.buffers()]
            first = indices[indices < len(tensors[0])]
            for tensor in tensors:
                _take(tensor, first)
            if len(first):
                layers.append(layer)
        chosen.layers = nn.ModuleList(layers)
        return chosen

    def scalars(self) -> list[nn.Parameter]:
        """Return the parameters of the kernels, the noise and the mean."""
        noise = [self.log_noise] if self.log_noise.requires_grad else []
        return [
            self.log_length_scales,
            self.log_signal,
            self.log_interaction,
            self.log_ripples,
            self.mean,
            *noise,
        ]

    def factors(self) -> tuple[ExactFactors, Float64[Tensor, " B"]]:
        """Return the factors of all members, and their negative log priors up to constants."""
        n_members, n_inputs = self.log_length_scales.shape
        log_slopes, prior = self.monotone.factors()
        warps = []
        for module in self.layers:
            layer = cast(WarpLayer, module)
            warp_factors, layer_prior = layer.factors()
            for gp in layer.gps():
                scale = math.log(WARP_LENGTH_SCALE * math.sqrt(n_inputs))
                deviations = gp.spectrum.log_length_scales - scale
                signals = gp.log_signal - math.log(WARP_SIGNAL)
                layer_prior = layer_prior + 0.5 * deviations.square().sum(-1)
                layer_prior = layer_prior + 0.5 * signals.square().sum(-1)
            warps.append(warp_factors)
            missing = n_members - len(layer_prior)
            prior = prior + nn.functional.pad(layer_prior, (0, missing))
        priors = [kind.scale_prior(n_inputs) for kind in self.kinds]
        centre, deviation = prior.new_tensor(priors).T[..., None]
        prior = prior + 0.5 * ((self.log_length_scales - centre) / deviation).square().sum(-1)
        interaction = self.log_interaction + math.log(n_inputs)
        prior = prior + 0.5 * (interaction / INTERACTION_DEVIATION).square()
        prior = prior + 0.5 * (self.log_signal / SIGNAL_DEVIATION).square()
        ripples = (self.log_ripples - math.log(RIPPLE_MEDIAN)).mT / self.log_ripples.new_tensor(
            RIPPLE_DEVIATIONS
        )
        prior = prior + 0.5 * ripples.square().sum(-1)
        prior = prior + 0.5 * self.mean.square()
        noise = torch.zeros_like(self.log_noise)
        if self.log_noise.requires_grad:
            prior = prior + negative_log_noise_prior(self.log_noise)
            noise = self.log_noise.exp()
        has_ripples = prior.new_tensor([kind.ripples for kind in self.kinds])
        ripple_signal, ripple_scale = self.log_ripples.exp()
        factors = ExactFactors(
            self.kinds,
            log_slopes,
            tuple(warps),
            self.log_length_scales.exp(),
            self.log_signal.exp(),
            self.log_interaction.exp(),
            has_ripples * ripple_signal,
            ripple_scale,
            noise + SMALLEST_NOISE,
            self.mean,
        )
        return factors, prior


def negative_log_noise_prior(log_noise: Float64[Tensor, "*B"]) -> Float64[Tensor, "*B"]:
    """Return the negative log prior density of log σ², up to a constant."""
    return 0.5 * ((log_noise - math.log(NOISE_MEDIAN)) / NOISE_DEVIATION).square()


def _take(tensor: Tensor, indices: Int64[Tensor, " S"], dim: int = 0) -> None:
    """Keep some entries of a parameter or a buffer, in place."""
    tensor.grad = None  # it has the old shape
    tensor.data = tensor.data.index_select(dim, indices)


def _new_layer(
    n_members: int, inputs: Float64[Tensor, "N D"], generator: torch.Generator
) -> WarpLayer:
    """Return a warp of the first members, which starts as the identity."""
    n_inputs = inputs.shape[1]
    scale = WARP_LENGTH_SCALE * math.sqrt(n_inputs)
    scales = torch.full((n_inputs,), scale, dtype=torch.float64)
    states = []
    for _ in range(n_members):
        single = WarpLayer(n_inputs, N_WARP_FREQUENCIES, N_PSEUDO, "whitened", joint=True)
        start_warps([single], "rbf", inputs, scales, generator)
        for gp in single.gps():
            nn.init.constant_(gp.log_signal, math.log(WARP_SIGNAL))
            nn.init.constant_(gp.log_noise, math.log(WARP_NOISE * WARP_SIGNAL))
        states.append(single.state_dict())
    layer = WarpLayer(
        n_inputs, N_WARP_FREQUENCIES, N_PSEUDO, "whitened", joint=True, batch=(n_members,)
    )
    layer.load_state_dict(
        {name: torch.stack([state[name] for state in states]) for name in states[0]}
    )
    return layer


@dataclass(frozen=True)
class ExactFactors(Record):
    """The tensors that predictions of members are computed from."""

    kinds: tuple[ExactKind, ...]
    """The kind of each member."""
    log_slopes: Float64[Tensor, "B D C"]
    """r, the log slopes of the monotone warps; zero for members without."""
    warps: tuple[WarpFactors, ...]
    """Factors of the warps; each is applied to the first members, as many as it has."""
    length_scales: Float64[Tensor, "B D"]
    """ℓ, the length-scales."""
    signal: Float64[Tensor, " B"]
    """s², the variance of the function, without ripples."""
    interaction: Float64[Tensor, " B"]
    """a, how strongly the inputs of additive members interact."""
    ripple_signal: Float64[Tensor, " B"]
    """ρ, the variance of ripples as a fraction of s²; zero for members without."""
    ripple_scale: Float64[Tensor, " B"]
    """c, the length-scales of ripples as a fraction of ℓ."""
    noise: Float64[Tensor, " B"]
    """σ², the variance of the noise."""
    mean: Float64[Tensor, " B"]
    """b, the mean of the function."""

    def select(self, indices: Int64[Tensor, " S"]) -> ExactFactors:
        """Return the factors of some members, in ascending order; members may be repeated."""
        chosen = replace(self, warps=()).map(itemgetter(indices))
        kinds = tuple(self.kinds[index] for index in indices.tolist())
        warps = []
        for factors in self.warps:
            warped = indices[indices < _n_warped(factors)]
            if len(warped):
                warps.append(factors.map(itemgetter(warped)))
        return replace(chosen, kinds=kinds, warps=tuple(warps))


def _n_warped(factors: WarpFactors) -> int:
    """Return the number of members that have a warp."""
    return len(factors.gps[0].frequencies)


def exact_points(
    factors: ExactFactors, inputs: Float64[Tensor, "*S #B q D"]
) -> Float64[Tensor, "*S B q D"]:
    """Return the warped inputs of every member in units of its length-scales.

    Args:
        factors: Tensors of the members.
        inputs: Inputs between −½ and ½, or somewhat outside; the same for all members, or inputs
            for every member.
    """
    # The axes of sets become rows, so that tensors of the members are not copied for each of them.
    points = monotone_warp(factors.log_slopes, inputs.movedim(-3, 0).flatten(1, -2))
    for warp_factors in factors.warps:
        n_warped = _n_warped(warp_factors)
        warped = warp(warp_factors, Measure(points[:n_warped])).mean
        points = torch.cat((warped, points[n_warped:]))
    points = points / factors.length_scales[:, None, :]
    return points.unflatten(1, (*inputs.shape[:-3], inputs.shape[-2])).movedim(0, -3)


RIPPLE_KERNEL: Kernel = "matern52"
"""k', the kernel of ripples."""

KernelForm = tuple[Kernel, bool, bool]
"""The kernel of a member's smooth part, and whether it is additive and has ripples."""


def kernel_between(
    factors: ExactFactors,
    first: Float64[Tensor, "*#S B n D"],
    second: Float64[Tensor, "*#S B m D"],
) -> Float64[Tensor, "*S B n m"]:
    """Return the kernel of points with other points, for every member."""
    sets = torch.broadcast_shapes(first.shape[:-2], second.shape[:-2])
    first = first.expand(*sets, *first.shape[-2:])
    second = second.expand(*sets, *second.shape[-2:])
    parts = []
    for (kernel, additive, ripples), members in kernel_slices(factors.kinds):
        near, far = first[..., members, :, :], second[..., members, :, :]
        if additive:
            strength = factors.interaction[members].expand(near.shape[:-2])
            part = additive_kernel(near, far, strength, kernel)
        else:
            part = cross_kernel(near, far, kernel)
        if ripples:
            scale = factors.ripple_scale[members, None, None]
            signal = factors.ripple_signal[members, None, None]
            part = part + signal * cross_kernel(near / scale, far / scale, RIPPLE_KERNEL)
        parts.append(part)
    return factors.signal[:, None, None] * torch.cat(parts, dim=-3)


def kernel_within(
    factors: ExactFactors, points: Float64[Tensor, "*S B n D"]
) -> Float64[Tensor, "*S B n n"]:
    """Return the kernel of points with each other, for every member."""
    tensors = (
        points.movedim(-3, 0),
        factors.signal,
        factors.interaction,
        factors.ripple_signal,
        factors.ripple_scale,
    )
    parts = [
        kernel_of_form(form, *(tensor[members] for tensor in tensors))
        for form, members in kernel_slices(factors.kinds)
    ]
    return torch.cat(parts).movedim(0, -3)


def kernel_of_form(
    form: KernelForm,
    points: Float64[Tensor, "B *S n D"],
    signal: Float64[Tensor, " B"],
    interaction: Float64[Tensor, " B"],
    ripple_signal: Float64[Tensor, " B"],
    ripple_scale: Float64[Tensor, " B"],
) -> Float64[Tensor, "B *S n n"]:
    """Return the kernel of points with each other, for members that have one form of kernel."""
    kernel, additive, ripples = form
    sizes = (-1,) + (1,) * (points.ndim - 1)
    if additive:
        strength = interaction.reshape(sizes[:-2]).expand(points.shape[:-2])
        matrix = additive_kernel(points, points, strength, kernel)
    else:
        matrix = kernel_matrix(points, None, kernel)
    if ripples:
        nearer = points / ripple_scale.reshape(sizes)
        matrix = matrix + ripple_signal.reshape(sizes) * kernel_matrix(nearer, None, RIPPLE_KERNEL)
    return signal.reshape(sizes) * matrix


def kernel_slices(
    kinds: Sequence[ExactKind], largest: int = sys.maxsize
) -> Iterator[tuple[KernelForm, slice]]:
    """Yield forms of kernels, each with members side by side that have it.

    Args:
        kinds: The kinds of all members.
        largest: Largest number of members in one slice.
    """
    start = 0
    forms = ((kind.kernel, kind.additive, kind.ripples) for kind in kinds)
    for form, group in groupby(forms):
        stop = start + len(list(group))
        for first in range(start, stop, largest):
            yield form, slice(first, min(first + largest, stop))
        start = stop
