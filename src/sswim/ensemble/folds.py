"""Folds: the rows that members leave out while their hyper-parameters are learnt.

Predictions of rows that a member's hyper-parameters have not seen.

A member leaves a fold of rows out while its hyper-parameters are learnt. Conditioned on the rows
outside the fold, its predictions of the fold are honest. Leave-one-out predictions are not: they
refit the weights of the features, but not the warps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from sswim.base import student_t
from sswim.base.record import Record, concatenate, map_chunks, rows_at_once, stack_records
from sswim.ensemble.plan import FEW_ROWS
from sswim.members.density import Density
from sswim.members.linear_regression import Posterior, Prediction
from sswim.members.model import SSWIM, Factors
from sswim.members.neighbour_predictor import condition_on_rows
from sswim.members.observations import log_precision, observe
from sswim.rows.rows import Rows, row_keys
from sswim.rows.scaling import no_scaling

PARTS, PARTS_OF_FEW = 8, 4
"""A member leaves out at most one row in this many; of few rows more, because weights need them."""

MAX_TRAINING_ROWS = 50_000
"""Largest number of rows to learn hyper-parameters from; more cost time and change little."""

MAX_FOLD_ROWS = 5000
"""Largest number of distinct rows of a fold: enough for weights and noise levels."""

MIN_ROWS = 24
"""Smallest number of distinct rows for which there are folds."""


def draw_folds(
    rows: Rows, n_folds: int, generator: torch.Generator
) -> list[Int64[Tensor, " _"]] | None:
    """Draw disjoint folds, each a quarter of few rows or less of more; None for too few rows.

    Rows with equal inputs stay together, so that no row is predicted from its own copy, and a row
    of weight two is the same as the row twice.
    """
    distinct, group = rows.inputs.mean.unique(dim=0, return_inverse=True)
    if len(distinct) < MIN_ROWS:
        return None
    parts = PARTS_OF_FEW if len(distinct) < FEW_ROWS else PARTS
    size = min(len(distinct) // max(parts, n_folds), MAX_FOLD_ROWS)
    order = torch.randperm(len(distinct), generator=generator).to(group.device)
    chosen = order[: n_folds * size].split(size)
    return [torch.isin(group, fold).nonzero()[:, 0] for fold in chosen]


def outside(rows: Rows, fold: Rows) -> Rows:
    """Return the rows whose inputs are not those of any row of a fold."""
    keys = row_keys(rows.inputs.mean.to(torch.float64))
    return rows.take(
        (~torch.isin(keys, row_keys(fold.inputs.mean.to(torch.float64)))).nonzero()[:, 0]
    )


def leave_out(rows: Rows, folds: Sequence[Int64[Tensor, " _"]], generator: torch.Generator) -> Rows:
    """Return the rows outside each fold, or a random choice of many, along an axis of members.

    Where copies of rows make folds of different sizes, shorter ones are filled with rows of weight
    zero.
    """
    everything = torch.arange(len(rows), device=rows.targets.device)
    kept = [_at_most(everything[~torch.isin(everything, fold)], generator) for fold in folds]
    most = max(len(indices) for indices in kept)
    if all(len(indices) == most for indices in kept):
        return stack_records(rows.take(indices) for indices in kept)
    weight = rows.targets.new_ones(len(rows)) if rows.weight is None else rows.weight
    parts = []
    for indices in kept:
        filling = indices[:1].expand(most - len(indices))
        part = replace(rows, weight=weight).take(torch.cat((indices, filling)))
        assert part.weight is not None
        part.weight[len(indices) :] = 0
        parts.append(part)
    return stack_records(parts)


def _at_most(indices: Int64[Tensor, " n"], generator: torch.Generator) -> Int64[Tensor, " m"]:
    if len(indices) <= MAX_TRAINING_ROWS:
        return indices
    chosen = torch.randperm(len(indices), generator=generator)[:MAX_TRAINING_ROWS]
    return indices[chosen.to(indices.device)]


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
