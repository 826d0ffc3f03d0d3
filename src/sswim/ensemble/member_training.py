"""Training the members of an ensemble, in parallel; and the competition of their kinds.

Batches of members are trained in parallel, on several cores or in several processes. On a CPU,
where the rows that one member leaves out are enough to tell which kinds pay, the first member of
every kind is trained first and predicts these rows. Kinds that do not pay get no further members.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from threading import Event, Lock

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from sswim.base.threads import (
    begin_worker,
    flushed_denormals,
    map_in_threads,
    n_cores,
)
from sswim.distributed.processes import ALONE, Processes, run_in_thread
from sswim.ensemble.stacking import learn_stacking
from sswim.members import WAYS
from sswim.members.checkpoints import Checkpoints, MemberCallback, Step, Training
from sswim.members.kinds import Batch, Plan, TrainedKind
from sswim.members.linear_regression import Statistics, member_statistics
from sswim.members.member import LeftOut, NewStore
from sswim.members.model import SSWIM, require_converged, unstack_models
from sswim.rows.rows import Rows
from sswim.rows.training_rows import TrainingRows

COMPETITION_WEIGHT = 0.02
"""Smallest weight of the first member of a kind that gets further members."""


@dataclass(frozen=True)
class DrawnMembers:
    """Members before training."""

    batches: list[Batch]
    folds: list[Int64[Tensor, " _"]] | None
    """Rows of the sample that the members of each kind leave out; None for none."""
    competing: bool = False
    """Whether the first member of each kind is a batch by itself, and kinds compete by these."""


@dataclass(frozen=True)
class TrainedMembers:
    """Members after training, before they are combined."""

    kinds: list[TrainedKind]
    """The kinds whose members have all begun; if there is none, those that have."""
    folds: list[Int64[Tensor, " _"]] | None = None
    """Rows that the members left out; None if they left out none, or if no kind is complete."""
    dropped: Sequence[TrainedKind] = ()
    """The kinds that did not pay, of which only the first member was trained."""


def train_members(
    plan: Plan,
    rows: TrainingRows,
    drawn: DrawnMembers,
    callback: MemberCallback,
    checkpoints: Checkpoints | None = None,
) -> TrainedMembers:
    """Train drawn members in place; see :func:`sswim.ensemble.fit.fit_members`."""
    trainer = MemberTrainer(
        rows.processes, plan.deals_members(rows), checkpoints, plan.shortest_first
    )
    members: dict[int, tuple[SSWIM, Training]] = {}

    def train(batches: Sequence[Batch]) -> list[TrainedKind]:
        """Train batches, and return the kinds of which members have been trained so far."""
        results = trainer.train(batches, callback) if batches else []
        for batch, trainings in zip(batches, results, strict=True):
            pairs = zip(_models(batch), trainings, strict=True) if trainings else ()
            members.update(enumerate(pairs, batch.first))
        return list(_trained_kinds(plan, members))

    folds = drawn.folds
    if folds is None or not drawn.competing:
        kinds = train(drawn.batches)
        complete = [kind for kind in kinds if kind.is_complete]
        return TrainedMembers(complete, folds) if folds and complete else TrainedMembers(kinds)
    first_members = plan.first_members
    firsts = train([batch for batch in drawn.batches if batch.first in first_members])
    all_began = len(firsts) == len(plan.kinds)
    if not all_began or any(training.ended == "callback" for _, training in members.values()):
        return TrainedMembers(firsts, folds[:1])
    paying = {kind.number for kind in paying_kinds(firsts, rows, folds[:1])}
    paying = rows.processes.broadcast(paying)  # each trains some of the same members
    dropped = [kind for kind in firsts if kind.number not in paying]
    others = [
        batch
        for batch in drawn.batches
        if batch.first not in first_members
        and bisect_right(first_members, batch.first) - 1 in paying
    ]
    kinds = [kind for kind in train(others) if kind.number in paying]
    if all(kind.is_complete for kind in kinds):
        return TrainedMembers(kinds, folds, dropped)
    # The callback ended it: first members are better than those that have just begun.
    return TrainedMembers([kind for kind in firsts if kind.number in paying], folds[:1], dropped)


def _trained_kinds(
    plan: Plan, members: Mapping[int, tuple[SSWIM, Training]]
) -> Iterator[TrainedKind]:
    """Yield the kinds of which members have been trained."""
    for number, (kind, first) in enumerate(zip(plan.kinds, plan.first_members, strict=True)):
        trained = [members[n] for n in range(first, first + kind.n_members) if n in members]
        if trained:
            models, trainings = zip(*trained, strict=True)
            yield TrainedKind(kind, number, list(models), list(trainings))


def _models(batch: Batch) -> list[SSWIM]:
    return unstack_models(batch.model) if batch.model.batch else [batch.model]


@torch.no_grad()
def paying_kinds(
    firsts: Sequence[TrainedKind], rows: TrainingRows, folds: Sequence[Int64[Tensor, " _"]]
) -> list[TrainedKind]:
    """Return the kinds with a weight in the mixture that predicts left-out rows best, and the mean.

    The mean has only one member, which is not trained.

    Args:
        firsts: The kinds, with the first member of each.
        rows: The rows.
        folds: The fold that first members left out.
    """
    judged = predict_left_out(firsts, rows, folds)
    predictions = [left_out.prediction for _, left_out in judged]
    stacking = learn_stacking(predictions, weight_of_folds(rows, folds), pruning_loss=None)
    return [
        kind
        for (kind, _), weight in zip(judged, stacking.weights.tolist(), strict=True)
        if weight >= COMPETITION_WEIGHT or WAYS[kind.kind.way].is_mean
    ]


def predict_left_out(
    kinds: Sequence[TrainedKind], rows: TrainingRows, folds: Sequence[Int64[Tensor, " _"]]
) -> list[tuple[TrainedKind, LeftOut]]:
    """Predict the rows that members left out by every kind.

    Predictions that are not finite rule a kind out, unless all are like that.
    """
    # Where the sample has all rows, sums over folds add up to those over all rows.
    totals = {} if rows.complete else sum_over_rows(kinds, rows)

    def predict(kind: TrainedKind) -> tuple[TrainedKind, LeftOut]:
        way = WAYS[kind.kind.way]
        return kind, way.leave_out(kind.models, rows, folds, totals.get(kind.number, ()))

    in_turn = not rows.complete or rows.device.type != "cpu"
    judged = list(map(predict, kinds)) if in_turn else map_in_threads(predict, kinds)
    return [pair for pair in judged if pair[1].prediction.is_finite] or judged


def weight_of_folds(
    rows: TrainingRows, folds: Sequence[Int64[Tensor, " _"]]
) -> Float64[Tensor, " N"] | None:
    """Return how many times each left-out row counts; None for once."""
    weight = rows.device_sample.weight
    return None if weight is None else torch.cat([weight[fold] for fold in folds])


def sum_over_rows(kinds: Sequence[TrainedKind], rows: TrainingRows) -> dict[int, list[Statistics]]:
    """Return sums over all rows for the members of every kind that needs them, in one pass."""
    summed = [kind for kind in kinds if WAYS[kind.kind.way].sums_rows]
    factors = [model.factors()[0] for kind in summed for model in kind.models]
    totals = iter(member_statistics(factors, rows.everything, rows.processes) if factors else ())
    by_number: dict[int, list[Statistics]] = {kind.number: [] for kind in kinds}
    return by_number | {kind.number: [next(totals) for _ in kind.models] for kind in summed}


@dataclass(frozen=True)
class MemberTrainer:
    """Trains batches of members in one or several processes."""

    processes: Processes = ALONE
    deal_members: bool = False
    """Whether each process trains some of the batches on all rows; else all processes train every
    batch together, each with its own rows."""
    checkpoints: Checkpoints | None = None
    shortest_first: bool = False
    """Whether the batches that take least time come first, so that an end is possible early."""

    def train(self, batches: Sequence[Batch], callback: MemberCallback) -> list[list[Training]]:
        """Train all batches in place, and return the trainings of each batch's members.

        The list of a batch that had not begun when a callback ended the training is empty.
        """
        if not self.deal_members:
            return self._train_all(batches, callback, self.processes)
        order = self._order(batches)
        mine = [batches[number] for number in order[self.processes.rank :: self.processes.size]]

        def train() -> list[tuple[int, dict[str, torch.Tensor], list[Training]]]:
            device = batches[0].model.log_noise.device
            if device.type == "cuda":
                torch.cuda.set_device(device)  # every thread has its own current device
            results = self._train_all(mine, callback, ALONE) if mine else []
            return [
                (batch.first, _cpu_state(batch.model), result)
                for batch, result in zip(mine, results, strict=True)
            ]

        in_context = partial(copy_context().run, train)  # which knows the number of cores
        gathered = self.processes.all_gather(run_in_thread(self.processes, in_context))
        trained = {
            first: (state, result) for results in gathered for first, state, result in results
        }
        for batch in batches:
            batch.model.load_state_dict(trained[batch.first][0])
        return [trained[batch.first][1] for batch in batches]

    def _train_all(
        self,
        batches: Sequence[Batch],
        callback: MemberCallback,
        processes: Processes,
    ) -> list[list[Training]]:
        """Train batches in this process alone, or in step with all processes.

        On a CPU each core trains a batch of its own, because small matrices are not worth sharing.
        Their order makes no difference to the result. One thread at a time calls the callback.
        """
        stop, lock = Event(), Lock()

        def train(batch: Batch) -> list[Training]:
            if stop.is_set():
                return []

            def after_step(number: int, step: Step) -> bool:
                with lock:
                    if callback(batch.first + number, step) is True:
                        stop.set()
                return stop.is_set()

            with flushed_denormals():
                store = self._store(batch, processes)
                result = batch.member.train(batch, after_step, processes, store)
            require_converged(batch.model)
            if processes.any(stop.is_set()):
                stop.set()
            return result

        alone = batches[0].model.log_noise.device.type == "cpu" and processes.size == 1
        in_memory = all(isinstance(batch.rows, Rows) for batch in batches)
        workers = min(n_cores(), len(batches)) if alone and in_memory else 1
        order = self._order(batches)
        if workers == 1:
            results = {number: train(batches[number]) for number in order}
            return [results[number] for number in range(len(batches))]
        with ThreadPoolExecutor(workers, initializer=begin_worker) as pool:
            futures = {number: pool.submit(train, batches[number]) for number in order}
            try:
                done, _ = wait(futures.values(), return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
            except BaseException:
                stop.set()  # else the pool would wait for the other batches
                raise
        return [futures[number].result() for number in range(len(batches))]

    def _order(self, batches: Sequence[Batch]) -> list[int]:
        """Return the indices of the batches in the order in which they are trained."""
        order = deepest_first(batches)
        return order[::-1] if self.shortest_first else order

    def _store(self, batch: Batch, processes: Processes) -> NewStore:
        """Return what makes the checkpoint files of a batch."""
        checkpoints = self.checkpoints
        if checkpoints is None:
            return lambda _: None
        return lambda end: checkpoints.file(f"member-{batch.first:03}{end}", processes)


def deepest_first(batches: Sequence[Batch]) -> list[int]:
    """Return the indices of the batches, those that take longest first."""
    return sorted(range(len(batches)), key=lambda n: _cost(batches[n].model), reverse=True)


def _cost(model: SSWIM) -> tuple[int, int]:
    """Return what orders members by the time that they take."""
    return model.architecture.depth, model.architecture.n_neighbors


def _cpu_state(model: SSWIM) -> dict[str, torch.Tensor]:
    return {name: tensor.cpu() for name, tensor in model.state_dict().items()}
