"""Members that left rows out while they were trained, conditioned on all rows and combined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from sswim.chunking import rows_at_once
from sswim.folds import take
from sswim.linear import Posterior, Statistics, posterior
from sswim.model import SSWIM, Factors, log_precision, observe
from sswim.objective import total_statistics
from sswim.predictor import Predictor, predictor
from sswim.record import chunks, concatenate, map_chunks
from sswim.record import stack as stack_records
from sswim.rows import Rows
from sswim.shared_noise import learn_shared_noise, with_noise
from sswim.stacking import OutOfFold, learn_stacking


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
    *,
    weighing: bool = True,
    calibration: bool = True,
    noise: NoiseStart | None = None,
) -> Combined:
    """Weigh members, correct their noise, and condition them on all rows.

    Args:
        models: The members of each kind in turn, one for every fold; their noise levels change.
        rows: All of them, standardised.
        folds: The rows that members left out.
        weighing: Whether the kinds' weights are learnt.
        calibration: Whether their noise levels are corrected.
        noise: From what input-dependent noise starts; None if it is constant.
    """
    totals: list[Statistics] = []
    parts: list[OutOfFold] = []
    for number, model in enumerate(models):
        total, part = _held_out(model, rows, folds[number % len(folds)])
        totals.append(total)
        parts.append(part)
    starts = range(0, len(models), len(folds))
    kinds = stack_records(concatenate(parts[first : first + len(folds)]) for first in starts)
    if rows.weight is not None:
        kinds = replace(kinds, weight=torch.cat([rows.weight[fold] for fold in folds]))
    stacking = learn_stacking(kinds, weigh=weighing, calibrate=calibration)
    for number, model in enumerate(models):
        model.calibration.copy_(stacking.calibration[number // len(folds)])
    combined = list(models)
    if noise is not None:
        inputs = take(rows, torch.cat(list(folds))).inputs
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


def _held_out(model: SSWIM, rows: Rows, fold: Int64[Tensor, " _"]) -> tuple[Statistics, OutOfFold]:
    """The statistics of all rows, and what the model says of a fold given those outside it."""
    factors, _ = model.condition()
    outside = torch.ones(len(rows), dtype=torch.bool, device=fold.device)
    outside[fold] = False
    size = rows_at_once(rows)
    known = total_statistics(factors, chunks(take(rows, outside.nonzero()[:, 0]), size))
    given = posterior(known, model.noise(), model.signal())
    inside = take(rows, fold)
    predictions = map_chunks(lambda chunk: _predict(factors, given, chunk), inside, size)
    return known + total_statistics(factors, chunks(inside, size)), predictions


def _predict(factors: Factors, given: Posterior, rows: Rows) -> OutOfFold:
    seen = observe(factors, rows)
    prediction = given.predict(seen.features, log_precision(factors, rows.inputs))
    return OutOfFold(
        residual=seen.targets - prediction.mean,
        latent_variance=prediction.latent_variance,
        noise=prediction.observation_variance - prediction.latent_variance,
        log_slope=seen.log_slope,
    )
