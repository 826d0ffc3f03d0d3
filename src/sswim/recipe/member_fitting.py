"""Fitting the members of an ensemble: draw them, train them, combine them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64
from sklearn.utils import check_random_state
from torch import Tensor

from sswim.base.random_state import RandomState, draw_generator
from sswim.model.member_batch import unstack_models
from sswim.model.sswim import SSWIM
from sswim.model.start import enrich
from sswim.posterior.feature_predictor import condition_on_statistics
from sswim.posterior.mixture import equal_weights
from sswim.posterior.neighbour_predictor import condition_on_rows
from sswim.posterior.statistics import member_statistics
from sswim.recipe.cross_fitting import Combined, NoiseStart, combine_kinds
from sswim.recipe.member_draws import DrawnMembers, deals_members, draw_members, start_sample
from sswim.recipe.plan import Plan
from sswim.rows.rows import Rows
from sswim.rows.training_rows import TrainingRows
from sswim.training.checkpoints import Checkpoints
from sswim.training.history import MemberCallback, Training
from sswim.training.member_training import Batch, MemberTrainer
from sswim.training.noise_learning import learn_noise


@dataclass(frozen=True)
class Members:
    """The members of a fitted ensemble, and their trainings."""

    combined: Combined
    trainings: list[Training]


@dataclass(frozen=True)
class TrainedMembers:
    """Members after training, before they are combined."""

    models: list[SSWIM]
    trainings: list[Training]
    folds: list[Int64[Tensor, " _"]] | None
    """Rows that the members left out; None if they left out none, or if no kind is complete."""


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
    return Members(combine_members(plan, rows, trained, random), trained.trainings)


def train_members(
    plan: Plan,
    rows: TrainingRows,
    drawn: DrawnMembers,
    callback: MemberCallback,
    checkpoints: Checkpoints | None = None,
) -> TrainedMembers:
    """Train drawn members in place; see :func:`fit_members`."""
    trainer = MemberTrainer(rows.processes, deals_members(plan, rows), checkpoints)
    results = trainer.train(drawn.batches, plan.optimiser, callback)
    begun = [pair for pair in zip(drawn.batches, results, strict=True) if pair[1]]
    complete = _complete_kinds(begun, plan.n_members) if drawn.folds is not None else []
    models = [
        model
        for batch, _ in complete or begun
        for model in (unstack_models(batch.model) if batch.model.batch else [batch.model])
    ]
    trainings = [training for _, result in complete or begun for training in result]
    return TrainedMembers(models, trainings, drawn.folds if complete else None)


def combine_members(
    plan: Plan, rows: TrainingRows, trained: TrainedMembers, random: np.random.RandomState
) -> Combined:
    """Enrich trained members, learn their noise and weights, and condition them on all rows."""
    models = trained.models
    if plan.n_more:
        models = [enrich(model, plan.n_more, draw_generator(random)) for model in models]
    noise = None
    if plan.kinds[0].architecture.noise == "input-dependent":
        generator = draw_generator(random)
        noise = NoiseStart(start_sample(rows.sample, generator), generator)
    if trained.folds is not None:
        return combine_kinds(
            models,
            rows.device_sample,
            trained.folds,
            None if rows.complete else rows.everything,
            rows.processes,
            stack=plan.stacking,
            calibrate=plan.calibration,
            noise=noise,
        )
    if noise is not None and not plan.cross_fitting:  # too few rows for folds: constant noise
        models = learn_noise(
            models,
            rows.device_sample,
            noise.sample,
            noise.generator,
            rows.everything,
            rows.processes,
        )
    weights = equal_weights(len(models)).to(rows.device)
    if plan.by_neighbours:
        assert isinstance(rows.everything, Rows)
        by_rows = tuple(condition_on_rows(model, rows.everything) for model in models)
        return Combined(models, by_rows, weights)
    factors = [model.condition()[0] for model in models]
    totals = member_statistics(factors, rows.everything, rows.processes)
    predictors = tuple(condition_on_statistics(*pair) for pair in zip(models, totals, strict=True))
    return Combined(models, predictors, weights)


def _complete_kinds(
    begun: list[tuple[Batch, list[Training]]], n_members: int
) -> list[tuple[Batch, list[Training]]]:
    """Return the batches of the kinds whose members have all begun."""
    counts = Counter(batch.first // n_members for batch, result in begun for _ in result)
    return [pair for pair in begun if counts[pair[0].first // n_members] == n_members]
