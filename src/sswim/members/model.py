"""The model: its architecture, its parameters, and rows as it sees them.

A model is a stack of warps, a sparse spectrum GP on top of them, noise and an output warp. The
architecture has the choices that fix the shapes of its parameters. Members of the same architecture
may be one model, a batch, trained by the same tensor operations. Parameters are checked before
those of a file are used, and after training. At the end, rows become what the regression uses:
features of warped inputs, warped targets and noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from sswim.base.cholesky import FactorisationError
from sswim.base.record import Record
from sswim.base.validation import UserError, require_choice, require_flag, require_integer
from sswim.files.sealed_files import (
    MAX_NUMBER,
    require_moderate,
    require_ordered,
    require_tensors,
    require_that,
)
from sswim.kernels.features import Kernel, Spectrum, expected_features
from sswim.rows.rows import Measure, Rows, marginal_variance
from sswim.warps.noise_field import NoiseFactors, NoiseField, log_noise_ratio
from sswim.warps.normal_scores import InputNormalScores, NormalScores
from sswim.warps.output_warp import OutputMap, OutputWarp, OutputWarpName
from sswim.warps.pseudo_gp import PseudoPrior
from sswim.warps.warp import WarpFactors, WarpLayer, WarpMatrix, warp

NoiseName = Literal["constant", "input-dependent"]
InputsName = Literal["standardised", "normal-scores"]
WarpsName = Literal["joint", "separate"]

LARGEST = 2**31 - 1
"""Largest size of anything."""

LARGEST_WARP_DIM = 10_000
"""Largest dimension of a warped space. Matrices to a larger one may not fit into memory."""

_SMALLEST = {
    "depth": 0,
    "n_frequencies": 1,
    "n_pseudo": 1,
    "n_output_terms": 1,
    "n_noise_frequencies": 1,
    "n_neighbors": 0,
}
"""Smallest value of every integer."""


@dataclass(frozen=True)
class Architecture:
    """The choices that fix the shapes of a model's parameters."""

    depth: int = 1
    """J, the number of warps; 0 gives the stationary sparse spectrum GP."""
    n_frequencies: int = 256
    """M, the number of frequencies of the top level, which has F = 2M features."""
    n_warp_frequencies: int | None = None
    """Number of frequencies of every warp; None for as many as at the top level."""
    n_pseudo: int = 128
    """K, the number of pseudo-points of g and of h in every warp."""
    warps: WarpsName = "separate"
    """Whether g and h of a warp have their own frequencies and pseudo-inputs, as published, or
    share them ("joint"), which is half the cost."""
    warp_matrix: WarpMatrix = "diagonal"
    """Form of the matrix G of the warps G(x) x + h(x) (see ``sswim.warps.warp``). A projection
    is part of the first warp only: later warps are diagonal, or full around the identity."""
    warp_dim: int | None = None
    """Q, the dimension of the warped space; None for that of the inputs, which a diagonal matrix
    keeps."""
    kernel: Kernel = "matern32"
    """Stationary kernel that the Fourier features approximate."""
    pseudo_prior: PseudoPrior = "evidence"
    """Form of the hierarchical prior on the pseudo-targets (see ``PseudoGP``)."""
    output_warp: OutputWarpName = "none"
    """Kind of the output warp T, a learnt monotone map of the targets."""
    n_output_terms: int = 2
    """Number of terms of the output warp."""
    noise: NoiseName = "constant"
    """Whether the noise depends on the input. If it does, it is learnt together with the rest by
    ``train``, or afterwards by ``learn_noise``."""
    n_noise_frequencies: int = 32
    """Number of frequencies of input-dependent noise."""
    inputs: InputsName = "standardised"
    """Whether the model sees the inputs as they are given, or maps them to normal scores first."""
    n_neighbors: int = 0
    """m, the number of nearest rows in the warped space that a prediction is conditioned on, under
    the exact kernel; 0 for all rows, by Fourier features."""
    local_amplitude: bool = True
    """Whether a neighbourhood has an amplitude of its own, which makes predictions Student-t; only
    with neighbours."""

    @property
    def warp_frequencies(self) -> int:
        """Number of frequencies of every warp."""
        return self.n_frequencies if self.n_warp_frequencies is None else self.n_warp_frequencies

    def warped_dim(self, n_inputs: int) -> int:
        """Return Q, the dimension of the warped space of a model with D inputs."""
        return n_inputs if self.warp_dim is None else self.warp_dim

    def __post_init__(self) -> None:
        require_choice("output_warp", self.output_warp, OutputWarpName)
        require_choice("noise", self.noise, NoiseName)
        require_choice("kernel", self.kernel, Kernel)
        require_choice("pseudo_prior", self.pseudo_prior, PseudoPrior)
        require_choice("inputs", self.inputs, InputsName)
        require_choice("warps", self.warps, WarpsName)
        require_choice("warp_matrix", self.warp_matrix, WarpMatrix)
        for name, smallest in _SMALLEST.items():
            require_integer(name, getattr(self, name), smallest, LARGEST)
        for name, largest in (("n_warp_frequencies", LARGEST), ("warp_dim", LARGEST_WARP_DIM)):
            if getattr(self, name) is not None:
                require_integer(name, getattr(self, name), 1, largest)
        require_flag("local_amplitude", self.local_amplitude)
        check_warp_matrix(self.warp_matrix, self.warp_dim, self.depth)


