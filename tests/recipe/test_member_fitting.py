from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from builders.models import SMALL, small_rows
from builders.training import training_rows

from sswim.base.random_state import draw_generator
from sswim.model.start import start
from sswim.recipe import member_draws
from sswim.recipe.folds import draw_folds
from sswim.recipe.member_draws import start_sample
from sswim.recipe.member_fitting import fit_members
from sswim.recipe.plan import Kind, Plan
from sswim.rows.rows import Rows
from sswim.training.history import Step
from sswim.training.objective import MAP
from sswim.training.optimisers import Adam
from sswim.training.training import train


def plan_of(n_members: int, steps: int, **changes: Any) -> Plan:
    return Plan((Kind(SMALL, MAP),), n_members, Adam(steps=steps), **changes)


@pytest.mark.parametrize(("n_members", "together"), [(1, 1), (3, 3), (3, 2)])
def test_members_are_trained_as_one_by_one(
    n_members: int, together: int, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_draws, "members_together", lambda *_: together)
    rows, plan = small_rows(generator, n=60), plan_of(n_members, 10)
    seen: list[tuple[int, int]] = []

    def callback(member: int, step: Step) -> None:
        seen.append((member, step.index))

    members = fit_members(plan, training_rows(rows), 5, callback)
    batches = [range(n_members)[i : i + together] for i in range(0, n_members, together)]
    expected_calls = [(m, step) for batch in batches for step in range(11) for m in batch]
    assert sorted(seen) == sorted(expected_calls)
    assert torch.allclose(
        members.combined.weights, torch.tensor(1 / n_members, dtype=torch.float64)
    )
    random = np.random.RandomState(5)
    assert isinstance(plan.optimiser, Adam)
    for model, training in zip(members.combined.models, members.trainings, strict=True):
        own = draw_generator(random)
        expected = start(SMALL, start_sample(rows, own), 1, own)
        alone = train(expected, rows, MAP, plan.optimiser, device="cpu")
        assert model.batch == ()
        for name, tensor in expected.state_dict().items():
            assert torch.allclose(model.state_dict()[name], tensor, rtol=1e-8, atol=1e-10), name
        assert training.best.value == pytest.approx(alone.best.value, rel=1e-10)


@pytest.mark.parametrize("together", [1, 2, 3])
def test_cross_fitted_members_do_not_see_their_fold(
    together: int, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The targets of a member's fold have no influence on its hyper-parameters."""
    monkeypatch.setattr(member_draws, "members_together", lambda *_: together)
    rows = small_rows(generator, n=60)
    plan = plan_of(3, 5, cross_fitting=True)
    folds = draw_folds(rows, 3, draw_generator(np.random.RandomState(5)))
    assert folds is not None
    expected = fit_members(plan, training_rows(rows), 5, lambda member, step: None)
    for number, fold in enumerate(folds):
        other = rows.targets.clone()
        other[fold] += 1
        changed = fit_members(
            plan, training_rows(Rows(rows.inputs, other)), 5, lambda member, step: None
        )
        for member, (ours, theirs) in enumerate(
            zip(changed.combined.models, expected.combined.models, strict=True)
        ):
            same = torch.equal(ours.log_noise, theirs.log_noise)
            assert same == (member == number)


def test_no_member_is_begun_after_a_callback_ends_the_training(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_draws, "members_together", lambda *_: 2)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    rows = small_rows(generator)
    members = fit_members(plan_of(6, 5), training_rows(rows), 0, lambda member, step: member == 3)
    assert len(members.combined.models) == 4
    assert [len(training.history) for training in members.trainings] == [6, 6, 1, 1]


def test_kinds_that_were_not_begun_are_left_out(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    rows = small_rows(generator, n=60)
    deep = Kind(replace(SMALL, depth=2), MAP)
    plan = replace(plan_of(2, 3, cross_fitting=True), kinds=(Kind(SMALL, MAP), deep))
    members = fit_members(plan, training_rows(rows), 0, lambda member, step: member == 1)
    assert [model.architecture.depth for model in members.combined.models] == [1, 1]
    assert members.combined.weights.sum() == pytest.approx(1)


def test_screened_and_enriched(generator: torch.Generator) -> None:
    rows = small_rows(generator, n=60)
    plan = plan_of(2, 0, screening=True, n_more=4)
    members = fit_members(plan, training_rows(rows), 0, lambda member, step: None)
    for model in members.combined.models:
        assert model.architecture.n_frequencies == SMALL.n_frequencies + 4
        assert model.log_noise.item() != pytest.approx(math.log(0.1))
