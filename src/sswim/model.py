"""The model: a stack of warps under a sparse spectrum GP."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from sswim.features import expected_features
from sswim.measure import Measure
from sswim.record import Record
from sswim.spectral import Draw, Kernel, Spectrum
from sswim.validation import require_choice
from sswim.warp import PseudoPrior, WarpFactors, WarpLayer, warp


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

    def __post_init__(self) -> None:
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
    frequencies: Float[Tensor, "M D"]
    """Ω of the top level."""


class SSWIM(nn.Module):
    """The parameters: of the warps, and of the sparse spectrum GP on the warped inputs.

    Parameters are in float64. Start a new model with :func:`start`.
    """

    def __init__(self, architecture: Architecture, n_inputs: int, n_targets: int) -> None:
        super().__init__()
        self.architecture = architecture
        self.layers = nn.ModuleList(
            WarpLayer(
                n_inputs,
                architecture.n_frequencies,
                architecture.n_pseudo,
                architecture.pseudo_prior,
            )
            for _ in range(architecture.depth)
        )
        self.spectrum = Spectrum(architecture.n_frequencies, n_inputs)
        self.log_signal = nn.Parameter(torch.zeros(n_targets, dtype=torch.float64))
        self.log_noise = nn.Parameter(torch.full((n_targets,), math.log(0.1), dtype=torch.float64))

    @property
    def n_inputs(self) -> int:
        """D"""
        return self.spectrum.unit_frequencies.shape[1]

    @property
    def n_targets(self) -> int:
        """T"""
        return len(self.log_noise)

    def warp_layers(self) -> list[WarpLayer]:
        """The warps, from the inputs up."""
        return [cast(WarpLayer, layer) for layer in self.layers]

    def signal(self) -> Float64[Tensor, " T"]:
        """s², the prior variance of the top-level weights, for every target."""
        return self.log_signal.exp()

    def noise(self) -> Float64[Tensor, " T"]:
        """σ², the variance of the noise, for every target."""
        return self.log_noise.exp()

    def condition(self) -> tuple[Factors, Float64[Tensor, ""]]:
        """The factors that rows need, and the negative log prior of all pseudo-targets."""
        conditioned = [layer.condition() for layer in self.warp_layers()]
        negative_log_prior = torch.zeros((), dtype=torch.float64, device=self.log_noise.device)
        for _, layer_prior in conditioned:
            negative_log_prior = negative_log_prior + layer_prior
        warps = tuple(factors for factors, _ in conditioned)
        return Factors(warps, self.spectrum.frequencies()), negative_log_prior


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
    spread = sample.std(0, correction=0)
    spread = torch.where(spread > 0, spread, 1.0)  # a constant column has none
    n_inputs = sample.shape[1]
    length_scales = spread * (math.sqrt(n_inputs) if length_scale is None else length_scale)
    model = SSWIM(architecture, n_inputs, n_targets)
    kernel, draw = architecture.kernel, architecture.draw
    for layer in model.warp_layers():
        for process in (layer.multiplicative, layer.additive):
            process.spectrum.start(kernel, draw, length_scales, generator)
            process.start(sample, spread, generator)
    model.spectrum.start(kernel, draw, length_scales, generator)
    return model


def warped(factors: Factors, inputs: Measure) -> list[Measure]:
    """The measures after each warp in turn, beginning with the inputs themselves."""
    n_inputs = factors.frequencies.shape[1]
    if inputs.mean.shape[-1] != n_inputs:
        raise ValueError(
            f"Rows must have the model's {n_inputs} inputs. Got {inputs.mean.shape[-1]}."
        )
    measures = [inputs]
    for factors_of_warp in factors.to(dtype=inputs.mean.dtype).warps:
        measures.append(warp(factors_of_warp, measures[-1]))
    return measures


def row_features(factors: Factors, inputs: Measure) -> Float[Tensor, "N F"]:
    """Expected top-level features of rows, in the precision of the inputs."""
    top = warped(factors, inputs)[-1]
    return expected_features(factors.frequencies.to(top.mean.dtype), top)