def check_warp_matrix(warp_matrix: WarpMatrix, warp_dim: int | None, depth: int) -> None:
    """Check that a form of the warps' matrix suits the dimension and the number of warps."""
    if warp_matrix == "diagonal" and warp_dim is not None:
        raise UserError(
            "A diagonal matrix keeps the dimension of the inputs. Got warp_matrix='diagonal' with "
            f"warp_dim={warp_dim}. Set warp_matrix='projected', or leave out warp_dim."
        )
    if warp_matrix != "diagonal" and depth == 0:
        raise UserError(
            "A matrix belongs to a warp, and a model without warps has none. Got "
            f"warp_matrix={warp_matrix!r} with depth=0. Set depth=1, or leave out warp_matrix and "
            "warp_dim."
        )


LARGEST_LOG = 300.0
"""Largest size of a logarithm: beyond it the number would be zero or infinite."""

MAX_SLOPE = 1e20
"""Largest slope of normal scores; knots are no closer than 1e-12 of a column's range."""


_INFINITE = ("output_warp.low", "output_warp.high")
"""Parameters that may be infinite."""


def require_converged(model: SSWIM) -> None:
    """Raise if training ended in parameters of absurd sizes, which no file may hold either.

    Raises:
        FactorisationError: It did.
    """
    try:
        _require_moderate_parameters(model.state_dict())
    except ValueError as error:
        raise FactorisationError(
            f"Training must end in parameters of moderate sizes, but {error}. Likely cause: they "
            "diverged. Lower the learning rate."
        ) from error


