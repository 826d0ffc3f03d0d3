"""Predictions of rows that a member's hyper-parameters have not seen.

A member leaves a fold of rows out while its hyper-parameters are learnt. Conditioned on the rows
outside the fold, its predictions of the fold are honest. Leave-one-out predictions are not: they
refit the weights of the features, but not the warps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from sswim.base import student_t
from sswim.base.record import Record, concatenate, map_chunks, rows_at_once
from sswim.model.observations import log_precision, observe
from sswim.model.sswim import SSWIM, Factors
from sswim.posterior.density import Density
from sswim.posterior.linear_regression import Posterior
from sswim.posterior.neighbour_predictor import condition_on_rows
from sswim.posterior.prediction import Prediction
from sswim.recipe.folds import outside
from sswim.rows.rows import Rows
from sswim.rows.scaling import no_scaling


@dataclass(frozen=True)
class Calibration(Record):
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
        calibration: Calibration,
        log_noise_ratio: Float64[Tensor, "N T"] | None = None,
    ) -> Float64[Tensor, "N T"]:
        """Return log p(y) with corrected variances, and with noise that varies by a given ratio."""
        noise = self.noise * calibration.noise.exp()
        if log_noise_ratio is not None:
            noise = noise * log_noise_ratio.exp()
        variance = self.latent_variance * calibration.latent.exp() + noise
        if self.rounding is not None:
            variance = variance + self.rounding
        if self.degrees is None:
            squared = self.residual.square() / variance
            return -0.5 * (squared + (2 * math.pi * variance).log()) + self.log_slope
        scale = variance * (1 - 2 / self.degrees)
        density = student_t.log_density(self.residual.square() / scale, self.degrees)
        return density - 0.5 * scale.log() + self.log_slope


def predict_fold(factors: Factors, given: Posterior, fold: Rows) -> OutOfFold:
    """Predict a fold by features, given the posterior of the rows outside it."""
    return map_chunks(lambda chunk: _predict(factors, given, chunk), fold, rows_at_once(fold))


def _predict(factors: Factors, given: Posterior, rows: Rows) -> OutOfFold:
    observed = observe(factors, rows)
    prediction = given.predict(observed.features, log_precision(factors, rows.inputs))
    return OutOfFold(
        residual=observed.targets - prediction.mean,
        latent_variance=prediction.latent_variance,
        noise=prediction.observation_variance - prediction.latent_variance,
        log_slope=observed.log_slope,
        error=_error(prediction, factors, rows),
    )


def _error(prediction: Prediction, factors: Factors, rows: Rows) -> Float64[Tensor, "N T"]:
    """Return E y − y, for standardised targets y."""
    scaling = no_scaling(rows).to(device=rows.targets.device)
    return Density(prediction, factors.output, scaling).mean - rows.targets


def predict_folds_by_neighbours(
    models: Sequence[SSWIM], kept: Rows, rows: Rows, folds: Sequence[Int64[Tensor, " _"]]
) -> OutOfFold:
    """Predict folds from the nearest rows outside each.

    Args:
        models: One model for each fold, or one that left them all out.
        kept: All rows.
        rows: The rows that the folds are of.
        folds: The folds.
    """
    parts = []
    for number, fold in enumerate(folds):
        inside = rows.take(fold)
        model = models[number % len(models)]
        parts.append(_predict_by_neighbours(model, outside(kept, inside), inside))
    return concatenate(parts)


def _predict_by_neighbours(model: SSWIM, known: Rows, fold: Rows) -> OutOfFold:
    predictor = condition_on_rows(model, known)
    prediction = predictor.predict(fold.inputs)
    targets, log_slope = predictor.factors.output.forward(fold.targets)
    rounding = predictor.rounding_variance(prediction)
    noise = prediction.observation_variance - prediction.latent_variance - rounding
    return OutOfFold(
        residual=targets - prediction.mean,
        latent_variance=prediction.latent_variance,
        noise=noise.clamp(min=torch.finfo(torch.float64).tiny),
        log_slope=log_slope,
        error=_error(prediction, predictor.factors, fold),
        rounding=rounding,
        degrees=prediction.degrees,
    )
