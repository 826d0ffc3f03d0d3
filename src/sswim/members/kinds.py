"""Kinds of members, the plan of a fit, and what the members of a kind are drawn from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from sswim.base.record import stack_records
from sswim.base.validation import draw_generator
from sswim.members.checkpoints import Training
from sswim.members.model import SSWIM, Architecture
from sswim.members.neighbour_training import MiniBatches
from sswim.members.objective import Objective
from sswim.members.start import StartingPoint, start
from sswim.members.supervised_directions import supervised_directions
from sswim.members.training import Adam
from sswim.rows.rows import Rows, row_keys
from sswim.rows.training_rows import Stream, TrainingRows
from sswim.warps.normal_scores import learn_normal_scores

if TYPE_CHECKING:
    from sswim.members.member import Member

Precision = Literal["float32", "float64", "by noise"]
"""Precision of features in training; ``"by noise"`` is single unless the noise is too small."""

START_SAMPLE_ROWS = 50_000
"""Largest number of rows used to start length-scales and pseudo-points."""

FEW_ROWS = 400
"""Number of distinct rows below which members leave more of them out, and stationary kinds have a
member for every fold: one alone would leave too many of the rows out."""

PARTS, PARTS_OF_FEW = 8, 4
"""A member leaves out at most one row in this many; of few rows more, because weights need them."""

MAX_TRAINING_ROWS = 50_000
"""Largest number of rows to learn hyper-parameters from; more cost time and change little."""

MAX_FOLD_ROWS = 5000
"""Largest number of distinct rows of a fold: enough for weights and noise levels."""

Optimiser = Adam | MiniBatches
"""Settings of the training of a kind; each way has its own."""

COMPETITION_ROWS = 200
"""Smallest number of left-out rows by which kinds compete."""

MIN_ROWS = 24
"""Smallest number of distinct rows for which there are folds."""


@dataclass(frozen=True)
class Kind:
    """A kind of member: what its members share."""

    name: str
    """Its name in the recipe, or how it predicts and its number of warps."""
    way: str
    """How its members predict: a name in ``sswim.members.WAYS``."""
    architecture: Architecture
    objective: Objective
    optimiser: Optimiser
    n_members: int = 1
    n_more: int = 0
    """Number of frequencies that its members get after training."""


@dataclass(frozen=True)
class Plan:
    """Everything that a fit needs to know besides the rows."""

    kinds: tuple[Kind, ...]
    length_scale: float | None = None
    """Start of all length-scales; None for the square root of the number of inputs."""
    screening: bool = False
    precision: Precision = "float64"
    """Precision of the features of members that predict by features."""
    cross_fitting: bool = False
    stacking: bool = False
    correction: bool = False
    pruning: bool = False
    competition: bool = False
    """Whether kinds compete by their first members, where enough rows are left out."""
    shortest_first: bool = False
    """Whether members that take least time are trained first: for a limited time."""

    @property
    def total_members(self) -> int:
        """Number of members of all kinds."""
        return sum(kind.n_members for kind in self.kinds)

    @property
    def first_members(self) -> list[int]:
        """Numbers of the first members of the kinds among all members."""
        return [0, *accumulate(kind.n_members for kind in self.kinds[:-1])]

    @property
    def n_folds(self) -> int:
        """Number of folds that members leave out, if they do."""
        return max(kind.n_members for kind in self.kinds)

    def deals_members(self, rows: TrainingRows) -> bool:
        """Return whether members are dealt to processes, which all have their rows; else rows."""
        has_rows = self.cross_fitting or (rows.complete and self.total_members > 1)
        return rows.processes.size > 1 and has_rows

    def members_per_process(self, rows: TrainingRows) -> int:
        """Return about how many members one process trains, alone or with the others."""
        if not self.deals_members(rows):
            return self.total_members
        return math.ceil(self.total_members / rows.processes.size)


@dataclass(frozen=True)
class Draw:
    """Plan, rows, folds, starts and random state, from which all members are drawn."""

    plan: Plan
    rows: TrainingRows
    folds: list[Int64[Tensor, " _"]] | None
    """Rows of the sample that the members of each kind leave out; None for none."""
    starts: Mapping[str, StartingPoint]
    """Starts that screening found, by the form of the inputs."""
    random: np.random.RandomState

    @property
    def competing(self) -> bool:
        """Whether the first member of each kind is a batch by itself, and kinds compete by these.

        On a GPU, members that train together cost no more than one.
        """
        enough = self.folds is not None and len(self.folds[0]) >= COMPETITION_ROWS
        return enough and self.plan.competition and self.rows.device.type == "cpu"

    def batches_of(self, kind: Kind, size: int) -> Iterator[range]:
        """Yield the numbers of a kind's members by batches of at most some size."""
        begin = 0
        while begin < kind.n_members:
            end = 1 if self.competing and begin == 0 else min(begin + size, kind.n_members)
            yield range(begin, end)
            begin = end

    def start(
        self,
        kind: Kind,
        left_out: Int64[Tensor, " _"] | None,
        point: StartingPoint | None = None,
    ) -> SSWIM:
        """Draw one member before training, on the CPU; the variation of its noise is learnt last.

        Args:
            kind: The kind of the member.
            left_out: Rows of the sample that it leaves out; None for none.
            point: Hyper-parameters at which it starts; None for the usual ones.
        """
        architecture = replace(kind.architecture, noise="constant")
        rows = self.rows
        generator = draw_generator(self.random)
        sample = start_sample(rows.sample, generator)
        directions = None
        if architecture.warp_matrix != "diagonal":
            directions = _directions(architecture, sample, rows.sample, left_out, generator)
            directions = rows.processes.broadcast(directions)  # the same to the last bit
            if point is not None:
                # Distances between rows are √(Q/D) times as long after the projection.
                shorter = point.length_scale * math.sqrt(len(directions) / sample.shape[1])
                point = replace(point, length_scale=shorter)
        return start(
            architecture,
            sample,
            rows.sample.targets.shape[1],
            generator,
            self.plan.length_scale if point is None else point.length_scale,
            signal=None if point is None else point.signal,
            noise=None if point is None else point.noise,
            directions=directions,
        )


