"""Fitting an ensemble: its members are drawn, trained, weighted, and conditioned on all rows.

Batches of members are trained in parallel, on several cores or in several processes. Members that
left rows out in training are cross-fitted: their predictions of these rows give the weights of
their kinds, the corrections of their variances and the shape of the noise; then they are given all
rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from sklearn.utils import check_random_state
from torch import Tensor

from sswim.base.validation import RandomState, draw_generator
from sswim.ensemble.ensemble import HeldOutFolds, held_out_folds
from sswim.ensemble.member_training import (
    DrawnMembers,
    TrainedMembers,
    predict_left_out,
    sum_over_rows,
    train_members,
    weight_of_folds,
)
from sswim.ensemble.mixture import equal_weights
from sswim.ensemble.noise_learning import learn_noise
from sswim.ensemble.plan import FittedKind
from sswim.ensemble.stacking import PRUNING_LOSS, learn_shared_noise, learn_stacking
from sswim.members import WAYS
from sswim.members.checkpoints import Checkpoints, MemberCallback, Training
from sswim.members.density import Correction
from sswim.members.kinds import Batch, Draw, Plan, TrainedKind, draw_folds, start_sample
from sswim.members.member import Member
from sswim.members.model import SSWIM, with_noise_field
from sswim.members.start import StartingPoint, starting_points
from sswim.rows.training_rows import TrainingRows


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
        _describe(kind, combined.kind_weights.get(kind.number, 0.0))
        for kind in sorted((*trained.kinds, *trained.dropped), key=lambda kind: kind.number)
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
    return DrawnMembers(batches, folds, draw.competing)


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
    totals = sum_over_rows(kinds, rows)
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
    judged = predict_left_out(kinds, rows, folds)
    predictions = [left_out.prediction for _, left_out in judged]
    sample, weight = rows.device_sample, weight_of_folds(rows, folds)
    means = [number for number, (kind, _) in enumerate(judged) if WAYS[kind.kind.way].is_mean]
    stacking = learn_stacking(
        predictions,
        weight,
        means[0] if means else None,
        stack=stack,
        correct=correct,
        pruning_loss=PRUNING_LOSS if prune else None,
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
