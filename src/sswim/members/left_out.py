"""Predictions of rows that a member's hyper-parameters have not seen.

A member leaves a fold of rows out while its hyper-parameters are learnt. Conditioned on the rows
outside the fold, its predictions of the fold are honest. Leave-one-out predictions are not: they
refit the weights of the features, but not the warps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base import student_t
from sswim.base.record import Record
from sswim.members.density import Density
from sswim.members.linear_regression import Prediction
from sswim.rows.rows import Rows
from sswim.rows.scaling import no_scaling
from sswim.warps.output_warp import OutputMap


@dataclass(frozen=True)
class Correction(Record):
    """Corrections of a kind's predictions, for every target."""

    noise: Float64[Tensor, " T"]
    """c: the noise variance is multiplied by e^c."""
    latent: Float64[Tensor, " T"]
    """a: the variance of the function is multiplied by e^a."""


@dataclass(frozen=True)
class OutOfFold(Record):
    """A kind's predictions of z = T(y) for rows that its hyper-parameters did not see."""

    residual: Float64[Tensor, "N T"]
    """z − μ, the residuals."""
    latent_variance: Float64[Tensor, "N T"]
    """v, the variance of the function."""
    noise: Float64[Tensor, "N T"]
    """σ², the variance of the noise."""
    log_slope: Float64[Tensor, "N T"]
    """log T'(y)"""
    error: Float64[Tensor, "N T"]
    """E y − y, the errors of the means of standardised targets."""
    rounding: Float64[Tensor, "N T"] | None = None
    """Variance of the rounding of targets, which is not corrected; None for none."""
    degrees: Float64[Tensor, "N T"] | None = None
    """Degrees of freedom of Student-t predictions; None for Gaussian ones."""

    @property
    def is_finite(self) -> bool:
        """Whether every prediction is finite."""
        return all(bool(tensor.isfinite().all()) for tensor in self.tensors())

    def log_density(
        self,
        correction: Correction,
        log_noise_ratio: Float64[Tensor, "N T"] | None = None,
    ) -> Float64[Tensor, "N T"]:
        """Return log p(y) with corrected variances, and with noise that varies by a given ratio."""
        noise = self.noise * correction.noise.exp()
        if log_noise_ratio is not None:
            noise = noise * log_noise_ratio.exp()
        variance = self.latent_variance * correction.latent.exp() + noise
        if self.rounding is not None:
            variance = variance + self.rounding
        if self.degrees is None:
            squared = self.residual.square() / variance
            return -0.5 * (squared + (2 * math.pi * variance).log()) + self.log_slope
        scale = variance * (1 - 2 / self.degrees)
        density = student_t.log_density(self.residual.square() / scale, self.degrees)
        return density - 0.5 * scale.log() + self.log_slope


def out_of_fold(
    prediction: Prediction,
    output: OutputMap,
    rows: Rows,
    rounding: Float64[Tensor, "N T"] | None = None,
) -> OutOfFold:
    """Compare a member's predictions of z = T(y) with the targets of rows.

    Args:
        prediction: Predictions of z, given rows outside the fold.
        output: T, the member's output warp.
        rows: Rows of the fold.
        rounding: The part of the predicted variance that comes from rounded targets.
    """
    targets, log_slope = output.forward(rows.targets)
    noise = prediction.observation_variance - prediction.latent_variance
    if rounding is not None:
        noise = (noise - rounding).clamp(min=torch.finfo(torch.float64).tiny)
    scaling = no_scaling(rows).to(device=rows.targets.device)
    return OutOfFold(
        residual=targets - prediction.mean,
        latent_variance=prediction.latent_variance,
        noise=noise,
        log_slope=log_slope,
        error=Density(prediction, output, scaling).mean - rows.targets,
        rounding=rounding,
        degrees=prediction.degrees,
    )
