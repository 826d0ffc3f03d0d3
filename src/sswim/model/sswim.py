"""The model: a stack of warps, a sparse spectrum GP on top of them, noise and an output warp."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from sswim.base.record import Record
from sswim.model.architecture import Architecture
from sswim.model.linear_features import Trend, TrendFactors
from sswim.model.noise_field import NoiseFactors, NoiseField
from sswim.model.normal_scores import InputNormalScores, NormalScores
from sswim.model.output_warp import OutputMap, OutputWarp
from sswim.model.spectrum import Spectrum
from sswim.model.warp import WarpFactors, WarpLayer

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
    trend: TrendFactors | None = None
    """Factors of the linear features; None if there are none."""
    length_scales: Float[Tensor, "*B Q"] | None = None
    """Length-scales of the exact kernel; None if features approximate the kernel."""
    expected_kernel: bool = False
    """Whether the exact kernel is its expectation over the uncertain warps."""

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

    Make a new model with :func:`sswim.start`.

    In a batch of members every parameter has the members' axes ``*B`` in front, and so has
    everything that is computed from it; see ``sswim.model.member_batch.stack_models``.
    """

    calibration: Tensor
    latent_calibration: Tensor
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
        self.register_buffer("calibration", torch.zeros(*batch, n_targets, dtype=torch.float64))
        # a: the function has e^a times its posterior variance, with a learnt in the same way.
        self.register_buffer("latent_calibration", torch.zeros_like(self.calibration))
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
        self.trend = Trend(n_inputs, batch) if architecture.linear else None

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

        See ``sswim.posterior.neighbourhood``.
        """
        return None if self.log_degrees is None else MIN_DEGREES + self.log_degrees.exp()

    def condition(self) -> tuple[Factors, NegativeLogPrior]:
        """Return the factors of the model, and the negative log prior of its parameters."""
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
        factors = Factors(
            tuple(warps),
            self.spectrum.frequencies(),
            output,
            noise,
            None if self.normal_scores is None else self.normal_scores.condition(),
            None if self.trend is None else self.trend.condition(),
            self.spectrum.length_scales() if self.architecture.n_neighbors else None,
            self.architecture.expected_kernel,
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