def _require_moderate_parameters(tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if name not in _INFINITE:
            is_log = "log_" in name or "correction" in name
            require_moderate(name, tensor, LARGEST_LOG if is_log else MAX_NUMBER)


def check_parameters(tensors: Mapping[str, Tensor], model: SSWIM) -> None:
    """Check the parameters of a model or of a batch of members, by their names in the model.

    Raises:
        ValueError: A name, shape, type or number is wrong.
    """
    require_tensors(tensors, model.state_dict(), _INFINITE)
    _require_moderate_parameters(tensors)
    if model.output_warp is not None:
        require_ordered(tensors, "output_warp.")
    if model.normal_scores is not None:
        steps = tensors["normal_scores.knots"].diff()
        require_that("normal_scores.knots must increase", holds=(steps > 0).all())
        slopes = tensors["normal_scores.scores"].diff() / steps
        require_moderate("slopes of normal_scores", slopes, MAX_SLOPE)
    for name in ("resolution", "noise_field.temper"):
        if name in tensors:
            require_that(f"{name} must not be negative", holds=(tensors[name] >= 0).all())


MIN_DEGREES = 2.0
"""Smallest ν: with fewer degrees of freedom the density of equal targets has no bound, and with two
a prediction has no variance."""


@dataclass(frozen=True)
class Factors(Record):
    """The tensors of a model that features, targets and noise of rows are computed from.

    They follow from the parameters alone, and their size does not depend on the number of rows.
    """

    warps: tuple[WarpFactors, ...]
    """Factors of each warp, from the inputs up."""
    frequencies: Float[Tensor, "*B M Q"]
    """Ω, the frequencies of the top level."""
    output: OutputMap
    """T, the output warp."""
    noise: NoiseFactors | None
    """Factors of the noise, η(x) = log σ²(x)/σ²; None if it is constant."""
    normal_scores: NormalScores | None = None
    """Map of the inputs to normal scores; None if the model uses the inputs as they are."""
    length_scales: Float[Tensor, "*B Q"] | None = None
    """Length-scales of the exact kernel; None if features approximate the kernel."""

    @property
    def n_inputs(self) -> int:
        """D, the number of inputs."""
        first = self.warps[0].projection if self.warps else None
        return (self.frequencies if first is None else first).shape[-1]


@dataclass(frozen=True)
class NegativeLogPrior(Record):
    """Negative log prior of the parameters, in two parts."""

    warps: Float64[Tensor, "*B"]
    """Negative log prior of all pseudo-targets."""
    density: Float64[Tensor, "*B"]
    """Negative log prior of the output warp and of the noise."""


class SSWIM(nn.Module):
    """The parameters of the warps and of the sparse spectrum GP on the warped inputs, in float64.

    Make a new model with :func:`sswim.members.start`.

    In a batch of members every parameter has the members' axes ``*B`` in front, and so has
    everything that is computed from it; see ``sswim.members.model.stack_models``.
    """

    noise_correction: Tensor
    latent_correction: Tensor
    resolution: Tensor

    def __init__(
        self,
        architecture: Architecture,
        n_inputs: int,
        n_targets: int,
        batch: tuple[int, ...] = (),
    ) -> None:
        super().__init__()
        self.architecture = architecture
        self.batch = batch
        self.n_inputs = n_inputs
        self.layers = new_warp_layers(architecture, n_inputs, batch)
        # The exact kernel needs length-scales, but no frequencies.
        n_frequencies = 0 if architecture.n_neighbors else architecture.n_frequencies
        self.spectrum = Spectrum(n_frequencies, architecture.warped_dim(n_inputs), batch)
        self.log_signal = nn.Parameter(torch.zeros(*batch, n_targets, dtype=torch.float64))
        self.log_noise = nn.Parameter(
            torch.full((*batch, n_targets), math.log(0.1), dtype=torch.float64)
        )
        # c: observations have noise e^c·σ², with c learnt on rows that training left out.
        zero = torch.zeros(*batch, n_targets, dtype=torch.float64)
        self.register_buffer("noise_correction", zero)
        # a: the function has e^a times its posterior variance, with a learnt in the same way.
        self.register_buffer("latent_correction", zero.clone())
        # log(ν − 2) of the amplitudes of neighbourhoods.
        self.log_degrees = (
            nn.Parameter(torch.full((*batch, n_targets), math.log(2.0), dtype=torch.float64))
            if architecture.n_neighbors and architecture.local_amplitude
            else None
        )
        # Step of rounded targets.
        self.register_buffer(
            "resolution",
            torch.zeros(*batch, n_targets, dtype=torch.float64)
            if architecture.n_neighbors
            else None,
        )
        self.output_warp = (
            OutputWarp(architecture.output_warp, architecture.n_output_terms, n_targets, batch)
            if architecture.output_warp != "none"
            else None
        )
        self.noise_field = (
            NoiseField(n_inputs, architecture.n_noise_frequencies, n_targets, batch)
            if architecture.noise == "input-dependent"
            else None
        )
        self.normal_scores = (
            InputNormalScores(n_inputs, batch) if architecture.inputs == "normal-scores" else None
        )

    @property
    def warped_dim(self) -> int:
        """Q, the dimension of the warped space."""
        return self.spectrum.unit_frequencies.shape[-1]

    @property
    def n_targets(self) -> int:
        """T, the number of targets."""
        return self.log_noise.shape[-1]

    def warp_layers(self) -> list[WarpLayer]:
        """Return the warps, from the inputs up."""
        return [cast(WarpLayer, layer) for layer in self.layers]

    def signal(self) -> Float64[Tensor, "*B T"]:
        """Return s², the prior variance of the top-level weights, for every target."""
        return self.log_signal.exp()

    def noise(self) -> Float64[Tensor, "*B T"]:
        """Return σ², the noise variance of every target; with σ²(x), its value where η(x) = 0."""
        return self.log_noise.exp()

    def degrees(self) -> Float64[Tensor, "*B T"] | None:
        """Return ν > 2, the degrees of freedom of the amplitudes of neighbourhoods; None for one.

        See ``sswim.members.neighbourhood``.
        """
        return None if self.log_degrees is None else MIN_DEGREES + self.log_degrees.exp()

    def factors(self) -> tuple[Factors, NegativeLogPrior]:
        """Return the factors of the model, and the negative log prior of its parameters."""
        warps_prior = torch.zeros(self.batch, dtype=torch.float64, device=self.log_noise.device)
        density_prior = warps_prior
        warps: list[WarpFactors] = []
        for layer in self.warp_layers():
            warp_factors, prior = layer.factors()
            warps.append(warp_factors)
            warps_prior = warps_prior + prior
        output, noise = OutputMap(), None
        if self.output_warp is not None:
            output, prior = self.output_warp.factors()
            density_prior = density_prior + prior
        if self.noise_field is not None:
            noise, prior = self.noise_field.factors()
            density_prior = density_prior + prior
        factors = Factors(
            tuple(warps),
            self.spectrum.frequencies(),
            output,
            noise,
            None if self.normal_scores is None else self.normal_scores.factors(),
            self.spectrum.length_scales() if self.architecture.n_neighbors else None,
        )
        return factors, NegativeLogPrior(warps_prior, density_prior)


def new_warp_layers(
    architecture: Architecture, n_inputs: int, batch: tuple[int, ...] = ()
) -> nn.ModuleList:
    """Make the parameters of all warps; the first one may change the dimension."""
    layers = []
    for number in range(architecture.depth):
        matrix, n_outputs = architecture.warp_matrix, None
        if number == 0 and matrix != "diagonal":
            n_outputs = architecture.warped_dim(n_inputs)
        layers.append(
            WarpLayer(
                n_inputs if number == 0 else architecture.warped_dim(n_inputs),
                architecture.warp_frequencies,
                architecture.n_pseudo,
                architecture.pseudo_prior,
                architecture.warps == "joint",
                batch,
                is_full=matrix == "full",
                n_outputs=n_outputs,
            )
        )
    return nn.ModuleList(layers)


def stack_models(models: Sequence[SSWIM]) -> SSWIM:
    """Copy models into one batch with a new first axis, on the device of the first model."""
    if not models:
        raise ValueError("A batch needs at least one model. Got none.")
    first = models[0]
    if any(_shape(model) != _shape(first) for model in models):
        raise ValueError(
            "Models of a batch must have the same architecture and the same numbers of inputs and "
            "targets. Got models that differ; train these in separate batches."
        )
    stacked = _new_model(first, (len(models), *first.batch))
    states = [model.state_dict() for model in models]
    stacked.load_state_dict(
        {name: torch.stack([state[name] for state in states]) for name in states[0]}
    )
    return stacked


def unstack_models(model: SSWIM) -> list[SSWIM]:
    """Copy the models along the first axis of a batch into models of their own."""
    if not model.batch:
        raise ValueError("Only a batch of models can be taken apart. Got a single model.")
    state = model.state_dict()
    models = []
    for index in range(model.batch[0]):
        member = _new_model(model, model.batch[1:])
        member.load_state_dict({name: tensor[index] for name, tensor in state.items()})
        models.append(member)
    return models


def _shape(model: SSWIM) -> tuple[object, ...]:
    return model.architecture, model.n_inputs, model.n_targets, model.batch


def _new_model(like: SSWIM, batch: tuple[int, ...]) -> SSWIM:
    """Return a model of the same architecture on the same device, with other axes of members."""
    model = SSWIM(like.architecture, like.n_inputs, like.n_targets, batch)
    return model.to(like.log_noise.device)


@dataclass(frozen=True)
class Observations(Record):
    """Rows as the regression uses them."""

    features: Float[Tensor, "*B N F"]
    """Φ, the features."""
    targets: Float64[Tensor, "*#B N T"]
    """z = T(y), the warped targets."""
    log_slope: Float64[Tensor, "*#B N T"]
    """log T'(y), the log slope of the output warp, which turns a density of z into one of y."""
    log_precision: Float64[Tensor, "*#B N T"] | None = None
    """log w, the log precision of input-dependent noise σ²/w; None for constant noise."""
    multiplicity: Float64[Tensor, "*#B N"] | None = None
    """c, the number of times each row counts; None for once."""
    temper: Float64[Tensor, "*#B T"] | None = None
    """τ, the exponent of w in the weights of rows; None for one."""

    def log_weight(self) -> Float64[Tensor, "*B N T"] | None:
        """Return τ·log w, the log weight of a row that counts once; None if all weights are one."""
        if self.log_precision is None or self.temper is None:
            return self.log_precision
        return self.temper[..., None, :] * self.log_precision

    def weight(self) -> Float64[Tensor, "*B N G"] | None:
        """Return the weights c·w^τ of rows; None if all are one.

        There is one column for all targets (G = 1), or one column for each.
        """
        multiplicity = None if self.multiplicity is None else self.multiplicity[..., None]
        log_weight = self.log_weight()
        if log_weight is None:
            return multiplicity
        weight = log_weight.exp()
        return weight if multiplicity is None else multiplicity * weight


def warped_measures(factors: Factors, inputs: Measure) -> list[Measure]:
    """Return the measure of the inputs, and the measures after each warp in turn.

    For a model that uses normal scores, the first measure is that of the normal scores, and all
    measures are in their units.
    """
    n_inputs = factors.n_inputs
    if inputs.mean.shape[-1] != n_inputs:
        raise ValueError(
            f"Rows must have the model's {n_inputs} inputs. Got {inputs.mean.shape[-1]}."
        )
    measures = [inputs if factors.normal_scores is None else factors.normal_scores.forward(inputs)]
    for warp_factors in factors.warps:
        measures.append(warp(warp_factors.to(dtype=inputs.mean.dtype), measures[-1]))
    return measures


def kernel_points(factors: Factors, inputs: Measure) -> Measure:
    """Return the warped inputs in units of the exact kernel's length-scales, in float64.

    Their variance is that of uncertain raw inputs, passed on by the warps. The variance of the
    warps is left out: the kernel of their means predicts better than its expectation.
    """
    assert factors.length_scales is not None
    top = warped_measures(factors, inputs)[-1]
    scales = factors.length_scales[..., None, :]
    points = top.mean.to(torch.float64) / scales
    variance = marginal_variance(replace(top, variance=None))
    if variance is None:
        return Measure(points)
    return Measure(points, variance.to(torch.float64) / scales.square())


def row_features(factors: Factors, inputs: Measure) -> Float[Tensor, "*B N F"]:
    """Return the expected top-level features of rows, in the precision of the inputs."""
    top = warped_measures(factors, inputs)[-1]
    return expected_features(factors.frequencies.to(top.mean.dtype), top)


def log_precision(factors: Factors, inputs: Measure) -> Float64[Tensor, "*B N T"] | None:
    """Return log w = −η(x), where the noise has variance σ²/w; None if it is constant."""
    return None if factors.noise is None else -log_noise_ratio(factors.noise, inputs)


def observe(factors: Factors, rows: Rows) -> Observations:
    """Compute the features, warped targets and noise of rows."""
    targets, log_slope = factors.output.forward(rows.targets)
    return Observations(
        features=row_features(factors, rows.inputs),
        targets=targets,
        log_slope=log_slope,
        log_precision=log_precision(factors, rows.inputs),
        multiplicity=rows.weight,
        temper=None if factors.noise is None else factors.noise.temper,
    )


def with_noise_field(model: SSWIM, field: NoiseField) -> SSWIM:
    """Return a copy of a model with a noise field."""
    architecture = replace(model.architecture, noise="input-dependent")
    noisy = SSWIM(architecture, model.n_inputs, model.n_targets)
    state = {f"noise_field.{name}": value for name, value in field.state_dict().items()}
    noisy.load_state_dict({**model.state_dict(), **state})
    return noisy.to(model.log_noise.device)
