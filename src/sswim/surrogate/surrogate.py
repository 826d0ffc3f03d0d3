"""A surrogate: members conditioned on rows, their weights, and the maps of inputs and targets.

Functions drawn from a surrogate by pathwise conditioning.

A prior function g of a member, by many random features, and noise ε of every row make the posterior
function

    f(x) = b + g(x) + k(x, X)(K + Λ)⁻¹(z − b − g(X) − ε).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from sswim.base.record import Record
from sswim.kernels.additive_kernel import draw_additive_frequencies
from sswim.kernels.features import expected_features
from sswim.kernels.spectrum import draw_frequencies
from sswim.members.exact_members import ExactMembers, Observed
from sswim.members.exact_model import RIPPLE_KERNEL, ExactKind, exact_points, kernel_between
from sswim.rows.rows import Measure
from sswim.surrogate.target_map import TargetMap

N_FREQUENCIES = 1024
"""Number of frequencies of a prior function."""


@dataclass(frozen=True)
class Paths:
    """Functions drawn from a surrogate, which can be evaluated anywhere and differentiated."""

    gp: ExactMembers
    """The member of each function, in the order of members."""
    order: Int64[Tensor, " n"]
    """The place of each function in that order."""
    frequencies: Float64[Tensor, "n M D"]
    features: Float64[Tensor, "n F"]
    """Weights of the features of g."""
    updates: Float64[Tensor, "n N"]
    """(K + Λ)⁻¹(z − b − g(X) − ε)."""
    target_map: TargetMap
    scale: Callable[[Tensor], Tensor]

    def __call__(self, inputs: Float64[Tensor, "*S #n q D"]) -> Float64[Tensor, "*S n q"]:
        """Return the values of all functions.

        Args:
            inputs: Points for all functions, or points for each.
        """
        scaled = self.scale(inputs)
        if scaled.shape[-3] > 1:
            scaled = scaled[..., self.order.argsort(), :, :]
        points = exact_points(self.gp.factors, scaled)
        prior = _prior_values(self.frequencies, self.features, points)
        kernel = kernel_between(self.gp.kinds, self.gp.factors, points, self.gp.points)
        values = prior + (kernel @ self.updates[..., None])[..., 0] + self.gp.factors.mean[:, None]
        return self.target_map.inverse(values[..., self.order, :])


def draw_paths(
    gp: ExactMembers,
    weights: Float64[Tensor, " B"],
    target_map: TargetMap,
    scale: Callable[[Tensor], Tensor],
    n: int,
    generator: torch.Generator,
) -> Paths:
    """Draw n functions.

    Args:
        gp: The members, conditioned on rows.
        weights: Their weights. Numbers of functions follow them as closely as they can.
        target_map: The map of the targets.
        scale: The map of the inputs.
        n: Number of functions.
        generator: A generator on the CPU.
    """
    device = gp.points.device
    uniform = (torch.arange(n) + torch.rand(n, generator=generator)) / max(n, 1)
    bounds = weights.cpu().cumsum(0)
    members = torch.searchsorted(bounds[:-1].contiguous(), uniform.to(bounds)).to(device)
    chosen = gp.select(members)
    n_rows, n_inputs = gp.points.shape[1:]
    frequencies, features = _draw_prior(chosen, n_inputs, generator)
    noise = torch.randn(n, n_rows, generator=generator, dtype=torch.float64).to(device)
    noise = noise * chosen.rows.noise(chosen.factors).sqrt()
    prior = _prior_values(frequencies, features, chosen.points)
    residual = chosen.rows.targets - chosen.factors.mean[:, None] - prior - noise
    updates = torch.cholesky_solve(residual[..., None], chosen.factor)[..., 0]
    # Functions of one member lie side by side; a random order makes the first few as good as all.
    order = torch.randperm(n, generator=generator).to(device)
    return Paths(chosen, order, frequencies, features, updates, target_map, scale)


def _draw_prior(
    gp: ExactMembers, n_inputs: int, generator: torch.Generator
) -> tuple[Float64[Tensor, "n M D"], Float64[Tensor, "n F"]]:
    """Draw frequencies of every member's kernel, and weights of their features.

    The second half of them is for ripples, with weights of zero for members without.
    """
    factors = gp.factors
    device = factors.signal.device
    smooth, ripples = (
        torch.stack(draws).to(device)
        for draws in (
            [
                _draw_smooth(kind, float(interaction), n_inputs, generator)
                for kind, interaction in zip(gp.kinds, factors.interaction, strict=True)
            ],
            [draw_frequencies(RIPPLE_KERNEL, N_FREQUENCIES, n_inputs, generator) for _ in gp.kinds],
        )
    )
    frequencies = torch.cat((smooth, ripples / factors.ripple_scale[:, None, None]), dim=1)
    variance = torch.stack((torch.ones_like(factors.signal), factors.ripple_signal), dim=-1)
    # Twice, because features of so many frequencies have half the norm that one part needs.
    variance = 2 * factors.signal[:, None] * variance
    deviation = variance.sqrt().repeat_interleave(N_FREQUENCIES, dim=-1).repeat(1, 2)
    normal = torch.randn(deviation.shape, generator=generator, dtype=torch.float64)
    return frequencies, deviation * normal.to(device)


def _draw_smooth(
    kind: ExactKind, interaction: float, n_inputs: int, generator: torch.Generator
) -> Float64[Tensor, "M D"]:
    """Draw frequencies of the smooth part of a member's kernel."""
    if kind.additive:
        return draw_additive_frequencies(
            kind.kernel, interaction, N_FREQUENCIES, n_inputs, generator
        )
    return draw_frequencies(kind.kernel, N_FREQUENCIES, n_inputs, generator)


