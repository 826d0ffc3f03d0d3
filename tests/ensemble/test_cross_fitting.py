from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from builders.estimators import few_noise_steps  # noqa: F401 (for every test here)
from builders.models import assert_close, small_model, small_rows
from builders.neighbours import neighbour_model
from builders.training import kind_of, training_rows
from torch import Tensor

from sswim.base.record import concatenate
from sswim.ensemble.fit import NoiseStart, combine_kinds
from sswim.ensemble.stacking import Stacking, learn_stacking
from sswim.members import (
    SSWIM,
    WAYS,
    LeftOut,
    NeighbourMember,
    OutOfFold,
    Step,
    Training,
    condition,
    out_of_fold,
    outside,
)
from sswim.members.kinds import TrainedKind, draw_folds
from sswim.rows import Rows

WEIGHTED = pytest.mark.parametrize("rows", [False, True], indirect=True, ids=["once", "weighted"])


@pytest.fixture
def rows(request: pytest.FixtureRequest, generator: torch.Generator) -> Rows:
    return small_rows(generator, n=60, n_targets=2, weighted=getattr(request, "param", True))


@pytest.fixture
def folds(rows: Rows, generator: torch.Generator) -> list[Tensor]:
    drawn = draw_folds(rows, 2, generator)
    assert drawn is not None
    return drawn


def trained(number: int, models: list[SSWIM]) -> TrainedKind:
    step = Step(0, float(number), 0.0, 0.0)
    kind = kind_of(models[0].architecture, len(models))
    return TrainedKind(kind, number, models, [Training((step,), step, "steps") for _ in models])


@pytest.fixture
def kinds(rows: Rows, generator: torch.Generator) -> list[TrainedKind]:
    """Make two kinds by features, and two by neighbours: with one member, and with two."""
    by_features = [
        [small_model(rows, generator, **changes) for _ in range(2)]
        for changes in ({"depth": 0}, {"output_warp": "sinh-arcsinh"})
    ]
    alone = [neighbour_model(rows, generator, 9, local_amplitude=False)]
    warped = [
        neighbour_model(rows, generator, 9, depth=1, output_warp="sinh-arcsinh") for _ in range(2)
    ]
    for model in (*alone, *warped):
        model.resolution.fill_(0.1)
    models = [*by_features, alone, warped]
    return [trained(number, each) for number, each in enumerate(models)]


def by_hand(kinds: list[TrainedKind], rows: Rows, folds: list[Tensor]) -> Stacking:
    """Learn the stacking from predictions of each fold by models conditioned on the other rows."""
    predictions = []
    for kind in kinds:
        parts: list[OutOfFold] = []
        for number, fold in enumerate(folds):
            held = rows.take(fold)
            others = rows.take(outside(rows, held))
            member = condition(kind.models[number % len(kind.models)], others)
            prediction = member.predict(held.inputs)
            rounding = None
            if isinstance(member, NeighbourMember):
                rounding = member.rounding_variance(prediction)
            parts.append(out_of_fold(prediction, member.factors.output, held, rounding))
        predictions.append(concatenate(parts).map(torch.detach))
    weight = None if rows.weight is None else torch.cat([rows.weight[fold] for fold in folds])
    return learn_stacking(predictions, weight)


@WEIGHTED
def test_kinds_are_combined_by_their_predictions_of_held_out_rows(
    kinds: list[TrainedKind], rows: Rows, folds: list[Tensor]
) -> None:
    expected = by_hand(kinds, rows, folds)
    combined = combine_kinds(kinds, training_rows(rows), folds)
    counts = torch.tensor([2, 2, 1, 2])
    weights = (expected.weights / counts).repeat_interleave(counts)
    assert torch.allclose(combined.weights, weights, rtol=1e-4)
    assert combined.weights.sum() == pytest.approx(1)
    assert combined.kind_weights == pytest.approx(dict(enumerate(expected.weights.tolist())), 1e-4)
    for kind, correction in zip(kinds, expected.corrections, strict=True):
        for model in kind.models:
            assert torch.allclose(model.noise_correction, correction.noise, atol=1e-3)
            assert torch.allclose(model.latent_correction, correction.latent, atol=1e-3)
    assert [training.best.value for training in combined.trainings] == [0, 0, 1, 1, 2, 3, 3]
    for ours in combined.members:  # are conditioned on all rows
        assert_close(ours, condition(ours.model, rows))


