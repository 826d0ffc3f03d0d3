from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from builders.models import SMALL, normal, small_rows
from builders.training import training_rows

from sswim.distributed.processes import Processes
from sswim.recipe import member_draws
from sswim.recipe.member_draws import (
    deals_members,
    draw_members,
    members_per_process,
    start_sample,
)
from sswim.recipe.plan import Kind, Plan
from sswim.rows.rows import Rows, as_rows
from sswim.training.objective import EVIDENCE, MAP
from sswim.training.optimisers import Adam


def test_the_start_looks_at_distinct_rows_that_count(generator: torch.Generator) -> None:
    rows = small_rows(generator)
    times = torch.randint(0, 3, (len(rows),), generator=generator)
    weighted = Rows(rows.inputs, rows.targets, times.double())
    repeated = rows.map(lambda t: t.repeat_interleave(times, dim=0))
    order = torch.randperm(len(repeated), generator=generator)
    shuffled = repeated.map(lambda t: t[order])
    expected = start_sample(weighted, generator)
    assert torch.equal(start_sample(shuffled, generator), expected)
    assert len(expected) == int((times > 0).sum())


def test_the_start_uses_some_of_many_rows(generator: torch.Generator) -> None:
    n = member_draws.START_SAMPLE_ROWS + 100
    x = normal(generator, n, 1)
    assert len(start_sample(as_rows(x, x), generator)) == member_draws.START_SAMPLE_ROWS


def plan_of(n_members: int, **changes: Any) -> Plan:
    deep = Kind(replace(SMALL, depth=2), EVIDENCE)
    return Plan((Kind(SMALL, MAP), deep), n_members, Adam(), **changes)


def test_members_are_drawn_in_batches_of_their_kind(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_draws, "members_together", lambda *_: 2)
    rows = training_rows(small_rows(generator))
    drawn = draw_members(plan_of(3), rows, np.random.RandomState(0))
    assert drawn.folds is None
    assert [batch.model.batch for batch in drawn.batches] == [(2,), (), (2,), ()]
    assert [batch.model.architecture.depth for batch in drawn.batches] == [1, 1, 2, 2]
    assert [batch.objective for batch in drawn.batches] == [MAP, MAP, EVIDENCE, EVIDENCE]
    for batch in drawn.batches:
        assert isinstance(batch.rows, Rows)
        assert torch.equal(batch.rows.targets, rows.sample.targets)
    again = draw_members(plan_of(3), rows, np.random.RandomState(0))
    for ours, theirs in zip(again.batches, drawn.batches, strict=True):
        for name, tensor in theirs.model.state_dict().items():
            assert torch.equal(ours.model.state_dict()[name], tensor), name


def test_members_that_are_cross_fitted_leave_their_folds_out(
    generator: torch.Generator,
) -> None:
    rows = small_rows(generator, n=60)
    plan = plan_of(3, cross_fitting=True)
    drawn = draw_members(plan, training_rows(rows), np.random.RandomState(0))
    assert drawn.folds is not None
    assert [len(fold) for fold in drawn.folds] == [7, 7, 7]
    batch = drawn.batches[0]
    assert isinstance(batch.rows, Rows)
    assert batch.rows.targets.shape == (3, 53, 1)
    for fold, targets in zip(drawn.folds, batch.rows.targets, strict=True):
        others = [row for row in range(60) if row not in fold.tolist()]
        assert torch.equal(targets.sort(0).values, rows.targets[others].sort(0).values)


@pytest.mark.parametrize(
    ("size", "n_members", "cross_fitting", "complete", "dealt"),
    [
        (1, 3, True, True, False),
        (4, 3, True, False, True),
        (4, 3, False, True, True),
        (4, 3, False, False, False),
    ],
)
def test_members_are_dealt_to_processes_that_all_have_their_rows(
    size: int,
    n_members: int,
    cross_fitting: bool,
    complete: bool,
    dealt: bool,
    generator: torch.Generator,
) -> None:
    rows = training_rows(small_rows(generator))
    rows = replace(rows, n_rows=len(rows.sample) + (not complete), processes=Processes(0, size))
    plan = plan_of(n_members, cross_fitting=cross_fitting)
    assert deals_members(plan, rows) == dealt
    assert members_per_process(plan, rows) == (2 if dealt else 6)