@dataclass(frozen=True)
class Batch:
    """Members of one form that are trained together, with their rows and their objective."""

    member: type[Member]
    """How the members predict."""
    first: int
    """Number of the batch's first member among all members."""
    model: SSWIM
    """A batch of members, or a single one, on the training device."""
    rows: Rows | Stream
    """The rows, on the training device."""
    kind: Kind
    seen: tuple[Int64[Tensor, " _"], ...] = ()
    """Numbers of the rows that each member sees, where members share rows but see only some."""
    seeds: tuple[int, ...] = ()
    """Seeds of the order of rows in mini-batches."""


@dataclass(frozen=True)
class TrainedKind:
    """The trained members of a kind."""

    kind: Kind
    number: int
    """Number of the kind in the plan."""
    models: list[SSWIM]
    trainings: list[Training]

    @property
    def is_complete(self) -> bool:
        """Whether all members have been trained, or have begun."""
        return len(self.models) == self.kind.n_members


def start_sample(rows: Rows, generator: torch.Generator) -> Float[Tensor, "S D"]:
    """Return distinct inputs of rows that count, sorted.

    A row of weight two is therefore the same as the row twice, and the order of rows is irrelevant.
    """
    inputs = rows.inputs.mean if rows.weight is None else rows.inputs.mean[rows.weight > 0]
    if len(inputs) > START_SAMPLE_ROWS:
        inputs = inputs[torch.randperm(len(inputs), generator=generator)[:START_SAMPLE_ROWS]]
    return inputs.unique(dim=0)


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


def outside(rows: Rows, fold: Rows) -> Int64[Tensor, " n"]:
    """Return the numbers of the rows whose inputs are not those of any row of a fold."""
    keys, others = (row_keys(part.inputs.mean.to(torch.float64)) for part in (rows, fold))
    return (~torch.isin(keys, others)).nonzero()[:, 0]


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
