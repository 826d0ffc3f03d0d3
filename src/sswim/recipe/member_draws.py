"""Drawing the members of an ensemble: their folds, their starts, and the batches they train in."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from sswim.base.random_state import draw_generator
from sswim.model.architecture import Architecture
from sswim.model.member_batch import stack_models
from sswim.model.sswim import SSWIM
from sswim.model.start import start
from sswim.recipe.folds import draw_folds, leave_out
from sswim.recipe.plan import Kind, Plan
from sswim.recipe.screening import StartingPoint, starting_points
from sswim.rows.rows import Rows
from sswim.rows.stream import Stream
from sswim.rows.target_checks import target_resolution
from sswim.rows.training_rows import TrainingRows
from sswim.training.chunk_sizes import members_together
from sswim.training.member_training import Batch, in_precision

START_SAMPLE_ROWS = 50_000
"""Largest number of rows used to start length-scales and pseudo-points."""

SINGLE_MIN_RIDGE = 1e-4
"""Smallest λ = σ²/s² at the start for which features in single precision are used."""

SINGLE_MIN_ROWS = 256
"""Smallest number of rows for which single precision is used; fewer are fast in double."""


@dataclass(frozen=True)
class DrawnMembers:
    """Members before training."""

    batches: list[Batch]
    folds: list[Int64[Tensor, " _"]] | None
    """Rows that the members of each kind leave out, one fold per member; None for none."""


def draw_members(plan: Plan, rows: TrainingRows, random: np.random.RandomState) -> DrawnMembers:
    """Draw all members of a plan: their folds, frequencies and pseudo-points."""
    folds = None
    seen: Rows | Stream = rows.everything
    if plan.cross_fitting or deals_members(plan, rows):
        seen = rows.device_sample
    if plan.cross_fitting:
        generator = draw_generator(random)
        folds = draw_folds(rows.sample, plan.n_members, generator)
        if folds is not None:
            folds = [fold.to(rows.device) for fold in folds]
            seen = leave_out(rows.device_sample, folds, generator)
    starts: Mapping[str, StartingPoint] = {}
    if plan.screening:
        generator = draw_generator(random)
        architectures = [kind.architecture for kind in plan.kinds]
        sample = start_sample(rows.sample, generator)
        starts = starting_points(architectures, rows.sample, sample, generator)
    seen = in_precision(seen, _precision(plan, starts, rows.n_rows))
    batches = [
        batch
        for number, kind in enumerate(plan.kinds)
        for batch in _batches(kind, number * plan.n_members, plan, rows, seen, starts, random)
    ]
    return DrawnMembers(batches, folds)


def deals_members(plan: Plan, rows: TrainingRows) -> bool:
    """Return whether members are dealt to processes, which all have their rows; else rows are."""
    has_rows = plan.cross_fitting or (rows.complete and plan.total_members > 1)
    return rows.processes.size > 1 and has_rows


def members_per_process(plan: Plan, rows: TrainingRows) -> int:
    """Return about how many members one process trains, alone or with the others."""
    n_members = plan.total_members
    return math.ceil(n_members / rows.processes.size) if deals_members(plan, rows) else n_members


def start_sample(rows: Rows, generator: torch.Generator) -> Float[Tensor, "S D"]:
    """Return distinct inputs of rows that count, sorted.

    A row of weight two is therefore the same as the row twice, and the order of rows is irrelevant.
    """
    inputs = rows.inputs.mean if rows.weight is None else rows.inputs.mean[rows.weight > 0]
    if len(inputs) > START_SAMPLE_ROWS:
        inputs = inputs[torch.randperm(len(inputs), generator=generator)[:START_SAMPLE_ROWS]]
    return inputs.unique(dim=0)


def _precision(plan: Plan, starts: Mapping[str, StartingPoint], n_rows: int) -> torch.dtype:
    """Return the precision of the features in training."""
    if plan.precision != "by noise":
        return torch.float32 if plan.precision == "float32" else torch.float64
    ridges = [(point.noise / point.signal).min().item() for point in starts.values()]
    single = bool(starts) and min(ridges) > SINGLE_MIN_RIDGE and n_rows >= SINGLE_MIN_ROWS
    return torch.float32 if single else torch.float64


def _batches(
    kind: Kind,
    number: int,
    plan: Plan,
    rows: TrainingRows,
    seen: Rows | Stream,
    starts: Mapping[str, StartingPoint],
    random: np.random.RandomState,
) -> Iterator[Batch]:
    """Yield the members of a kind in batches whose size makes training fast.

    Args:
        kind: The kind of the members.
        number: Number of the first of them among all members.
        plan: The plan of the fit.
        rows: The rows of the fit, to start from.
        seen: The rows to train on, shared by all members or one set for each.
        starts: Where training starts, by what members see of the inputs.
        random: Random state that seeds the members.
    """
    architecture = replace(kind.architecture, noise="constant")  # its variation is learnt last
    own_rows = isinstance(seen, Rows) and seen.axis > 0
    n_rows = len(seen) if isinstance(seen, Rows) and own_rows else rows.n_rows
    inputs = seen.inputs if isinstance(seen, Rows) else rows.sample.inputs
    size = 1
    if not plan.by_neighbours:
        size = members_together(architecture, inputs, n_rows, plan.n_members)
    for first in range(0, plan.n_members, size):
        last = min(first + size, plan.n_members)
        models = [_start(architecture, plan, rows, starts, random) for _ in range(first, last)]
        # A model alone is faster than a batch of one.
        model = models[0] if len(models) == 1 else stack_models(models)
        batch_rows = seen
        if isinstance(seen, Rows) and own_rows:
            batch_rows = seen.map(itemgetter(slice(first, last) if model.batch else first))
        seed = int(random.randint(2**31)) if plan.by_neighbours else 0
        yield Batch(number + first, model.to(rows.device), batch_rows, kind.objective, seed)


def _start(
    architecture: Architecture,
    plan: Plan,
    rows: TrainingRows,
    starts: Mapping[str, StartingPoint],
    random: np.random.RandomState,
) -> SSWIM:
    """Draw one member before training, on the CPU."""
    generator = draw_generator(random)
    sample = start_sample(rows.sample, generator)
    n_targets = rows.sample.targets.shape[1]
    point = starts.get(architecture.inputs)
    if point is None:
        model = start(architecture, sample, n_targets, generator, plan.length_scale)
    else:
        model = start(
            architecture,
            sample,
            n_targets,
            generator,
            point.length_scale,
            signal=point.signal,
            noise=point.noise,
        )
    if plan.by_neighbours:
        model.resolution.copy_(target_resolution(rows.sample))
    if model.output_warp is not None and (plan.cross_fitting or plan.by_neighbours):
        model.output_warp.set_range(rows.lowest, rows.highest)
    return model
