"""The model: a stack of warps under a sparse spectrum GP, its noise and its output warp."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, cast

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from sswim.features import expected_features
from sswim.linear import Observations
from sswim.measure import Measure
from sswim.noise import NoiseFactors, NoiseField, log_noise_ratio
from sswim.output_warp import OutputMap, OutputWarp, OutputWarpName
from sswim.record import Record
from sswim.rows import Rows
from sswim.spectral import Draw, Kernel, Spectrum
from sswim.validation import require_choice
from sswim.warp import PseudoPrior, WarpFactors, WarpLayer, warp

NoiseName = Literal["constant", "input-dependent"]


@dataclass(frozen=True)
class Architecture:
    """The choices that fix the shape of a model."""

    depth: int = 1
    """J, the number of warps; 0 is the stationary sparse spectrum GP."""
    n_frequencies: int = 256
    """M, at the top and in every warp; there are F = 2M features."""
    n_pseudo: int = 128
    """K, the pseudo-points of g and of h in every warp."""
    kernel: Kernel = "matern32"
    draw: Draw = "orthogonal"
    pseudo_prior: PseudoPrior = "evidence"
    """The form of the hierarchical prior on the pseudo-targets (see ``PseudoProcess``)."""
    output_warp: OutputWarpName = "none"
    """A learnt monotone map of the targets."""
    n_output_terms: int = 2
    """How many terms that map has."""
    noise: NoiseName = "constant"
    """Input-dependent, it is learnt jointly by ``train``, or after it by ``learn_noise``."""
    n_noise_frequencies: int = 32
    """Of the noise where it depends on the inputs."""

    def __post_init__(self) -> None:
        require_choice("output_warp", self.output_warp, OutputWarpName)
        require_choice("noise", self.noise, NoiseName)
        if self.n_output_terms < 1 or self.n_noise_frequencies < 1:
            raise ValueError(
                "n_output_terms and n_noise_frequencies must be at least 1. "
                f"Got n_output_terms={self.n_output_terms}, "
                f"n_noise_frequencies={self.n_noise_frequencies}."
            )
        require_choice("kernel", self.kernel, Kernel)
        require_choice("draw", self.draw, Draw)
        require_choice("pseudo_prior", self.pseudo_prior, PseudoPrior)
        if self.depth < 0 or self.n_frequencies < 1 or self.n_pseudo < 1:
            raise ValueError(
                "depth must be at least 0, n_frequencies and n_pseudo at least 1. "
                f"Got depth={self.depth}, n_frequencies={self.n_frequencies}, "
                f"n_pseudo={self.n_pseudo}."
            )


@dataclass(frozen=True)
class Factors(Record):
    """All that rows need of a model: small tensors, whatever the number of rows."""

    warps: tuple[WarpFactors, ...]
    frequencies: Float[Tensor, "*B M D"]
    """Ω of the top level."""
    output: OutputMap
    """T"""
    noise: NoiseFactors | None
    """Of log σ²(x)/σ²; None if the noise is constant."""


@dataclass(frozen=True)
class NegativeLogPrior(Record):
    """Of the parameters that have a prior."""

    warps: Float64[Tensor, "*B"]
    """Of all pseudo-targets."""
    density: Float64[Tensor, "*B"]
    """Of the output warp and the noise."""


class SSWIM(nn.Module):
    """The parameters: of the warps, and of the sparse spectrum GP on the warped inputs.

    Parameters are in float64. Start a new model with :func:`start`.

    A batch of members has their axes *B in front of every parameter, and so of all that is made of
    them; see :func:`sswim.members.stack`.
    """

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
        self.layers = nn.ModuleList(
            WarpLayer(
                n_inputs,
                architecture.n_frequencies,
                architecture.n_pseudo,
                architecture.pseudo_prior,
                batch,
            )
            for _ in range(architecture.depth)
        )
        self.spectrum = Spectrum(architecture.n_frequencies, n_inputs, batch)
        self.log_signal = nn.Parameter(torch.zeros(*batch, n_targets, dtype=torch.float64))
        self.log_noise = nn.Parameter(
            torch.full((*batch, n_targets), math.log(0.1), dtype=torch.float64)
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

    @property
    def n_inputs(self) -> int:
        """D"""
        return self.spectrum.unit_frequencies.shape[-1]

    @property
    def n_targets(self) -> int:
        """T"""
        return self.log_noise.shape[-1]

    def warp_layers(self) -> list[WarpLayer]:
        """The warps, from the inputs up."""
        return [cast(WarpLayer, layer) for layer in self.layers]

    def signal(self) -> Float64[Tensor, "*B T"]:
        """s², the prior variance of the top-level weights, for every target."""
        return self.log_signal.exp()

    def noise(self) -> Float64[Tensor, "*B T"]:
        """σ², the variance of the noise, for every target; that of σ²(x) where η(x) = 0."""
        return self.log_noise.exp()

    def condition(self) -> tuple[Factors, NegativeLogPrior]:
        """The factors that rows need, and the negative log prior."""
        warps_prior = torch.zeros(self.batch, dtype=torch.float64, device=self.log_noise.device)
        density_prior = warps_prior
        warps: list[WarpFactors] = []
        for layer in self.warp_layers():
            warp_factors, prior = layer.condition()
            warps.append(warp_factors)
            warps_prior = warps_prior + prior
        output, noise = OutputMap(), None
        if self.output_warp is not None:
            output, prior = self.output_warp.condition()
            density_prior = density_prior + prior
        if self.noise_field is not None:
            noise, prior = self.noise_field.condition()
            density_prior = density_prior + prior
        factors = Factors(tuple(warps), self.spectrum.frequencies(), output, noise)
        return factors, NegativeLogPrior(warps_prior, density_prior)


def start(
    architecture: Architecture,
    sample: Float[Tensor, "S D"],
    n_targets: int,
    generator: torch.Generator,
    length_scale: float | None = None,
) -> SSWIM:
    """A model before training, on the CPU: every warp the identity.

    Args:
        architecture: Its shape.
        sample: Some rows of the inputs (all, or a random choice), for the starts of length-scales
            and pseudo-inputs. Inputs and targets should be standardised.
        n_targets: T.
        generator: A generator on the CPU; it alone decides every draw.
        length_scale: Where all length-scales start, in units of each input's spread; √D by
            default, because distances between standardised rows grow like √D and shorter
            length-scales would make all rows strangers to each other. A function that oscillates
            many times over the rows wants a shorter start.
    """
    sample = sample.detach().to("cpu", torch.float64)
    spread = _spread(sample)
    length_scales = start_length_scales(sample, length_scale)
    model = SSWIM(architecture, sample.shape[1], n_targets)
    kernel, draw = architecture.kernel, architecture.draw
    for layer in model.warp_layers():
        for process in (layer.multiplicative, layer.additive):
            process.spectrum.start(kernel, draw, length_scales, generator)
            process.start(sample, spread, generator)
    model.spectrum.start(kernel, draw, length_scales, generator)
    if model.noise_field is not None:
        model.noise_field.spectrum.start(kernel, draw, length_scales, generator)
    return model


def start_length_scales(
    sample: Float[Tensor, "S D"], length_scale: float | None
) -> Float64[Tensor, " D"]:
    """Where length-scales start; see :func:`start`."""
    sample = sample.detach().to("cpu", torch.float64)
    return _spread(sample) * (math.sqrt(sample.shape[1]) if length_scale is None else length_scale)


def _spread(sample: Float64[Tensor, "S D"]) -> Float64[Tensor, " D"]:
    spread = sample.std(0, correction=0)
    return torch.where(spread > 0, spread, 1.0)  # a constant column has none


def warped(factors: Factors, inputs: Measure) -> list[Measure]:
    """The measures after each warp in turn, beginning with the inputs themselves."""
    n_inputs = factors.frequencies.shape[-1]
    if inputs.mean.shape[-1] != n_inputs:
        raise ValueError(
            f"Rows must have the model's {n_inputs} inputs. Got {inputs.mean.shape[-1]}."
        )
    measures = [inputs]
    for factors_of_warp in factors.warps:
        measures.append(warp(factors_of_warp.to(dtype=inputs.mean.dtype), measures[-1]))
    return measures


def row_features(factors: Factors, inputs: Measure) -> Float[Tensor, "*B N F"]:
    """Expected top-level features of rows, in the precision of the inputs."""
    top = warped(factors, inputs)[-1]
    return expected_features(factors.frequencies.to(top.mean.dtype), top)


def log_precision(factors: Factors, inputs: Measure) -> Float64[Tensor, "*B N T"] | None:
    """log w = −η(x), for noise of variance σ²/w; None if it is constant."""
    return None if factors.noise is None else -log_noise_ratio(factors.noise, inputs)


def observe(factors: Factors, rows: Rows) -> Observations:
    """Rows as the regression sees them: warped inputs' features, warped targets, noise."""
    targets, log_slope = factors.output.forward(rows.targets)
    return Observations(
        features=row_features(factors, rows.inputs),
        targets=targets,
        log_slope=log_slope,
        log_precision=log_precision(factors, rows.inputs),
        multiplicity=rows.weight,
        temper=None if factors.noise is None else factors.noise.temper,
    )
