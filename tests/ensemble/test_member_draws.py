"""Folds of rows, and members before training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from builders.models import SMALL, normal, small_rows
from builders.training import kind_of, training_rows
from torch import Tensor

from sswim.distributed.processes import Processes
from sswim.ensemble.fit import draw_members
from sswim.ensemble.member_training import DrawnMembers
from sswim.members import EVIDENCE, MAP, Kind, Plan, kinds, outside
from sswim.members.kinds import (
    FEW_ROWS,
    MIN_ROWS,
    PARTS,
    PARTS_OF_FEW,
    START_SAMPLE_ROWS,
    Precision,
    draw_folds,
    leave_out,
    start_sample,
)
from sswim.rows import Rows, TrainingRows, as_rows


def folds_of(rows: Rows, n_folds: int = 3) -> list[Tensor]:
    folds = draw_folds(rows, n_folds, torch.Generator().manual_seed(0))
    assert folds is not None
    return folds


def twice(rows: Rows) -> Rows:
    return rows.map(lambda tensor: torch.cat((tensor, tensor)))


@pytest.mark.parametrize(
    ("n", "n_folds", "most", "size"),
    [
        (83, 3, 5000, 83 // PARTS_OF_FEW),
        (FEW_ROWS - 1, 3, 5000, (FEW_ROWS - 1) // PARTS_OF_FEW),
        (FEW_ROWS, 3, 5000, FEW_ROWS // PARTS),
        (900, 3, 30, 30),
        (100, 20, 5000, 5),
    ],
)
def test_folds_are_disjoint_and_of_one_size(
    n: int,
    n_folds: int,
    most: int,
    size: int,
    generator: torch.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kinds, "MAX_FOLD_ROWS", most)
    folds = folds_of(small_rows(generator, n=n), n_folds)
    assert [len(fold) for fold in folds] == [size] * n_folds
    assert len(torch.cat(folds).unique()) == n_folds * size


def test_copies_of_a_row_stay_together_and_count_as_one(generator: torch.Generator) -> None:
    few = small_rows(generator, n=MIN_ROWS - 1)
    assert draw_folds(few, 3, generator) is None
    assert draw_folds(twice(few), 3, generator) is None
    rows = small_rows(generator, n=FEW_ROWS - 1)
    order = torch.randperm(2 * len(rows), generator=generator)
    copies = twice(rows).take(order)
    for alone, both in zip(folds_of(rows), folds_of(copies), strict=True):
        assert len(both) == 2 * len(alone)
        once = rows.take(alone).inputs.mean
        assert torch.equal(copies.take(both).inputs.mean.unique(dim=0), once.unique(dim=0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rows_outside_a_fold_have_other_inputs(
    dtype: torch.dtype, generator: torch.Generator
) -> None:
    x = torch.randint(0, 5, (60, 2), generator=generator).to(torch.float64)  # many are equal
    rows = as_rows(x, torch.arange(60.0), torch.ones(60), dtype=dtype)
    indices = torch.randperm(60, generator=generator)[:4]
    fold = rows.take(indices)
    inside = (x[:, None] == x[indices]).all(-1).any(-1)
    assert inside.sum() > len(indices)
    assert torch.equal(outside(rows, fold), (~inside).nonzero()[:, 0])
    assert len(outside(rows, rows)) == 0
    assert torch.equal(outside(rows, rows.no_rows()), torch.arange(60))


def test_each_member_sees_the_rows_outside_its_fold(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = small_rows(generator, n=40, weighted=True)
    folds = folds_of(rows)
    seen = leave_out(rows, folds, generator)
    assert seen.targets.shape == (3, 30, 1)
    assert seen.weight is not None
    for number, fold in enumerate(folds):
        everything = torch.cat((seen.targets[number], rows.targets[fold])).sort(0).values
        assert torch.equal(everything, rows.targets.sort(0).values)
    monkeypatch.setattr(kinds, "MAX_TRAINING_ROWS", 20)
    some = leave_out(rows, folds, generator)
    assert some.targets.shape == (3, 20, 1)
    for number, fold in enumerate(folds):
        assert len(some.targets[number].unique()) == 20
        assert not torch.isin(some.targets[number], rows.targets[fold]).any()


def test_folds_of_different_sizes_are_filled_with_rows_that_do_not_count(
    generator: torch.Generator,
) -> None:
    times = torch.randint(1, 4, (60,), generator=generator)
    repeated = small_rows(generator, n=60).take(torch.arange(60).repeat_interleave(times))
    folds = folds_of(repeated)
    seen = leave_out(repeated, folds, generator)
    assert seen.weight is not None
    for number, fold in enumerate(folds):
        kept = len(repeated) - len(fold)
        assert seen.weight[number].sum() == kept
        assert (seen.weight[number, :kept] == 1).all()


def test_the_start_looks_at_distinct_rows_that_count(generator: torch.Generator) -> None:
    rows = small_rows(generator)
    times = torch.randint(0, 3, (len(rows),), generator=generator)
    weighted = Rows(rows.inputs, rows.targets, times.double())
    repeated = rows.map(lambda tensor: tensor.repeat_interleave(times, dim=0))
    shuffled = repeated.take(torch.randperm(len(repeated), generator=generator))
    expected = start_sample(weighted, generator)
    assert torch.equal(start_sample(shuffled, generator), expected)
    assert len(expected) == int((times > 0).sum())
    many = normal(generator, START_SAMPLE_ROWS + 100, 1)
    assert len(start_sample(as_rows(many, many), generator)) == START_SAMPLE_ROWS


def plan_of(n_members: int, **changes: Any) -> Plan:
    shallow = kind_of(SMALL, n_members)
    deep = kind_of(replace(SMALL, depth=2), n_members, steps=7, objective=EVIDENCE)
    return Plan((shallow, deep), **changes)


def by_neighbours(n_members: int, depth: int = 0) -> Kind:
    return kind_of(replace(SMALL, depth=depth, n_neighbors=8), n_members)


def draw(plan: Plan, rows: TrainingRows) -> DrawnMembers:
    return draw_members(plan, rows, np.random.RandomState(0))


def targets_of(drawn: DrawnMembers) -> list[Tensor]:
    """Return the targets that each batch, or each member of shared rows, is trained on."""
    found = []
    for batch in drawn.batches:
        assert isinstance(batch.rows, Rows)
        targets = batch.rows.targets
        found += [targets[numbers] for numbers in batch.seen] or [targets]
    return found


def test_members_are_drawn_in_batches_of_their_kind(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sswim.members.feature_member.members_together", lambda *_: 2)
    rows = training_rows(small_rows(generator))
    drawn, again = (draw(plan_of(3), rows) for _ in range(2))
    assert drawn.folds is None
    assert [batch.model.batch for batch in drawn.batches] == [(2,), (), (2,), ()]
    assert [batch.model.architecture.depth for batch in drawn.batches] == [1, 1, 2, 2]
    assert [batch.kind.objective for batch in drawn.batches] == [MAP, MAP, EVIDENCE, EVIDENCE]
    assert [batch.kind.optimiser.steps for batch in drawn.batches] == [5, 5, 7, 7]
    assert [batch.first for batch in drawn.batches] == [0, 2, 3, 5]
    for targets in targets_of(drawn):
        assert torch.equal(targets, rows.sample.targets)
    for ours, theirs in zip(again.batches, drawn.batches, strict=True):
        for name, tensor in theirs.model.state_dict().items():
            assert torch.equal(ours.model.state_dict()[name], tensor), name


@pytest.mark.parametrize(("n_folds", "n_members"), [(3, 1), (3, 3), (5, 3)])
@pytest.mark.parametrize("complete", [True, False])
def test_members_that_are_cross_fitted_leave_their_folds_out(
    n_folds: int, n_members: int, complete: bool, generator: torch.Generator
) -> None:
    """With fewer members than folds, members leave out folds in turn; one alone all of them."""
    everything = small_rows(generator, n=60 if complete else 90)
    sample = everything.take(torch.arange(60))  # others are kept, and seen by neighbours
    rows = replace(training_rows(sample), kept=everything, n_rows=len(everything))
    plan = Plan((kind_of(SMALL, n_folds), by_neighbours(n_members)), cross_fitting=True)
    drawn = draw(plan, rows)
    assert drawn.folds is not None
    assert [len(fold) for fold in drawn.folds] == [60 // max(4, n_folds)] * n_folds

    def without(rows: Rows, folds: list[Tensor]) -> Tensor:
        left_out = torch.cat(folds).tolist()
        return rows.targets[[row for row in range(len(rows)) if row not in left_out]]

    features, *neighbours = targets_of(drawn)
    for fold, targets in zip(drawn.folds, features, strict=True):
        assert torch.equal(targets.sort(0).values, without(sample, [fold]).sort(0).values)
    for number, targets in enumerate(neighbours):
        assert torch.equal(targets, without(everything, drawn.folds[number::n_members]))


def test_members_by_neighbours_share_the_rows_in_batches_of_a_few(
    generator: torch.Generator,
) -> None:
    rows = training_rows(small_rows(generator))
    batches = draw(Plan((by_neighbours(6), by_neighbours(1, depth=1))), rows).batches
    assert [batch.model.batch for batch in batches] == [(4,), (2,), ()]
    assert [batch.first for batch in batches] == [0, 4, 6]
    assert batches[0].rows is batches[1].rows
    seeds = [seed for batch in batches for seed in batch.seeds]
    assert len({*seeds}) == len(seeds) == 7
    for batch in batches:
        for numbers in batch.seen:
            assert torch.equal(numbers, torch.arange(len(rows.sample)))


def test_members_by_neighbours_know_how_targets_are_rounded(generator: torch.Generator) -> None:
    rows = small_rows(generator, n=60)
    rounded = replace(rows, targets=(4 * rows.targets).round() / 4)
    plan = Plan((by_neighbours(1), kind_of(SMALL)))
    steps = [
        draw(plan, training_rows(each)).batches[0].model.resolution for each in (rounded, rows)
    ]
    assert [step.item() for step in steps] == pytest.approx([0.25, 0])


@pytest.mark.parametrize(
    ("precision", "expected"), [("float32", torch.float32), ("float64", torch.float64)]
)
def test_a_precision_is_that_of_all_members(
    precision: Precision, expected: torch.dtype, generator: torch.Generator
) -> None:
    plan = Plan((by_neighbours(1), kind_of(SMALL, 2)), precision=precision)
    for batch in draw(plan, training_rows(small_rows(generator))).batches:
        assert isinstance(batch.rows, Rows)
        assert batch.rows.inputs.mean.dtype == expected
        assert batch.rows.targets.dtype == torch.float64


@pytest.mark.parametrize(
    ("size", "cross_fitting", "complete", "dealt"),
    [
        (1, True, True, False),
        (4, True, False, True),
        (4, False, True, True),
        (4, False, False, False),
    ],
)
def test_members_are_dealt_to_processes_that_all_have_their_rows(
    size: int, cross_fitting: bool, complete: bool, dealt: bool, generator: torch.Generator
) -> None:
    rows = training_rows(small_rows(generator))
    rows = replace(rows, n_rows=len(rows.sample) + (not complete), processes=Processes(0, size))
    plan = plan_of(3, cross_fitting=cross_fitting)
    assert plan.deals_members(rows) == dealt
    assert plan.members_per_process(rows) == (2 if dealt else 6)
