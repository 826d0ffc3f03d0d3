from __future__ import annotations

import pytest
import torch
from builders.models import small_rows

from sswim.recipe import folds as folds_module
from sswim.recipe.folds import MIN_ROWS, PARTS, draw_folds, leave_out
from sswim.rows.rows import Rows


def folds_of(rows: Rows, n_folds: int = 3) -> list[torch.Tensor]:
    folds = draw_folds(rows, n_folds, torch.Generator().manual_seed(0))
    assert folds is not None
    return folds


def test_folds_are_disjoint_and_of_one_size(generator: torch.Generator) -> None:
    folds = folds_of(small_rows(generator, n=83))
    assert [len(fold) for fold in folds] == [83 // PARTS] * 3
    assert len(torch.cat(folds).unique()) == 3 * (83 // PARTS)


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


def test_each_member_sees_the_rows_outside_its_fold(generator: torch.Generator) -> None:
    rows = small_rows(generator, n=40, weighted=True)
    folds = folds_of(rows)
    seen = leave_out(rows, folds, generator)
    assert seen.targets.shape == (3, 35, 1)
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
