"""Cross-fitting: members that left rows out in training are weighted, then given all rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from sswim.base.record import concatenate, map_chunks, rows_at_once, stack_records
from sswim.distributed.processes import ALONE, Processes
from sswim.model.observations import log_precision, observe
from sswim.model.sswim import SSWIM, Factors
from sswim.posterior.feature_predictor import condition_on_statistics
from sswim.posterior.linear_regression import Posterior, posterior
from sswim.posterior.predictor import Predictor
from sswim.posterior.statistics import Statistics, member_statistics, total_statistics
from sswim.recipe.shared_noise import learn_shared_noise
from sswim.recipe.stacking import OutOfFold, learn_stacking
from sswim.rows.rows import Rows
from sswim.training.noise_fit import with_noise_field


@dataclass(frozen=True)
class NoiseStart:
    """The start of input-dependent noise."""

    sample: Float[Tensor, "S D"]
    """Some rows of the inputs, for the start of length-scales."""
    generator: torch.Generator


@dataclass(frozen=True)
class Combined:
    """The members of an ensemble."""

    models: list[SSWIM]
    predictors: tuple[Predictor, ...]
    """The members conditioned on all rows."""
    weights: Float64[Tensor, " members"]


@torch.no_grad()
def combine_kinds(
    models: Sequence[SSWIM],
    rows: Rows,
    folds: Sequence[Int64[Tensor, " _"]],
    everything: Rows | Iterable[Rows] | None = None,
    processes: Processes = ALONE,
    *,
    stack: bool = True,
    calibrate: bool = True,
    noise: NoiseStart | None = None,
) -> Combined:
    """Learn weights and noise levels of kinds, and condition their members on all rows.

    Args:
        models: The members of each kind in turn, one for every fold; their noise levels change.
        rows: All standardised rows, or a sample of them in memory.
        folds: The rows that the members left out.
        everything: All rows, if ``rows`` is a sample.
        processes: The processes that share ``everything``; the sample is the same in each.
        stack: Whether the weights of kinds are learnt.
        calibrate: Whether noise levels are corrected.
        noise: Start of input-dependent noise; None for constant noise.
    """
    member_factors = [model.condition()[0] for model in models]
    if everything is None:
        known = [
            _statistics_outside(member_factors[n], rows, folds[n % len(folds)])
            for n in range(len(models))
        ]
    else:
        known = member_statistics(member_factors, everything, processes)
    totals: list[Statistics] = []
    parts: list[OutOfFold] = []
    for number, (model, factors) in enumerate(zip(models, member_factors, strict=True)):
        inside = rows.take(folds[number % len(folds)])
        of_fold = total_statistics(factors, inside)
        if everything is None:
            totals.append(known[number] + of_fold)
        else:
            totals.append(known[number])
            known[number] = known[number] - of_fold
        given = posterior(known[number], model.noise(), model.signal())
        parts.append(_held_out(factors, given, inside))
    starts = range(0, len(models), len(folds))
    kinds = stack_records(concatenate(parts[first : first + len(folds)]) for first in starts)
    if rows.weight is not None:
        kinds = replace(kinds, weight=torch.cat([rows.weight[fold] for fold in folds]))
    stacking = learn_stacking(kinds, stack=stack, calibrate=calibrate)
    for number, model in enumerate(models):
        model.calibration.copy_(stacking.calibration[number // len(folds)])
    combined = list(models)
    if noise is not None:
        inputs = rows.take(torch.cat(list(folds))).inputs
        architecture = models[0].architecture
        field = learn_shared_noise(
            inputs, kinds, stacking, architecture, noise.sample, noise.generator
        )
        combined = [with_noise_field(model, field) for model in models]
    pairs = zip(combined, totals, strict=True)
    return Combined(
        combined,
        tuple(condition_on_statistics(model, total) for model, total in pairs),
        stacking.weights.repeat_interleave(len(folds)) / len(folds),
    )


def _statistics_outside(factors: Factors, rows: Rows, fold: Int64[Tensor, " _"]) -> Statistics:
    """Return the statistics of the rows outside a fold.

    They are summed rather than computed as a difference of statistics, which would lose what is
    below the rounding of the total.
    """
    outside = torch.ones(len(rows), dtype=torch.bool, device=fold.device)
    outside[fold] = False
    return total_statistics(factors, rows.take(outside.nonzero()[:, 0]))


def _held_out(factors: Factors, given: Posterior, fold: Rows) -> OutOfFold:
    """Predict the rows of a fold."""
    return map_chunks(lambda chunk: _predict(factors, given, chunk), fold, rows_at_once(fold))


def _predict(factors: Factors, given: Posterior, rows: Rows) -> OutOfFold:
    observed = observe(factors, rows)
    prediction = given.predict(observed.features, log_precision(factors, rows.inputs))
    return OutOfFold(
        residual=observed.targets - prediction.mean,
        latent_variance=prediction.latent_variance,
        noise=prediction.observation_variance - prediction.latent_variance,
        log_slope=observed.log_slope,
    )
