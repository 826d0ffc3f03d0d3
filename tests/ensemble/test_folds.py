from __future__ import annotations

import pytest
import torch
from builders.models import small_rows

from sswim.members import kinds as folds_module
from sswim.members import outside
from sswim.members.kinds import FEW_ROWS, MIN_ROWS, PARTS, PARTS_OF_FEW, draw_folds, leave_out
from sswim.rows import Rows, as_rows


def folds_of(rows: Rows, n_folds: int = 3) -> list[torch.Tensor]:
    folds = draw_folds(rows, n_folds, torch.Generator().manual_seed(0))
    assert folds is not None
    return folds


@pytest.mark.parametrize(
    ("n", "parts"), [(83, PARTS_OF_FEW), (FEW_ROWS - 1, PARTS_OF_FEW), (FEW_ROWS, PARTS)]
)
def test_folds_are_disjoint_and_of_one_size(n: int, parts: int, generator: torch.Generator) -> None:
    folds = folds_of(small_rows(generator, n=n))
    assert [len(fold) for fold in folds] == [n // parts] * 3
    assert len(torch.cat(folds).unique()) == 3 * (n // parts)


def test_folds_of_many_rows_are_limited(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folds_module, "MAX_FOLD_ROWS", 30)
    assert [len(fold) for fold in folds_of(small_rows(generator, n=900))] == [30] * 3


def test_more_folds_than_parts_are_smaller(generator: torch.Generator) -> None:
    folds = folds_of(small_rows(generator, n=100), n_folds=20)
    assert [len(fold) for fold in folds] == [5] * 20


def test_of_few_rows_none_is_spared(generator: torch.Generator) -> None:
    rows = small_rows(generator, n=MIN_ROWS - 1)
    assert draw_folds(rows, 3, generator) is None
    twice = rows.map(lambda tensor: torch.cat((tensor, tensor)))
    assert draw_folds(twice, 3, generator) is None


def test_copies_of_a_row_stay_together_wherever_they_are(generator: torch.Generator) -> None:
    rows = small_rows(generator, n=80)
    order = torch.randperm(160, generator=generator)
    twice = rows.map(lambda tensor: torch.cat((tensor, tensor))[order])
    for alone, both in zip(folds_of(rows), folds_of(twice), strict=True):
        assert len(both) == 2 * len(alone)
        once = rows.take(alone).inputs.mean
        assert torch.equal(twice.take(both).inputs.mean.unique(dim=0), once.unique(dim=0))


def test_few_rows_are_those_with_few_distinct_inputs(generator: torch.Generator) -> None:
    rows = small_rows(generator, n=FEW_ROWS - 1)
    twice = rows.map(lambda tensor: torch.cat((tensor, tensor)))
    assert [len(fold) for fold in folds_of(twice)] == [2 * ((FEW_ROWS - 1) // PARTS_OF_FEW)] * 3


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
    found = outside(rows, fold)
    assert torch.equal(found.targets, rows.targets[~inside])
    assert torch.equal(found.inputs.mean, rows.inputs.mean[~inside])
    assert len(outside(rows, rows)) == 0
    assert torch.equal(outside(rows, rows.no_rows()).targets, rows.targets)


def test_all_rows_but_a_fold_are_outside_of_it(generator: torch.Generator) -> None:
    rows = small_rows(generator, n=80)
    for fold in folds_of(rows):
        others = [row for row in range(80) if row not in fold.tolist()]
        assert torch.equal(outside(rows, rows.take(fold)).targets, rows.targets[others])


def test_each_member_sees_the_rows_outside_its_fold(generator: torch.Generator) -> None:
    rows = small_rows(generator, n=40, weighted=True)
    folds = folds_of(rows)
    seen = leave_out(rows, folds, generator)
    assert seen.targets.shape == (3, 30, 1)
    assert seen.weight is not None
    for number, fold in enumerate(folds):
        everything = torch.cat((seen.targets[number], rows.targets[fold])).sort(0).values
        assert torch.equal(everything, rows.targets.sort(0).values)


def test_folds_of_different_sizes_are_filled_with_rows_that_do_not_count(
    generator: torch.Generator,
) -> None:
    rows = small_rows(generator, n=60)
    times = torch.randint(1, 4, (60,), generator=generator)
    repeated = rows.map(lambda tensor: tensor.repeat_interleave(times, dim=0))
    folds = folds_of(repeated)
    seen = leave_out(repeated, folds, generator)
    assert seen.weight is not None
    assert rows.weight is None
    for number, fold in enumerate(folds):
        kept = len(repeated) - len(fold)
        assert seen.weight[number].sum() == kept
        assert (seen.weight[number, :kept] == 1).all()


def test_of_many_rows_some_are_seen(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folds_module, "MAX_TRAINING_ROWS", 20)
    rows = small_rows(generator, n=80)
    folds = folds_of(rows)
    seen = leave_out(rows, folds, generator)
    assert seen.targets.shape == (3, 20, 1)
    for number, fold in enumerate(folds):
        assert len(seen.targets[number].unique()) == 20
        assert not torch.isin(seen.targets[number], rows.targets[fold]).any()
