"""Drawing the members of an ensemble: their folds, their starts, and the batches they train in."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from sswim.base.validation import draw_generator
from sswim.ensemble.folds import draw_folds, leave_out, outside
from sswim.ensemble.plan import Kind, Plan
from sswim.members.architecture import Architecture
from sswim.members.member_training import Batch, in_precision
from sswim.members.model import SSWIM, stack_models
from sswim.members.objective import members_together
from sswim.members.screening import StartingPoint, starting_points
from sswim.members.start import start
from sswim.members.supervised_directions import supervised_directions
from sswim.rows.rows import Rows
from sswim.rows.summary import target_resolution
from sswim.rows.training_rows import Stream, TrainingRows
from sswim.warps.normal_scores import learn_normal_scores

START_SAMPLE_ROWS = 50_000
"""Largest number of rows used to start length-scales and pseudo-points."""

SINGLE_MIN_RIDGE = 1e-4
"""Smallest λ = σ²/s² at the start for which features in single precision are used."""

SINGLE_MIN_ROWS = 256
"""Smallest number of rows for which single precision is used; fewer are fast in double."""


NO_SIGNAL = 1e-10
"""s² of the mean of all rows, in units of the variance of the targets."""


@dataclass(frozen=True)
class DrawnMembers:
    """Members before training."""

    batches: list[Batch]
    folds: list[Int64[Tensor, " _"]] | None
    """Rows of the sample that the members of each kind leave out; None for none."""


@dataclass(frozen=True)
class _Draw:
    """Plan, rows, folds, starts and random state, from which all members are drawn."""

    plan: Plan
    rows: TrainingRows
    folds: list[Int64[Tensor, " _"]] | None
    starts: Mapping[str, StartingPoint]
    random: np.random.RandomState


def draw_members(plan: Plan, rows: TrainingRows, random: np.random.RandomState) -> DrawnMembers:
    """Draw all members of a plan: their folds, frequencies and pseudo-points."""
    folds = None
    if plan.cross_fitting:
        folds = draw_folds(rows.sample, plan.n_folds, draw_generator(random))
        if folds is not None:
            folds = [fold.to(rows.device) for fold in folds]
    starts: Mapping[str, StartingPoint] = {}
    if plan.screening:
        generator = draw_generator(random)
        architectures = [
            kind.architecture for kind in plan.kinds if not kind.by_neighbours and not kind.is_mean
        ]
        sample = start_sample(rows.sample, generator)
        starts = starting_points(architectures, rows.sample, sample, generator)
    draw = _Draw(plan, rows, folds, starts, random)
    batches: list[Batch] = []
    first = 0
    for kind in plan.kinds:
        make = _neighbour_batches if kind.by_neighbours else _feature_batches
        batches += make(kind, first, draw)
        first += kind.n_members
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


def _neighbour_batches(kind: Kind, number: int, draw: _Draw) -> Iterator[Batch]:
    """Yield the members of a kind that predicts by neighbours, each by itself.

    If there are fewer members than folds, each leaves out several folds; a kind with one member
    leaves out all, so that it need not be trained again for each.

    Args:
        kind: The kind of the members.
        number: Number of the first of them among all members.
        draw: What they are drawn from.
    """
    rows, folds = draw.rows, draw.folds
    kept = rows.kept
    assert kept is not None
    dtype = torch.float64 if draw.plan.precision == "float64" else torch.float32
    for member in range(kind.n_members):
        seen, left_out = kept, None
        if folds is not None:
            left_out = torch.cat(folds[member :: kind.n_members])
            seen = outside(kept, rows.device_sample.take(left_out))
        seen = replace(seen, inputs=seen.inputs.to(dtype=dtype))
        model = _start(kind, draw, left_out).to(rows.device)
        seed = int(draw.random.randint(2**31))
        yield Batch(number + member, model, seen, kind.objective, kind.optimiser, seed)


def _feature_batches(kind: Kind, number: int, draw: _Draw) -> Iterator[Batch]:
    """Yield the members of a kind that predicts by features, in batches that train fast.

    Args:
        kind: The kind of the members.
        number: Number of the first of them among all members.
        draw: What they are drawn from.
    """
    plan, rows = draw.plan, draw.rows
    seen: Rows | Stream = rows.everything
    if plan.cross_fitting or deals_members(plan, rows):
        seen = rows.device_sample
    folds: list[Int64[Tensor, " _"] | None] = [None] * kind.n_members
    if draw.folds is not None:
        chosen = [draw.folds[member % len(draw.folds)] for member in range(kind.n_members)]
        seen = leave_out(rows.device_sample, chosen, draw_generator(draw.random))
        folds = list(chosen)
    seen = in_precision(seen, _precision(plan, draw.starts, rows.n_rows))
    own_rows = isinstance(seen, Rows) and seen.axis > 0
    n_rows = len(seen) if isinstance(seen, Rows) and own_rows else rows.n_rows
    inputs = seen.inputs if isinstance(seen, Rows) else rows.sample.inputs
    architecture = kind.architecture
    size = members_together(architecture, inputs, n_rows, kind.n_members)
    for first in range(0, kind.n_members, size):
        last = min(first + size, kind.n_members)
        models = [_start(kind, draw, fold) for fold in folds[first:last]]
        # A model alone is faster than a batch of one.
        model = models[0] if len(models) == 1 else stack_models(models)
        batch_rows = seen
        if isinstance(seen, Rows) and own_rows:
            batch_rows = seen.map(itemgetter(slice(first, last) if model.batch else first))
        model = model.to(rows.device)
        yield Batch(number + first, model, batch_rows, kind.objective, kind.optimiser)


def _precision(plan: Plan, starts: Mapping[str, StartingPoint], n_rows: int) -> torch.dtype:
    """Return the precision of the features in training."""
    if plan.precision != "by noise":
        return torch.float32 if plan.precision == "float32" else torch.float64
    ridges = [(point.noise / point.signal).min().item() for point in starts.values()]
    single = bool(starts) and min(ridges) > SINGLE_MIN_RIDGE and n_rows >= SINGLE_MIN_ROWS
    return torch.float32 if single else torch.float64


def _start(kind: Kind, draw: _Draw, left_out: Int64[Tensor, " _"] | None) -> SSWIM:
    """Draw one member before training, on the CPU; the variation of its noise is learnt last.

    Args:
        kind: The kind of the member.
        draw: What it is drawn from.
        left_out: Rows of the sample that it leaves out; None for none.
    """
    architecture = replace(kind.architecture, noise="constant")
    plan, rows = draw.plan, draw.rows
    generator = draw_generator(draw.random)
    sample = start_sample(rows.sample, generator)
    n_targets = rows.sample.targets.shape[1]
    by_neighbours = kind.by_neighbours
    point = None if by_neighbours else draw.starts.get(architecture.inputs)
    if point is not None and architecture.depth > 1:
        # Warps can make a long length-scale short where it must be; so not all starts are alike.
        usual = math.sqrt(sample.shape[1])
        point = replace(point, length_scale=math.sqrt(point.length_scale * usual))
    if kind.is_mean:
        one = torch.ones(n_targets, dtype=torch.float64)
        point = StartingPoint(math.sqrt(sample.shape[1]), NO_SIGNAL * one, one)
    directions = None
    if architecture.warp_matrix != "diagonal":
        directions = _directions(architecture, sample, rows.sample, left_out, generator)
        directions = rows.processes.broadcast(directions)  # the same to the last bit
        if point is not None:
            # Distances between rows are √(Q/D) times as long after the projection.
            shorter = point.length_scale * math.sqrt(len(directions) / sample.shape[1])
            point = replace(point, length_scale=shorter)
    model = start(
        architecture,
        sample,
        n_targets,
        generator,
        plan.length_scale if point is None else point.length_scale,
        signal=None if point is None else point.signal,
        noise=None if point is None else point.noise,
        directions=directions,
    )
    if by_neighbours:
        model.resolution.copy_(target_resolution(rows.sample))
    if model.output_warp is not None and (plan.cross_fitting or by_neighbours):
        model.output_warp.set_range(rows.lowest, rows.highest)
    return model


def _directions(
    architecture: Architecture,
    sample: Float[Tensor, "S D"],
    rows: Rows,
    left_out: Int64[Tensor, " _"] | None,
    generator: torch.Generator,
) -> Float64[Tensor, "Q D"]:
    """Return the start of P, learnt from the rows that the member does not leave out."""
    n_inputs = sample.shape[1]
    if left_out is not None:
        everything = torch.arange(len(rows))
        rows = rows.take(
            everything[~torch.isin(everything, left_out.cpu())].to(rows.targets.device)
        )
    if architecture.inputs == "normal-scores":
        rows = replace(rows, inputs=learn_normal_scores(sample).forward(rows.inputs))
    return supervised_directions(rows, architecture.warped_dim(n_inputs), generator)