def _prior_values(
    frequencies: Float64[Tensor, "n M D"],
    weights: Float64[Tensor, "n F"],
    points: Float64[Tensor, "*S n q D"],
) -> Float64[Tensor, "*S n q"]:
    """Return g(x) of every function at its points."""
    sets = points.shape[:-3]
    n, n_points, n_inputs = points.shape[-3:]
    rows = points.movedim(-3, 0).reshape(n, sets.numel() * n_points, n_inputs)
    features = expected_features(frequencies, Measure(rows))
    values = (features @ weights[..., None])[..., 0]
    return values.reshape(n, *sets, n_points).movedim(0, -2)


@dataclass(frozen=True)
class InputRange(Record):
    """The range of every input, which members see as −½ to ½."""

    low: Float64[Tensor, " D"]
    width: Float64[Tensor, " D"]

    @staticmethod
    def of(inputs: Float64[Tensor, "N D"]) -> InputRange:
        """Return the unit cube if all inputs lie in it, else the range of the inputs."""
        low, high = inputs.amin(0), inputs.amax(0)
        if bool((low >= 0).all() and (high <= 1).all()):
            return InputRange(torch.zeros_like(low), torch.ones_like(low))
        width = high - low
        return InputRange(low, torch.where(width > 0, width, 1.0))

    def scale(self, inputs: Float64[Tensor, "*S D"]) -> Float64[Tensor, "*S D"]:
        """Return inputs as members see them."""
        return (inputs - self.low) / self.width - 0.5


@dataclass(frozen=True)
class Surrogate:
    """A mixture of exact GPs on warped inputs, in the units of the rows."""

    gp: ExactMembers
    weights: Float64[Tensor, " B"]
    """Weights of the members, which add up to one."""
    target_map: TargetMap
    input_range: InputRange

    @property
    def batch_shape(self) -> torch.Size:
        """Axes of rows added by :meth:`update`, if these differ from entry to entry of a batch."""
        return self.gp.batch_shape

    def joint(
        self,
        inputs: Float64[Tensor, "*S q D"],
        include_noise: bool = False,
        variance: Float64[Tensor, "*V #q"] | None = None,
    ) -> tuple[Float64[Tensor, "*T q"], Float64[Tensor, "*T q q"]]:
        """Return the mixture's mean and covariance of z at a set of points.

            mean μ = Σ_k w_k μ_k,    covariance Σ_k w_k (C_k + (μ_k − μ)(μ_k − μ)ᵀ)

        Args:
            inputs: Points. There may be a batch of sets.
            include_noise: Whether to add the noise of observations.
            variance: Known variance of the noise, in units of the targets; added if given.
        """
        means, covariances = self.gp.joint(self.input_range.scale(inputs)[..., None, :, :])
        weights = self.weights[:, None]
        mean = (weights * means).sum(-2)
        deviations = means - mean[..., None, :]
        between = (weights * deviations).mT @ deviations
        covariance = (weights[..., None] * covariances).sum(-3) + between
        noise = torch.zeros_like(mean)
        if include_noise:
            noise = noise + (self.weights * self.gp.factors.noise).sum()
        if variance is not None:
            slope = self.target_map.forward(self.target_map.inverse(mean))[1]
            noise = noise + slope.square() * variance
        return mean, covariance + noise.diag_embed()

    def update(
        self,
        inputs: Float64[Tensor, "*S n D"],
        targets: Float64[Tensor, "*Y n"],
        variance: Float64[Tensor, "*V #n"] | None = None,
    ) -> Surrogate:
        """Condition all members on further rows as well: exactly, as they are.

        Args:
            inputs: Inputs; another set of rows for every entry of a batch, if it has more axes.
            targets: Targets; several for the same inputs, if they have more axes.
            variance: Known variance of the noise of each target; None for the members' own.
        """
        mapped, slope = self.target_map.forward(targets)
        known = None if variance is None else variance * slope.square()
        rows = Observed(self.input_range.scale(inputs), mapped, known)
        return replace(self, gp=self.gp.update(rows))

    def draw_paths(self, n: int, generator: torch.Generator) -> Paths:
        """Draw n functions from the posterior; each is one of its members' by their weights."""
        if self.batch_shape:
            raise NotImplementedError(
                "Functions are drawn from one posterior. Got a batch of them, of shape "
                f"{tuple(self.batch_shape)}."
            )
        return draw_paths(
            self.gp, self.weights, self.target_map, self.input_range.scale, n, generator
        )