@pytest.mark.parametrize(("place", "value"), [(0, torch.nan), (2, torch.inf)])
def test_a_kind_whose_predictions_are_not_finite_is_left_out(
    place: int,
    value: float,
    kinds: list[TrainedKind],
    rows: Rows,
    folds: list[Tensor],
    generator: torch.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its members are not there at all, and the others are combined as if it had not been."""
    way = WAYS[kinds[place].kind.way]
    original = way.leave_out
    others = [kind for kind in kinds if kind.number != place]
    expected = combine_kinds(copy.deepcopy(others), training_rows(rows), folds)

    def broken(models: list[SSWIM], *arguments: Any) -> LeftOut:
        left_out = original(models, *arguments)
        if models is kinds[place].models:
            left_out.prediction.latent_variance[3] = value
        return left_out

    monkeypatch.setattr(way, "leave_out", broken)
    start = NoiseStart(rows.inputs.mean, generator)
    combined = combine_kinds(kinds, training_rows(rows), folds, noise=start)
    assert torch.allclose(combined.weights, expected.weights)
    assert set(combined.kind_weights) == {0, 1, 2, 3} - {place}
    assert len(combined.members) == len(combined.trainings)
    for ours, theirs in zip(combined.members, expected.members, strict=True):
        assert torch.allclose(ours.predict(rows.inputs).mean, theirs.predict(rows.inputs).mean)


def test_a_pruned_kind_is_left_out(
    kinds: list[TrainedKind], rows: Rows, folds: list[Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = torch.tensor([0.0, 0.4, 0.6, 0.0], dtype=torch.float64)
    monkeypatch.setattr("sswim.ensemble.stacking.PRUNING_ROWS", 1)
    monkeypatch.setattr("sswim.ensemble.stacking.pruned_weights", lambda *_: chosen)
    combined = combine_kinds(kinds, training_rows(rows), folds)
    assert [member.model for member in combined.members] == [*kinds[1].models, *kinds[2].models]
    assert combined.weights.tolist() == pytest.approx([0.2, 0.2, 0.6])
    assert combined.kind_weights == pytest.approx({1: 0.4, 2: 0.6})
    assert [training.best.value for training in combined.trainings] == [1, 1, 2]


def test_equal_weights_where_none_are_learnt(
    kinds: list[TrainedKind], rows: Rows, folds: list[Tensor]
) -> None:
    combined = combine_kinds(kinds, training_rows(rows), folds, stack=False)
    assert combined.weights.tolist() == pytest.approx([1 / 8] * 4 + [1 / 4] + [1 / 8] * 2)
    assert list(combined.kind_weights.values()) == pytest.approx([0.25] * 4)


def test_noise_that_varies_leaves_the_means_as_they_were(
    kinds: list[TrainedKind], rows: Rows, folds: list[Tensor], generator: torch.Generator
) -> None:
    data = training_rows(rows)
    constant = combine_kinds(copy.deepcopy(kinds), data, folds)
    start = NoiseStart(rows.inputs.mean, generator)
    varying = combine_kinds(kinds, data, folds, noise=start)
    assert torch.equal(varying.weights, constant.weights)
    for before, after in zip(constant.members, varying.members, strict=True):
        assert after.model.architecture.noise == "input-dependent"
        first, second = before.predict(rows.inputs), after.predict(rows.inputs)
        assert torch.allclose(first.mean, second.mean)
        assert torch.allclose(first.latent_variance, second.latent_variance)
        ratio = second.observation_variance - second.latent_variance
        ratio = ratio / (first.observation_variance - first.latent_variance)
        assert ratio.std(0).min() > 0
        more = after.update(rows).predict(rows.inputs)
        assert torch.allclose(more.mean, before.update(rows).predict(rows.inputs).mean)


@WEIGHTED
def test_rows_outside_the_sample_are_conditioned_on(
    kinds: list[TrainedKind], rows: Rows, folds: list[Tensor], generator: torch.Generator
) -> None:
    """Folds are of the sample, but predictions of them are from all other rows."""
    more = small_rows(generator, n=30, n_targets=2, weighted=rows.weight is not None)
    everything = concatenate([rows, more])
    data = replace(training_rows(rows), everything=everything, kept=everything, n_rows=90)
    assert not data.complete
    combined = combine_kinds(kinds, data, folds)
    for model in (model for kind in kinds for model in kind.models):
        model.noise_correction.zero_()
        model.latent_correction.zero_()
    expected = by_hand(kinds, everything, folds)
    assert list(combined.kind_weights.values()) == pytest.approx(
        expected.weights.tolist(), rel=1e-3
    )
    for ours in combined.members:
        mean = condition(ours.model, everything).predict(rows.inputs).mean
        assert torch.allclose(ours.predict(rows.inputs).mean, mean, rtol=1e-6, atol=1e-8)
