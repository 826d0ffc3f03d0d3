"""Members that left rows out while they were trained, conditioned on all rows and combined."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from sswim.base.record import concatenate, map_chunks, rows_at_once
from sswim.base.record import stack as stack_records
from sswim.distributed.processes import ALONE, Processes
from sswim.model.observations import log_precision, observe
from sswim.model.sswim import SSWIM, Factors
from sswim.posterior.linear_regression import Posterior, posterior
from sswim.posterior.predictor import Predictor, predictor
from sswim.posterior.statistics import Statistics, all_statistics, total_statistics
from sswim.recipe.shared_noise import learn_shared_noise, with_noise
from sswim.recipe.stacking import OutOfFold, learn_stacking
from sswim.rows.rows import Rows


@dataclass(frozen=True)
class NoiseStart:
    """From what input-dependent noise starts."""

    sample: Float[Tensor, "S D"]
    """Some rows of the inputs."""
    generator: torch.Generator


@dataclass(frozen=True)
class Combined:
    """Members of an ensemble."""

    models: list[SSWIM]
    predictors: tuple[Predictor, ...]
    """Given all rows."""
    weights: Float64[Tensor, " members"]


@torch.no_grad()
def combine(
    models: Sequence[SSWIM],
    rows: Rows,
    folds: Sequence[Int64[Tensor, " _"]],
    everything: Rows | Iterable[Rows] | None = None,
    processes: Processes = ALONE,
    *,
    weighing: bool = True,
    calibration: bool = True,
    noise: NoiseStart | None = None,
) -> Combined:
    """Weigh members, correct their noise, and condition them on all rows.

    Args:
        models: The members of each kind in turn, one for every fold; their noise levels change.
        rows: All of them, or a sample in memory; standardised.
        folds: Which of these members left out.
        everything: All rows, if the others are a sample of them.
        processes: Of whose rows everything is a part; the sample is the same in each.
        weighing: Whether the kinds' weights are learnt.
        calibration: Whether their noise levels are corrected.
        noise: From what input-dependent noise starts; None if it is constant.
    """
    seen = [model.condition()[0] for model in models]
    if everything is None:
        known = [_outside(seen[n], rows, folds[n % len(folds)]) for n in range(len(models))]
    else:
        known = all_statistics(seen, everything, processes)
    totals: list[Statistics] = []
    parts: list[OutOfFold] = []
    for number, (model, factors) in enumerate(zip(models, seen, strict=True)):
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
    stacking = learn_stacking(kinds, weigh=weighing, calibrate=calibration)
    for number, model in enumerate(models):
        model.calibration.copy_(stacking.calibration[number // len(folds)])
    combined = list(models)
    if noise is not None:
        inputs = rows.take(torch.cat(list(folds))).inputs
        architecture = models[0].architecture
        field = learn_shared_noise(
            inputs, kinds, stacking, architecture, noise.sample, noise.generator
        )
        combined = [with_noise(model, field) for model in models]
    pairs = zip(combined, totals, strict=True)
    return Combined(
        combined,
        tuple(predictor(model, total) for model, total in pairs),
        stacking.weights.repeat_interleave(len(folds)) / len(folds),
    )


def _outside(factors: Factors, rows: Rows, fold: Int64[Tensor, " _"]) -> Statistics:
    """The statistics of the rows that are not in a fold.

    Of few rows they are summed up, where those of the fold could be taken from those of all: a
    difference has lost what is below the rounding of the larger.
    """
    outside = torch.ones(len(rows), dtype=torch.bool, device=fold.device)
    outside[fold] = False
    return total_statistics(factors, rows.take(outside.nonzero()[:, 0]))


def _held_out(factors: Factors, given: Posterior, fold: Rows) -> OutOfFold:
    """What a model says of the rows of a fold."""
    return map_chunks(lambda chunk: _predict(factors, given, chunk), fold, rows_at_once(fold))


def _predict(factors: Factors, given: Posterior, rows: Rows) -> OutOfFold:
    seen = observe(factors, rows)
    prediction = given.predict(seen.features, log_precision(factors, rows.inputs))
    return OutOfFold(
        residual=seen.targets - prediction.mean,
        latent_variance=prediction.latent_variance,
        noise=prediction.observation_variance - prediction.latent_variance,
        log_slope=seen.log_slope,
    )
