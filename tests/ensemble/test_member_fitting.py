from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from builders.cores import use_threads
from builders.estimators import few_noise_steps  # noqa: F401 (for every test here)
from builders.models import SMALL, normal, small_rows
from builders.training import kind_of, training_rows

from sswim.base.validation import draw_generator
from sswim.ensemble import Combined, FittedKind, fit_members
from sswim.members import MAP, Adam, Kind, Plan, start, train
from sswim.members.checkpoints import MemberCallback
from sswim.members.kinds import draw_folds, start_sample
from sswim.members.model import NoiseName
from sswim.rows import Rows, as_rows


def fit(
    plan: Plan, rows: Rows, callback: MemberCallback = lambda *_: None, seed: int = 0
) -> tuple[Combined, tuple[FittedKind, ...]]:
    return fit_members(plan, training_rows(rows), seed, callback)


def plan_of(n_members: int, steps: int, **changes: Any) -> Plan:
    return Plan((kind_of(SMALL, n_members, steps),), **changes)


@pytest.mark.parametrize(("n_members", "together"), [(1, 1), (3, 3), (3, 2)])
def test_members_are_trained_as_one_by_one(
    n_members: int, together: int, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sswim.members.feature_member.members_together", lambda *_: together)
    rows, plan = small_rows(generator, n=60), plan_of(n_members, 10)
    seen: list[tuple[int, int]] = []
    combined, _ = fit(plan, rows, lambda member, step: seen.append((member, step.index)), 5)
    batches = [range(n_members)[i : i + together] for i in range(0, n_members, together)]
    expected_calls = [(m, step) for batch in batches for step in range(11) for m in batch]
    assert sorted(seen) == sorted(expected_calls)
    assert torch.allclose(combined.weights, torch.tensor(1 / n_members, dtype=torch.float64))
    random = np.random.RandomState(5)
    for member, training in zip(combined.members, combined.trainings, strict=True):
        model = member.model
        own = draw_generator(random)
        expected = start(SMALL, start_sample(rows, own), 1, own)
        alone = train(expected, rows, MAP, Adam(steps=10), device="cpu")
        assert model.batch == ()
        for name, tensor in expected.state_dict().items():
            assert torch.allclose(model.state_dict()[name], tensor, rtol=1e-8, atol=1e-10), name
        assert training.best.value == pytest.approx(alone.best.value, rel=1e-10)


def test_cross_fitted_members_do_not_see_their_fold(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The targets of a member's fold have no influence on its hyper-parameters."""
    monkeypatch.setattr("sswim.members.feature_member.members_together", lambda *_: 2)
    rows = small_rows(generator, n=60)
    plan = plan_of(3, 3, cross_fitting=True)
    folds = draw_folds(rows, 3, draw_generator(np.random.RandomState(0)))
    assert folds is not None
    expected, _ = fit(plan, rows)
    for number, fold in enumerate(folds):
        other = rows.targets.clone()
        other[fold] += 1
        changed, _ = fit(plan, Rows(rows.inputs, other))
        pairs = zip(changed.members, expected.members, strict=True)
        for member, (ours, theirs) in enumerate(pairs):
            same = torch.equal(ours.model.log_noise, theirs.model.log_noise)
            assert same == (member == number)


def test_no_member_is_begun_after_a_callback_ends_the_training(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sswim.members.feature_member.members_together", lambda *_: 2)
    rows = small_rows(generator)
    with use_threads(1):
        combined, _ = fit(plan_of(6, 5), rows, lambda member, step: member == 3)
    assert len(combined.members) == 4
    assert [len(training.history) for training in combined.trainings] == [6, 6, 1, 1]


def test_kinds_that_were_not_begun_are_left_out(generator: torch.Generator) -> None:
    rows = small_rows(generator, n=60)
    kinds = [kind_of(replace(SMALL, depth=depth), 2, steps=3) for depth in (1, 2)]
    plan = Plan(tuple(kinds), cross_fitting=True, shortest_first=True)
    with use_threads(1):
        combined, _ = fit(plan, rows, lambda member, step: member == 1)
    assert [member.model.architecture.depth for member in combined.members] == [1, 1]
    assert combined.weights.sum() == pytest.approx(1)


def test_too_few_rows_for_folds_give_members_of_equal_weight(generator: torch.Generator) -> None:
    rows = small_rows(generator, n=12)
    planned = (kind_of(SMALL, 2), kind_of(replace(SMALL, depth=0, n_neighbors=8)))
    plan = Plan(planned, cross_fitting=True, stacking=True, correction=True)
    combined, kinds = fit(plan, rows)
    assert combined.weights.tolist() == pytest.approx([1 / 3] * 3)
    assert [kind.weight for kind in kinds] == pytest.approx([2 / 3, 1 / 3])
    prediction = combined.members[2].predict(rows.inputs)
    assert prediction.mean.isfinite().all()


def test_screened_and_enriched(generator: torch.Generator) -> None:
    rows = small_rows(generator, n=60)
    plan = Plan((replace(kind_of(SMALL, 2, steps=0), n_more=4),), screening=True)
    combined, _ = fit(plan, rows)
    for member in combined.members:
        model = member.model
        assert model.architecture.n_frequencies == SMALL.n_frequencies + 4
        assert model.log_noise.item() != pytest.approx(math.log(0.1))


def mean_kind(noise: NoiseName = "constant") -> Kind:
    architecture = replace(SMALL, depth=0, n_frequencies=1, noise=noise)
    return replace(kind_of(architecture, steps=0), way="mean")


def test_the_mean_of_all_rows_is_a_kind(generator: torch.Generator) -> None:
    """It is the same everywhere, with the variance of the targets."""
    x = normal(generator, 60, 3)
    y = normal(generator, 60, 2)
    rows = as_rows(x, (y - y.mean(0)) / y.std(0, correction=0))
    plan = Plan((mean_kind(), kind_of(SMALL, 2)), cross_fitting=True, stacking=True)
    combined, kinds = fit(plan, rows)
    prediction = combined.members[0].predict(rows.inputs)
    assert prediction.mean.abs().max() < 1e-6
    assert prediction.latent_variance.max() < 1e-8
    assert torch.allclose(prediction.observation_variance, torch.ones(2, dtype=torch.float64))
    assert kinds[0].weight > 0.5  # there is only noise


@pytest.mark.parametrize("noise", ["constant", "input-dependent"])
@pytest.mark.parametrize("of_mean", ["constant", "input-dependent"])
def test_the_noise_is_that_of_the_kinds_that_are_trained(
    noise: NoiseName, of_mean: NoiseName, generator: torch.Generator
) -> None:
    rows = small_rows(generator, n=60)
    kinds = (mean_kind(of_mean), kind_of(replace(SMALL, noise=noise), 2))
    plan = Plan(kinds, cross_fitting=True, stacking=True)
    combined, _ = fit(plan, rows)
    assert {member.model.architecture.noise for member in combined.members} == {noise}
