"""The model: a stack of warps under a sparse spectrum GP, its noise and its output warp."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from sswim.base.record import Record
from sswim.model.architecture import Architecture
from sswim.model.linear_features import (
    LinearTerms,
    Trend,
)
from sswim.model.noise_field import NoiseFactors, NoiseField
from sswim.model.normal_scores import InputNormalScores, NormalScores
from sswim.model.output_warp import OutputMap, OutputWarp
from sswim.model.spectrum import Spectrum
from sswim.model.warp import WarpFactors, WarpLayer


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
    normal_scores: NormalScores | None = None
    """Of the inputs; None if they are seen as they are."""
    trend: LinearTerms | None = None
    """Of the linear features, if there are any."""


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
    them; see :func:`sswim.model.member_batch.stack`.
    """

    calibration: Tensor

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
                architecture.warp_frequencies,
                architecture.n_pseudo,
                architecture.pseudo_prior,
                architecture.warps == "joint",
                batch,
            )
            for _ in range(architecture.depth)
        )
        self.spectrum = Spectrum(architecture.n_frequencies, n_inputs, batch)
        self.log_signal = nn.Parameter(torch.zeros(*batch, n_targets, dtype=torch.float64))
        self.log_noise = nn.Parameter(
            torch.full((*batch, n_targets), math.log(0.1), dtype=torch.float64)
        )
        # c: what the noise of observations turned out to be, on rows that training did not see.
        self.register_buffer("calibration", torch.zeros(*batch, n_targets, dtype=torch.float64))
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
        factors = Factors(
            tuple(warps),
            self.spectrum.frequencies(),
            output,
            noise,
            None if self.normal_scores is None else self.normal_scores.condition(),
            None if self.trend is None else self.trend.condition(),
        )
        return factors, NegativeLogPrior(warps_prior, density_prior)
