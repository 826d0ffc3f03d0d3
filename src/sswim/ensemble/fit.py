"""Fitting an ensemble: its members are drawn, trained, weighted, and conditioned on all rows.

Batches of members are trained in parallel, on several cores or in several processes. Members that
left rows out in training are cross-fitted: their predictions of these rows give the weights of
their kinds, the corrections of their variances and the shape of the noise; then they are given all
rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Event, Lock

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from sklearn.utils import check_random_state
from torch import Tensor

from sswim.base.record import begin_worker, flushed_denormals
from sswim.base.validation import RandomState, draw_generator
from sswim.distributed.processes import ALONE, Processes, run_in_thread
from sswim.ensemble.ensemble import HeldOutFolds, held_out_folds
from sswim.ensemble.mixture import equal_weights
from sswim.ensemble.noise_learning import learn_noise
from sswim.ensemble.plan import FittedKind
from sswim.ensemble.stacking import learn_shared_noise, learn_stacking
from sswim.members import WAYS
from sswim.members.checkpoints import Checkpoints, MemberCallback, Step, Training
from sswim.members.density import Correction
from sswim.members.kinds import Batch, Draw, Plan, TrainedKind, draw_folds, start_sample
from sswim.members.linear_regression import Statistics, member_statistics
from sswim.members.member import LeftOut, Member, NewStore
from sswim.members.model import SSWIM, require_converged, unstack_models, with_noise_field
from sswim.members.start import StartingPoint, starting_points
from sswim.rows.rows import Rows
from sswim.rows.training_rows import TrainingRows


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

        gathered = self.processes.all_gather(run_in_thread(self.processes, train))
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
        workers = min(torch.get_num_threads(), len(batches)) if alone and in_memory else 1
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


@dataclass(frozen=True)
class DrawnMembers:
    """Members before training."""

    batches: list[Batch]
    folds: list[Int64[Tensor, " _"]] | None
    """Rows of the sample that the members of each kind leave out; None for none."""


@dataclass(frozen=True)
class TrainedMembers:
    """Members after training, before they are combined."""

    kinds: list[TrainedKind]
    """The kinds whose members have all begun; if there is none, those that have."""
    folds: list[Int64[Tensor, " _"]] | None
    """Rows that the members left out; None if they left out none, or if no kind is complete."""


@dataclass(frozen=True)
class Combined:
    """The members of an ensemble."""

    members: tuple[Member, ...]
    """The members, conditioned on all rows."""
    weights: Float64[Tensor, " members"]
    trainings: list[Training]
    kind_weights: dict[int, float]
    """Weights of the kinds by their numbers in the plan; a kind that was left out has none."""
    folds: HeldOutFolds | None = None
    """Rows that members left out; None if they left out none."""


@dataclass(frozen=True)
class NoiseStart:
    """The start of input-dependent noise."""

    sample: Float[Tensor, "S D"]
    """Some rows of the inputs, for the start of length-scales."""
    generator: torch.Generator


def fit_members(
    plan: Plan,
    rows: TrainingRows,
    random_state: RandomState,
    callback: MemberCallback,
    checkpoints: Checkpoints | None = None,
) -> tuple[Combined, tuple[FittedKind, ...]]:
    """Train the members of a plan, each from its own random draws, and combine them.

    A callback that returns True ends the training; members that have not begun are left out.

    Args:
        plan: Which members to train, and how.
        rows: The standardised rows.
        random_state: Seeds everything random.
        callback: Called with the number of a member and each of its steps.
        checkpoints: Where the training is saved, if it is.

    Returns:
        The members, and what became of every kind.
    """
    random = check_random_state(random_state)
    drawn = draw_members(plan, rows, random)
    trained = train_members(plan, rows, drawn, callback, checkpoints)
    combined = combine_members(plan, rows, trained, random)
    kinds = tuple(
        _describe(trained_kind, combined.kind_weights.get(trained_kind.number, 0.0))
        for trained_kind in trained.kinds
    )
    return combined, kinds


def _describe(trained: TrainedKind, weight: float) -> FittedKind:
    """Describe what became of a kind."""
    kind, architecture = trained.kind, trained.kind.architecture
    return FittedKind(
        name=kind.name,
        n_members=len(trained.models),
        weight=weight,
        depth=architecture.depth,
        kernel=architecture.kernel,
        inputs=architecture.inputs,
        output_warp=architecture.output_warp,
        n_features=0 if architecture.n_neighbors else 2 * architecture.n_frequencies,
        n_neighbors=architecture.n_neighbors,
        n_steps=max(len(training.history) - 1 for training in trained.trainings),
    )


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
        architectures = [kind.architecture for kind in plan.kinds if WAYS[kind.way].is_screened]
        sample = start_sample(rows.sample, generator)
        starts = starting_points(architectures, rows.sample, sample, generator)
    draw = Draw(plan, rows, folds, starts, random)
    batches: list[Batch] = []
    first = 0
    for kind in plan.kinds:
        batches += WAYS[kind.way].start(kind, first, draw)
        first += kind.n_members
    return DrawnMembers(batches, folds)


def train_members(
    plan: Plan,
    rows: TrainingRows,
    drawn: DrawnMembers,
    callback: MemberCallback,
    checkpoints: Checkpoints | None = None,
) -> TrainedMembers:
    """Train drawn members in place; see :func:`fit_members`."""
    trainer = MemberTrainer(
        rows.processes, plan.deals_members(rows), checkpoints, plan.shortest_first
    )
    results = trainer.train(drawn.batches, callback)
    members = {
        batch.first + place: (model, training)
        for batch, result in zip(drawn.batches, results, strict=True)
        if result
        for place, (model, training) in enumerate(zip(_models(batch), result, strict=True))
    }
    kinds, first = [], 0
    for number, kind in enumerate(plan.kinds):
        begun = [members[n] for n in range(first, first + kind.n_members) if n in members]
        first += kind.n_members
        if begun:
            models, trainings = zip(*begun, strict=True)
            kinds.append(TrainedKind(kind, number, list(models), list(trainings)))
    complete = [trained for trained in kinds if len(trained.models) == trained.kind.n_members]
    if drawn.folds is None or not complete:
        return TrainedMembers(kinds, None)
    return TrainedMembers(complete, drawn.folds)


def _models(batch: Batch) -> list[SSWIM]:
    return unstack_models(batch.model) if batch.model.batch else [batch.model]


def combine_members(
    plan: Plan, rows: TrainingRows, trained: TrainedMembers, random: np.random.RandomState
) -> Combined:
    """Enrich trained members, learn their noise and weights, and condition them on all rows."""
    kinds = trained.kinds
    for kind in kinds:
        way = WAYS[kind.kind.way]
        kind.models[:] = way.enrich(kind.kind, kind.models, lambda: draw_generator(random))
    noise = None
    if any(
        kind.architecture.noise == "input-dependent" and not WAYS[kind.way].is_mean
        for kind in plan.kinds
    ):
        generator = draw_generator(random)
        noise = NoiseStart(start_sample(rows.sample, generator), generator)
    if trained.folds is not None:
        return combine_kinds(
            kinds,
            rows,
            trained.folds,
            stack=plan.stacking,
            correct=plan.correction,
            prune=plan.pruning,
            noise=noise,
        )
    if noise is not None and not plan.cross_fitting:  # too few rows for folds: constant noise
        noisy = iter(
            learn_noise(
                [model for kind in kinds for model in kind.models],
                rows.device_sample,
                noise.sample,
                noise.generator,
                rows.everything,
                rows.processes,
                rows.kept,
            )
        )
        for kind in kinds:
            kind.models[:] = [next(noisy) for _ in kind.models]
    totals = _sum_over_rows(kinds, rows)
    members = [
        member
        for kind in kinds
        for member in WAYS[kind.kind.way].condition(kind.models, rows, totals[kind.number])
    ]
    return Combined(
        tuple(members),
        equal_weights(len(members)).to(rows.device),
        [training for kind in kinds for training in kind.trainings],
        {kind.number: len(kind.models) / len(members) for kind in kinds},
    )


def _sum_over_rows(kinds: Sequence[TrainedKind], rows: TrainingRows) -> dict[int, list[Statistics]]:
    """Return sums over all rows for the members of every kind that needs them, in one pass."""
    summed = [kind for kind in kinds if WAYS[kind.kind.way].sums_rows]
    factors = [model.factors()[0] for kind in summed for model in kind.models]
    totals = iter(member_statistics(factors, rows.everything, rows.processes) if factors else ())
    by_number: dict[int, list[Statistics]] = {kind.number: [] for kind in kinds}
    return by_number | {kind.number: [next(totals) for _ in kind.models] for kind in summed}


@torch.no_grad()
def combine_kinds(
    kinds: Sequence[TrainedKind],
    rows: TrainingRows,
    folds: Sequence[Int64[Tensor, " _"]],
    *,
    stack: bool = True,
    correct: bool = True,
    prune: bool = True,
    noise: NoiseStart | None = None,
) -> Combined:
    """Learn weights and variances of kinds, and condition their members on all rows.

    Args:
        kinds: Kinds with one member for every fold, or with one that left out all folds; the
            corrections of their models change.
        rows: The standardised rows.
        folds: The rows of the sample that the members left out.
        stack: Whether the weights of kinds are learnt.
        correct: Whether variances are corrected.
        prune: Whether kinds that do not pay are left out.
        noise: Start of input-dependent noise; None for constant noise.
    """
    # Where the sample has all rows, sums over folds add up to those over all rows.
    totals = {} if rows.complete else _sum_over_rows(kinds, rows)
    judged: list[tuple[TrainedKind, LeftOut]] = [
        (kind, WAYS[kind.kind.way].leave_out(kind.models, rows, folds, totals.get(kind.number, ())))
        for kind in kinds
    ]
    # Predictions that are not finite rule a kind out, unless all are like that.
    judged = [pair for pair in judged if pair[1].prediction.is_finite] or judged
    predictions = [left_out.prediction for _, left_out in judged]
    sample = rows.device_sample
    weight = None
    if sample.weight is not None:
        weight = torch.cat([sample.weight[fold] for fold in folds])
    means = [number for number, (kind, _) in enumerate(judged) if WAYS[kind.kind.way].is_mean]
    stacking = learn_stacking(
        predictions,
        weight,
        means[0] if means else None,
        stack=stack,
        correct=correct,
        prune=prune,
    )
    field = None
    if noise is not None:
        inputs = sample.take(torch.cat(list(folds))).inputs
        architecture = kinds[0].models[0].architecture
        field = learn_shared_noise(
            inputs, predictions, weight, stacking, architecture, noise.sample, noise.generator
        )
    members: list[Member] = []
    weights: list[float] = []
    paying: list[tuple[TrainedKind, float]] = []
    shares = stacking.weights.tolist()
    for (kind, left_out), share, correction in zip(
        judged, shares, stacking.corrections, strict=True
    ):
        if share <= 0:
            continue
        models = [_corrected(model, correction) for model in kind.models]
        if field is not None:
            models = [with_noise_field(model, field) for model in models]
        members += WAYS[kind.kind.way].condition(models, rows, left_out.totals)
        weights += [share / len(models)] * len(models)
        paying.append((kind, share))
    return Combined(
        tuple(members),
        stacking.weights.new_tensor(weights),
        [training for kind, _ in paying for training in kind.trainings],
        {kind.number: share for kind, share in paying},
        held_out_folds(
            [sample.inputs.mean[fold] for fold in folds],
            _fold_weights([(len(kind.models), share) for kind, share in paying], len(folds)).to(
                sample.targets.device
            ),
        ),
    )


def _corrected(model: SSWIM, correction: Correction) -> SSWIM:
    """Correct the variances of a model, in place."""
    model.noise_correction.copy_(correction.noise)
    model.latent_correction.copy_(correction.latent)
    return model


def _fold_weights(kinds: Sequence[tuple[int, float]], n_folds: int) -> Float64[Tensor, "K members"]:
    """Return the weights of members in the ensemble of every fold, in which a kind has one member.

    Args:
        kinds: Number of members and weight of every kind.
        n_folds: K
    """
    columns = [
        [share if fold % n_members == place else 0.0 for fold in range(n_folds)]
        for n_members, share in kinds
        for place in range(n_members)
    ]
    return torch.tensor(columns, dtype=torch.float64).mT.contiguous()
