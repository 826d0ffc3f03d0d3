"""Cross-fitting: members that left rows out in training are weighted, then given all rows.

Fitting the members of an ensemble: draw them, train them, combine them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from sklearn.utils import check_random_state
from torch import Tensor

from sswim.base.record import concatenate
from sswim.base.validation import RandomState, draw_generator
from sswim.ensemble.draws import DrawnMembers, deals_members, draw_members, start_sample
from sswim.ensemble.ensemble import HeldOutFolds, held_out_folds
from sswim.ensemble.folds import Calibration, OutOfFold, predict_fold, predict_folds_by_neighbours
from sswim.ensemble.mixture import equal_weights
from sswim.ensemble.noise_learning import learn_noise, with_noise_field
from sswim.ensemble.plan import FittedKind, Plan, describe_kind
from sswim.ensemble.stacking import learn_shared_noise, learn_stacking
from sswim.members.checkpoints import Checkpoints
from sswim.members.feature_predictor import condition_on_statistics
from sswim.members.history import MemberCallback, Training
from sswim.members.linear_regression import posterior
from sswim.members.member_training import Batch, MemberTrainer
from sswim.members.model import SSWIM, Factors, unstack_models
from sswim.members.neighbour_predictor import condition_on_rows
from sswim.members.predictor import Predictor
from sswim.members.start import enrich
from sswim.members.statistics import Statistics, member_statistics, total_statistics
from sswim.rows.rows import Rows
from sswim.rows.training_rows import TrainingRows
from sswim.warps.noise_field import NoiseField


@dataclass(frozen=True)
class NoiseStart:
    """The start of input-dependent noise."""

    sample: Float[Tensor, "S D"]
    """Some rows of the inputs, for the start of length-scales."""
    generator: torch.Generator


@dataclass(frozen=True)
class TrainedKind:
    """The trained members of a kind."""

    number: int
    """Number of the kind in the plan."""
    models: list[SSWIM]
    trainings: list[Training]
    is_mean: bool = False
    """Whether it predicts the mean of all rows everywhere."""

    @property
    def by_neighbours(self) -> bool:
        """Whether its members predict by neighbours."""
        return self.models[0].architecture.n_neighbors > 0


@dataclass(frozen=True)
class Combined:
    """The members of an ensemble."""

    models: list[SSWIM]
    predictors: tuple[Predictor, ...]
    """The members conditioned on all rows."""
    weights: Float64[Tensor, " members"]
    trainings: list[Training]
    kind_weights: dict[int, float]
    """Weights of the kinds by their numbers in the plan; a kind that was left out has none."""
    folds: HeldOutFolds | None = None
    """Rows that members left out; None if they left out none."""


@torch.no_grad()
def combine_kinds(
    kinds: Sequence[TrainedKind],
    rows: TrainingRows,
    folds: Sequence[Int64[Tensor, " _"]],
    *,
    stack: bool = True,
    calibrate: bool = True,
    prune: bool = True,
    noise: NoiseStart | None = None,
) -> Combined:
    """Learn weights and variances of kinds, and condition their members on all rows.

    Args:
        kinds: Kinds with one member for every fold, or with one that left out all folds; the
            calibrations of their models change.
        rows: The standardised rows.
        folds: The rows of the sample that the members left out.
        stack: Whether the weights of kinds are learnt.
        calibrate: Whether variances are corrected.
        prune: Whether kinds that do not pay are left out.
        noise: Start of input-dependent noise; None for constant noise.
    """
    totals = _totals_of_many(kinds, rows)
    judged = [_judge(kind, rows, folds, totals.get(kind.number, [])) for kind in kinds]
    # Predictions that are not finite rule a kind out, unless all are like that.
    judged = [each for each in judged if each.prediction.is_finite] or judged
    predictions = [each.prediction for each in judged]
    sample = rows.device_sample
    weight = None
    if sample.weight is not None:
        weight = torch.cat([sample.weight[fold] for fold in folds])
    means = [number for number, each in enumerate(judged) if each.kind.is_mean]
    stacking = learn_stacking(
        predictions,
        weight,
        means[0] if means else None,
        stack=stack,
        calibrate=calibrate,
        prune=prune,
    )
    field = None
    if noise is not None:
        inputs = sample.take(torch.cat(list(folds))).inputs
        architecture = kinds[0].models[0].architecture
        field = learn_shared_noise(
            inputs, predictions, weight, stacking, architecture, noise.sample, noise.generator
        )
    shares = stacking.weights.tolist()
    paying = [
        (each, share, calibration)
        for each, share, calibration in zip(judged, shares, stacking.calibrations, strict=True)
        if share > 0
    ]
    members = [
        (*_member(each, place, calibration, field, rows), share / len(each.kind.models))
        for each, share, calibration in paying
        for place in range(len(each.kind.models))
    ]
    models, predictors, weights = zip(*members, strict=True)
    return Combined(
        list(models),
        tuple(predictors),
        stacking.weights.new_tensor(weights),
        [training for each, _, _ in paying for training in each.kind.trainings],
        {each.kind.number: share for each, share, _ in paying},
        held_out_folds(
            [sample.inputs.mean[fold] for fold in folds],
            _fold_weights(
                [(len(each.kind.models), share) for each, share, _ in paying], len(folds)
            ).to(sample.targets.device),
        ),
    )


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


@dataclass(frozen=True)
class _Judged:
    """A kind with its predictions of the rows that it left out."""

    kind: TrainedKind
    prediction: OutOfFold
    totals: list[Statistics]
    """Statistics of all rows for every member; none for members that predict by neighbours."""


def _totals_of_many(
    kinds: Sequence[TrainedKind], rows: TrainingRows
) -> dict[int, list[Statistics]]:
    """Return the statistics of all rows for the members of every kind by features, in one pass.

    There are none if the sample has all rows: the statistics of folds then add up to them.
    """
    by_features = [kind for kind in kinds if not kind.by_neighbours]
    if rows.complete or not by_features:
        return {}
    factors = [model.condition()[0] for kind in by_features for model in kind.models]
    found = iter(member_statistics(factors, rows.everything, rows.processes))
    return {kind.number: [next(found) for _ in kind.models] for kind in by_features}


def _judge(
    kind: TrainedKind,
    rows: TrainingRows,
    folds: Sequence[Int64[Tensor, " _"]],
    totals: list[Statistics],
) -> _Judged:
    """Predict the rows that a kind left out."""
    if not kind.by_neighbours:
        return _Judged(kind, *_predict_folds(kind.models, rows, folds, totals))
    assert rows.kept is not None
    sample = rows.device_sample
    return _Judged(kind, predict_folds_by_neighbours(kind.models, rows.kept, sample, folds), [])


def _member(
    judged: _Judged,
    place: int,
    calibration: Calibration,
    field: NoiseField | None,
    rows: TrainingRows,
) -> tuple[SSWIM, Predictor]:
    """Correct the variances of a member, give it its noise, and condition it on all rows."""
    model = judged.kind.models[place]
    model.calibration.copy_(calibration.noise)
    model.latent_calibration.copy_(calibration.latent)
    if field is not None:
        model = with_noise_field(model, field)
    if judged.kind.by_neighbours:
        assert rows.kept is not None
        return model, condition_on_rows(model, rows.kept)
    return model, condition_on_statistics(model, judged.totals[place])


def _predict_folds(
    models: Sequence[SSWIM],
    rows: TrainingRows,
    folds: Sequence[Int64[Tensor, " _"]],
    known_totals: list[Statistics],
) -> tuple[OutOfFold, list[Statistics]]:
    """Predict folds by features; also return the statistics of all rows for every member."""
    sample = rows.device_sample
    member_factors = [model.condition()[0] for model in models]
    totals = dict(enumerate(known_totals))
    parts = []
    for place, fold in enumerate(folds):
        number = place % len(models)
        model, factors = models[number], member_factors[number]
        inside = sample.take(fold)
        of_fold = total_statistics(factors, inside)
        if rows.complete:
            known = _statistics_outside(factors, sample, fold)
            totals.setdefault(number, known + of_fold)
        else:
            known = totals[number] - of_fold
        given = posterior(known, model.noise(), model.signal())
        parts.append(predict_fold(factors, given, inside))
    for number in range(len(folds), len(models)):  # members beyond the folds
        if number not in totals:
            totals[number] = total_statistics(member_factors[number], sample)
    return concatenate(parts), [totals[number] for number in range(len(models))]


def condition_members(models: Sequence[SSWIM], rows: TrainingRows) -> tuple[Predictor, ...]:
    """Condition members on all rows."""
    by_features = [model for model in models if not model.architecture.n_neighbors]
    factors = [model.condition()[0] for model in by_features]
    totals = iter(member_statistics(factors, rows.everything, rows.processes) if factors else ())
    predictors: list[Predictor] = []
    for model in models:
        if model.architecture.n_neighbors:
            assert rows.kept is not None
            predictors.append(condition_on_rows(model, rows.kept))
        else:
            predictors.append(condition_on_statistics(model, next(totals)))
    return tuple(predictors)


def _statistics_outside(factors: Factors, rows: Rows, fold: Int64[Tensor, " _"]) -> Statistics:
    """Return the statistics of the rows outside a fold.

    They are summed rather than computed as a difference of statistics, which would lose what is
    below the rounding of the total.
    """
    known = torch.ones(len(rows), dtype=torch.bool, device=fold.device)
    known[fold] = False
    return total_statistics(factors, rows.take(known.nonzero()[:, 0]))


@dataclass(frozen=True)
class Members:
    """The members of a fitted ensemble, and what became of every kind."""

    combined: Combined
    kinds: tuple[FittedKind, ...]


@dataclass(frozen=True)
class TrainedMembers:
    """Members after training, before they are combined."""

    kinds: list[TrainedKind]
    """The kinds whose members have all begun; if there is none, those that have."""
    folds: list[Int64[Tensor, " _"]] | None
    """Rows that the members left out; None if they left out none, or if no kind is complete."""

    @property
    def models(self) -> list[SSWIM]:
        """All members."""
        return [model for kind in self.kinds for model in kind.models]


def fit_members(
    plan: Plan,
    rows: TrainingRows,
    random_state: RandomState,
    callback: MemberCallback,
    checkpoints: Checkpoints | None = None,
) -> Members:
    """Train the members of a plan, each from its own random draws, and combine them.

    A callback that returns True ends the training; members that have not begun are left out.

    Args:
        plan: Which members to train, and how.
        rows: The standardised rows.
        random_state: Seeds everything random.
        callback: Called with the number of a member and each of its steps.
        checkpoints: Where the training is saved, if it is.
    """
    random = check_random_state(random_state)
    drawn = draw_members(plan, rows, random)
    trained = train_members(plan, rows, drawn, callback, checkpoints)
    combined = combine_members(plan, rows, trained, random)
    kinds = tuple(
        describe_kind(
            plan.kinds[kind.number],
            len(kind.models),
            max(len(training.history) - 1 for training in kind.trainings),
            combined.kind_weights.get(kind.number, 0.0),
        )
        for kind in trained.kinds
    )
    return Members(combined, kinds)


def train_members(
    plan: Plan,
    rows: TrainingRows,
    drawn: DrawnMembers,
    callback: MemberCallback,
    checkpoints: Checkpoints | None = None,
) -> TrainedMembers:
    """Train drawn members in place; see :func:`fit_members`."""
    trainer = MemberTrainer(
        rows.processes, deals_members(plan, rows), checkpoints, plan.shortest_first
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
        found = [members[n] for n in range(first, first + kind.n_members) if n in members]
        first += kind.n_members
        if found:
            models, trainings = zip(*found, strict=True)
            kinds.append(TrainedKind(number, list(models), list(trainings), kind.is_mean))
    complete = [kind for kind in kinds if len(kind.models) == plan.kinds[kind.number].n_members]
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
        n_more = plan.kinds[kind.number].n_more
        if n_more:
            kind.models[:] = [
                enrich(model, n_more, draw_generator(random)) for model in kind.models
            ]
    noise = None
    trained_kinds = [kind for kind in plan.kinds if not kind.is_mean]
    if any(kind.architecture.noise == "input-dependent" for kind in trained_kinds):
        generator = draw_generator(random)
        noise = NoiseStart(start_sample(rows.sample, generator), generator)
    if trained.folds is not None:
        return combine_kinds(
            kinds,
            rows,
            trained.folds,
            stack=plan.stacking,
            calibrate=plan.calibration,
            prune=plan.pruning,
            noise=noise,
        )
    models = trained.models
    if noise is not None and not plan.cross_fitting:  # too few rows for folds: constant noise
        models = learn_noise(
            models,
            rows.device_sample,
            noise.sample,
            noise.generator,
            rows.everything,
            rows.processes,
            rows.kept,
        )
    weights = equal_weights(len(models)).to(rows.device)
    predictors = condition_members(models, rows)
    trainings = [training for kind in kinds for training in kind.trainings]
    kind_weights = {kind.number: len(kind.models) / len(models) for kind in kinds}
    return Combined(models, predictors, weights, trainings, kind_weights)
