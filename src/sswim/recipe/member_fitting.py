"""Training the members of an ensemble on standardised rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np
import torch
from jaxtyping import Float, Float64
from sklearn.utils import check_random_state
from torch import Tensor

from sswim.base.devices import resolve_device
from sswim.distributed.processes import ALONE, Processes
from sswim.model.architecture import Architecture
from sswim.model.member_batch import stack, unstack
from sswim.model.sswim import SSWIM
from sswim.model.start import enrich, start
from sswim.posterior.mixture import equal_weights
from sswim.posterior.predictor import predictor
from sswim.posterior.statistics import all_statistics
from sswim.recipe.cross_fitting import Combined, NoiseStart, combine
from sswim.recipe.folds import draw_folds, leave_out
from sswim.recipe.recipe import Kind, Plan
from sswim.recipe.screening import StartingPoint, starting_points
from sswim.rows.rows import Rows
from sswim.rows.stream import Stream
from sswim.rows.summary import summarise_rows
from sswim.training.checkpoints import Checkpoints
from sswim.training.chunk_sizes import members_together
from sswim.training.history import MemberCallback, Step, Training
from sswim.training.member_training import Batch, MemberTrainer, in_precision
from sswim.training.noise_learning import learn_noise

START_SAMPLE_ROWS = 50_000
"""Rows looked at to start length-scales and pseudo-points."""

SINGLE_RIDGE = 1e-4
"""The least λ = σ²/s² at the start that features in single precision are trusted with."""

SINGLE_ROWS = 256
"""Fewer are fast in double precision."""

RandomState = int | np.random.RandomState | None


@dataclass(frozen=True)
class TrainingRows:
    """What members are trained on, standardised."""

    sample: Rows
    """All rows that count, or a random choice of them; on the CPU, the same in every process."""
    everything: Rows | Stream
    """All of them, or those of this process; the sample itself if that is the same."""
    n_rows: int
    """Of all processes."""
    lowest: Float64[Tensor, " T"]
    highest: Float64[Tensor, " T"]
    """Of all targets."""
    processes: Processes = ALONE

    def placed(self, device: torch.device) -> TrainingRows:
        """The same on a device."""
        sample, everything = self.sample.to(device=device), self.everything
        if everything is self.sample:
            everything = sample
        elif isinstance(everything, Rows):
            everything = everything.to(device=device)
        return replace(self, sample=sample, everything=everything)

    @property
    def complete(self) -> bool:
        """Whether every process has all rows in its sample."""
        return len(self.sample) == self.n_rows

    def spreads(self, plan: Plan) -> bool:
        """Whether members are dealt to processes, as all can see their rows; else the rows are."""
        enough = self.complete and plan.total_members > 1
        return self.processes.size > 1 and (plan.cross_fitting or enough)

    def members_of_first(self, plan: Plan) -> int:
        """About how many members the first process trains, alone or with the others."""
        n_members = plan.total_members
        return math.ceil(n_members / self.processes.size) if self.spreads(plan) else n_members


def in_memory(rows: Rows) -> TrainingRows:
    """Standardised rows that one process has in memory."""
    found = summarise_rows(rows)
    everything = found.sample if found.complete else rows
    return TrainingRows(found.sample, everything, found.n_rows, found.lowest, found.highest)


@dataclass(frozen=True)
class Members:
    """Members of an ensemble, and how their training went."""

    combined: Combined
    trainings: list[Training]


def fit_members(
    plan: Plan,
    supply: TrainingRows,
    random_state: RandomState,
    device: str | torch.device,
    callback: MemberCallback,
    checkpoints: Checkpoints | None = None,
) -> Members:
    """Train members as planned, each from draws of its own, and condition them on all rows.

    A callback that returns True ends the training; members that have not begun are left out.

    Args:
        plan: What to train, and how.
        supply: The rows.
        random_state: Decides all that is random.
        device: Where to train.
        callback: Called with the number of a member and each of its steps.
        checkpoints: Where the training is kept.
    """
    random = check_random_state(random_state)
    rows, processes = supply.sample, supply.processes
    placed = supply.placed(resolve_device(device))
    spread = supply.spreads(plan)
    folds, seen = None, placed.sample if plan.cross_fitting or spread else placed.everything
    if plan.cross_fitting:
        generator = draw_generator(random)
        folds = draw_folds(rows, plan.n_members, generator)
        if folds is not None:
            folds = [fold.to(placed.sample.targets.device) for fold in folds]
            seen = leave_out(placed.sample, folds, generator)
    starts: Mapping[str, StartingPoint] = {}
    if plan.screening:
        generator = draw_generator(random)
        architectures = [kind.architecture for kind in plan.kinds]
        starts = starting_points(architectures, rows, start_sample(rows, generator), generator)
    seen = in_precision(seen, _precision(plan, starts, supply.n_rows))
    batches = [
        batch
        for number, kind in enumerate(plan.kinds)
        for batch in _batches(kind, number * plan.n_members, plan, supply, seen, starts, random)
    ]
    for batch in batches:
        batch.model.to(placed.sample.targets.device)
    results = MemberTrainer(processes, spread, checkpoints).train(batches, plan.optimiser, callback)
    begun = [pair for pair in zip(batches, results, strict=True) if pair[1]]
    whole = _complete(begun, plan.n_members) if folds is not None else []
    kept = whole or begun
    models = [
        model
        for batch, _ in kept
        for model in (unstack(batch.model) if batch.model.batch else [batch.model])
    ]
    trainings = [training for _, result in kept for training in result]
    if plan.n_more:
        models = [enrich(model, plan.n_more, draw_generator(random)) for model in models]
    noise = None
    if plan.kinds[0].architecture.noise == "input-dependent":
        generator = draw_generator(random)
        noise = NoiseStart(start_sample(rows, generator), generator)
    if folds is not None and whole:
        combined = combine(
            models,
            placed.sample,
            folds,
            None if supply.complete else placed.everything,
            processes,
            weighing=plan.weighing,
            calibration=plan.calibration,
            noise=noise,
        )
        return Members(combined, trainings)
    if noise is not None and not plan.cross_fitting:  # of few rows it is not learnt
        models = learn_noise(
            models,
            placed.sample,
            noise.sample,
            noise.generator,
            placed.everything,
            processes,
        )
    seen_by = [model.condition()[0] for model in models]
    totals = all_statistics(seen_by, placed.everything, processes)
    predictors = tuple(predictor(*pair) for pair in zip(models, totals, strict=True))
    weights = equal_weights(len(models)).to(placed.sample.targets.device)
    return Members(Combined(models, predictors, weights), trainings)


def _precision(plan: Plan, starts: Mapping[str, StartingPoint], n_rows: int) -> torch.dtype:
    """Of the features while training."""
    if plan.precision != "by noise":
        return torch.float32 if plan.precision == "float32" else torch.float64
    ridges = [(point.noise / point.signal).min().item() for point in starts.values()]
    single = bool(starts) and min(ridges) > SINGLE_RIDGE and n_rows >= SINGLE_ROWS
    return torch.float32 if single else torch.float64


def _batches(
    kind: Kind,
    number: int,
    plan: Plan,
    supply: TrainingRows,
    seen: Rows | Stream,
    starts: Mapping[str, StartingPoint],
    random: np.random.RandomState,
) -> Iterator[Batch]:
    """The members of a kind, as many together as is fast.

    Args:
        kind: Of the members.
        number: Of the first of them among all.
        plan: How to train.
        supply: The rows, on the CPU, to start from.
        seen: What is trained on: rows for all members, or for each its own.
        starts: Where members start, by what they see of the inputs.
        random: What draws come from.
    """
    architecture = replace(kind.architecture, noise="constant")  # the rest of it is learnt last
    each_has_own = isinstance(seen, Rows) and seen.axis > 0
    n_rows = len(seen) if isinstance(seen, Rows) and each_has_own else supply.n_rows
    looks = seen.inputs if isinstance(seen, Rows) else supply.sample.inputs
    size = members_together(architecture, looks, n_rows, plan.n_members)
    for first in range(0, plan.n_members, size):
        last = min(first + size, plan.n_members)
        started = [_started(architecture, plan, supply, starts, random) for _ in range(first, last)]
        # A model alone is faster than a batch of one.
        model = started[0] if len(started) == 1 else stack(started)
        its_rows = seen
        if isinstance(seen, Rows) and each_has_own:
            its_rows = seen.map(itemgetter(slice(first, last) if model.batch else first))
        yield Batch(number + first, model, its_rows, kind.objective)


def _complete(
    begun: list[tuple[Batch, list[Training]]], n_members: int
) -> list[tuple[Batch, list[Training]]]:
    """Of training that ended early, the batches of kinds whose members all began."""
    counts = Counter(batch.first // n_members for batch, result in begun for _ in result)
    return [pair for pair in begun if counts[pair[0].first // n_members] == n_members]


def _started(
    architecture: Architecture,
    plan: Plan,
    supply: TrainingRows,
    starts: Mapping[str, StartingPoint],
    random: np.random.RandomState,
) -> SSWIM:
    generator = draw_generator(random)
    sample = start_sample(supply.sample, generator)
    n_targets = supply.sample.targets.shape[1]
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
    if model.output_warp is not None and plan.cross_fitting:
        model.output_warp.set_range(supply.lowest, supply.highest)
    return model


@contextmanager
def shown_progress(
    verbose: bool, n_members: int, n_steps: int, callback: MemberCallback | None
) -> Iterator[MemberCallback]:
    """What to call after every step: the progress bar if verbose, and the user's callback."""
    callback = callback or (lambda member, step: None)
    if not verbose:
        yield callback
        return
    from sswim.estimator.progress import training_progress  # noqa: PLC0415 (rich is not needed to fit)

    with training_progress(n_members, n_steps) as show:

        def both(member: int, step: Step) -> object:
            show(member, step)
            return callback(member, step)

        yield both


def draw_generator(random_state: RandomState) -> torch.Generator:
    """PyTorch's generator from scikit-learn's random state."""
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    return torch.Generator().manual_seed(seed)


def start_sample(rows: Rows, generator: torch.Generator) -> Float[Tensor, "S D"]:
    """Distinct rows that count, in an order of their own.

    So that a row of weight two is the row twice, and the order of rows does not matter.
    """
    inputs = rows.inputs.mean if rows.weight is None else rows.inputs.mean[rows.weight > 0]
    if len(inputs) > START_SAMPLE_ROWS:
        inputs = inputs[torch.randperm(len(inputs), generator=generator)[:START_SAMPLE_ROWS]]
    return inputs.unique(dim=0)
