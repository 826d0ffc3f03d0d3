from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from builders.models import SMALL, normal, small_rows
from builders.training import kind_of, training_rows

from sswim.distributed.processes import Processes
from sswim.ensemble.fit import draw_members
from sswim.members import EVIDENCE, MAP, Adam, Kind, Plan
from sswim.members.kinds import START_SAMPLE_ROWS, Precision, start_sample
from sswim.members.neighbour_training import MiniBatches
from sswim.rows import Rows, as_rows


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
    n = START_SAMPLE_ROWS + 100
    x = normal(generator, n, 1)
    assert len(start_sample(as_rows(x, x), generator)) == START_SAMPLE_ROWS


def plan_of(n_members: int, **changes: Any) -> Plan:
    shallow = kind_of(SMALL, n_members)
    deep = kind_of(replace(SMALL, depth=2), n_members, steps=7, objective=EVIDENCE)
    return Plan((shallow, deep), **changes)


def by_neighbours(n_members: int, depth: int = 0) -> Kind:
    return kind_of(replace(SMALL, depth=depth, n_neighbors=8), n_members)


def test_members_are_drawn_in_batches_of_their_kind(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sswim.members.feature_member.members_together", lambda *_: 2)
    rows = training_rows(small_rows(generator))
    drawn = draw_members(plan_of(3), rows, np.random.RandomState(0))
    assert drawn.folds is None
    assert [batch.model.batch for batch in drawn.batches] == [(2,), (), (2,), ()]
    assert [batch.model.architecture.depth for batch in drawn.batches] == [1, 1, 2, 2]
    assert [batch.kind.objective for batch in drawn.batches] == [MAP, MAP, EVIDENCE, EVIDENCE]
    assert [batch.kind.optimiser.steps for batch in drawn.batches] == [5, 5, 7, 7]
    assert [batch.first for batch in drawn.batches] == [0, 2, 3, 5]
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
    assert [len(fold) for fold in drawn.folds] == [15, 15, 15]
    batch = drawn.batches[0]
    assert isinstance(batch.rows, Rows)
    assert batch.rows.targets.shape == (3, 45, 1)
    for fold, targets in zip(drawn.folds, batch.rows.targets, strict=True):
        others = [row for row in range(60) if row not in fold.tolist()]
        assert torch.equal(targets.sort(0).values, rows.targets[others].sort(0).values)


def outside_of(rows: Rows, folds: list[torch.Tensor]) -> torch.Tensor:
    left_out = torch.cat(folds).tolist()
    return rows.targets[[row for row in range(len(rows)) if row not in left_out]]


def test_kinds_by_features_and_by_neighbours_are_drawn_side_by_side(
    generator: torch.Generator,
) -> None:
    rows = small_rows(generator, n=60)
    kinds = (kind_of(SMALL, 2), by_neighbours(1), by_neighbours(2, depth=1))
    drawn = draw_members(Plan(kinds), training_rows(rows), np.random.RandomState(0))
    assert [batch.first for batch in drawn.batches] == [0, 2, 3, 4]
    assert [batch.model.architecture.depth for batch in drawn.batches] == [1, 0, 1, 1]
    assert [type(batch.kind.optimiser) for batch in drawn.batches] == [Adam] + [MiniBatches] * 3
    assert len({batch.seed for batch in drawn.batches}) == 4
    for batch in drawn.batches[1:]:
        assert isinstance(batch.rows, Rows)
        assert torch.equal(batch.rows.targets, rows.targets)


@pytest.mark.parametrize(("n_members", "expected"), [(1, [[0, 1, 2]]), (3, [[0], [1], [2]])])
def test_members_by_neighbours_leave_out_their_folds(
    n_members: int, expected: list[list[int]], generator: torch.Generator
) -> None:
    """A kind with one member leaves out all folds, and one with several a fold each."""
    rows = small_rows(generator, n=60)
    plan = Plan((kind_of(SMALL, 3), by_neighbours(n_members)), cross_fitting=True)
    drawn = draw_members(plan, training_rows(rows), np.random.RandomState(0))
    assert drawn.folds is not None
    assert len(drawn.folds) == 3
    batches = drawn.batches[1:]
    for batch, left_out in zip(batches, expected, strict=True):
        assert isinstance(batch.rows, Rows)
        others = outside_of(rows, [drawn.folds[fold] for fold in left_out])
        assert torch.equal(batch.rows.targets, others)


def test_fewer_members_than_folds_leave_out_several(generator: torch.Generator) -> None:
    """The member that predicts a fold, in turn, has not seen it."""
    rows = small_rows(generator, n=60)
    plan = Plan((kind_of(SMALL, 5), by_neighbours(3)), cross_fitting=True)
    drawn = draw_members(plan, training_rows(rows), np.random.RandomState(0))
    assert drawn.folds is not None
    for number, fold in enumerate(drawn.folds):
        seen = drawn.batches[1 + number % 3].rows
        assert isinstance(seen, Rows)
        assert not torch.isin(rows.targets[fold], seen.targets).any()


def test_rows_that_are_kept_but_not_in_the_sample_are_seen(generator: torch.Generator) -> None:
    everything = small_rows(generator, n=90)
    sample = everything.take(torch.arange(60))
    rows = replace(training_rows(sample), kept=everything, n_rows=90)
    plan = Plan((by_neighbours(1),), cross_fitting=True)
    drawn = draw_members(plan, rows, np.random.RandomState(0))
    assert drawn.folds is not None
    [batch] = drawn.batches
    assert isinstance(batch.rows, Rows)
    assert torch.equal(batch.rows.targets, outside_of(everything, drawn.folds))


def test_members_by_neighbours_know_how_targets_are_rounded(generator: torch.Generator) -> None:
    rows = small_rows(generator, n=60)
    rounded = replace(rows, targets=(4 * rows.targets).round() / 4)
    plan = Plan((by_neighbours(1), kind_of(SMALL)))
    drawn = draw_members(plan, training_rows(rounded), np.random.RandomState(0))
    assert drawn.batches[0].model.resolution.item() == pytest.approx(0.25)
    exact = draw_members(plan, training_rows(rows), np.random.RandomState(0))
    assert exact.batches[0].model.resolution.item() == 0


@pytest.mark.parametrize(
    ("precision", "expected"), [("float32", torch.float32), ("float64", torch.float64)]
)
def test_a_precision_is_that_of_all_members(
    precision: Precision, expected: torch.dtype, generator: torch.Generator
) -> None:
    plan = Plan((by_neighbours(1), kind_of(SMALL, 2)), precision=precision)
    drawn = draw_members(plan, training_rows(small_rows(generator)), np.random.RandomState(0))
    for batch in drawn.batches:
        assert isinstance(batch.rows, Rows)
        assert batch.rows.inputs.mean.dtype == expected
        assert batch.rows.targets.dtype == torch.float64


def test_members_by_features_start_where_screening_says(generator: torch.Generator) -> None:
    x = torch.rand(500, 1, generator=generator, dtype=torch.float64)
    y = (60 * x).sin() + 0.1 * normal(generator, 500, 1)
    x = (x - x.mean()) / x.std()
    plan = Plan((kind_of(replace(SMALL, depth=0)), by_neighbours(1)), screening=True)
    drawn = draw_members(plan, training_rows(as_rows(x, y)), np.random.RandomState(0))
    features, neighbours = (batch.model for batch in drawn.batches)
    assert features.spectrum.length_scales().item() < 0.3
    assert features.noise().item() < 0.05
    assert neighbours.spectrum.length_scales().item() == pytest.approx(1, rel=0.01)


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
    assert plan.deals_members(rows) == dealt
    assert plan.members_per_process(rows) == (2 if dealt else 6)
