"""Fitting the members of an ensemble: draw them, train them, combine them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64
from sklearn.utils import check_random_state
from torch import Tensor

from sswim.base.random_state import RandomState, draw_generator
from sswim.model.member_batch import unstack_models
from sswim.model.sswim import SSWIM
from sswim.model.start import enrich
from sswim.posterior.mixture import equal_weights
from sswim.recipe.cross_fitting import (
    Combined,
    NoiseStart,
    TrainedKind,
    combine_kinds,
    condition_members,
)
from sswim.recipe.fitted_kind import FittedKind, describe_kind
from sswim.recipe.member_draws import DrawnMembers, deals_members, draw_members, start_sample
from sswim.recipe.plan import Plan
from sswim.rows.training_rows import TrainingRows
from sswim.training.checkpoints import Checkpoints
from sswim.training.history import MemberCallback
from sswim.training.member_training import Batch, MemberTrainer
from sswim.training.noise_learning import learn_noise


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
