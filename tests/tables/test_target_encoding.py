from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from sswim.rows.scaling import moments
from sswim.tables import CategoryColumn, LevelMeansColumn
from sswim.tables.levels import (
    MOST_ROWS,
    N_FOLDS,
    LevelSums,
    encode_levels,
    fold_numbers,
    shrinkage_rows,
)

Texts = list[str | None]


def learn(
    texts: Texts, targets: Any, weight: Any = None, shown: CategoryColumn | None = None
) -> tuple[LevelMeansColumn, Any, pa.ChunkedArray]:
    """Return the encoding of rows with numbers from 0, and their column."""
    values = pa.chunked_array([pa.array(texts, pa.large_string())])
    folds = fold_numbers(np.arange(len(texts)))
    sums = LevelSums()
    sums.add(values, folds, targets, weight)
    of_folds = [
        moments(
            torch.tensor(targets[folds == fold]),
            None if weight is None else torch.tensor(weight[folds == fold]),
        )
        for fold in range(N_FOLDS)
    ]
    return *encode_levels("x", sums, of_folds, shown), values


def training_inputs(texts: Texts, targets: Any, weight: Any = None) -> Any:
    """Return the inputs of the rows that the encoding was learnt from."""
    column, fold_means, values = learn(texts, targets, weight)
    return column.encode(values, fold_means, fold_numbers(np.arange(len(texts))))


def rows(n: int = 400, n_levels: int = 30, n_targets: int = 2) -> tuple[Texts, Any]:
    """Draw levels of random effects, some of them missing, and targets far from zero."""
    random = np.random.default_rng(n)
    codes = random.integers(n_levels, size=n)
    effects = random.normal(size=(n_levels, n_targets)) * np.arange(1, n_targets + 1)
    targets = 1e3 + effects[codes] + random.normal(size=(n, n_targets))
    return [None if code == 0 else f"t{code:03}" for code in codes], targets


def by_hand(texts: Texts, targets: Any, weight: Any, used: Any, text: str | None) -> Any:
    """Compute the shrunk mean target of a level in some rows, by loops over rows."""
    result = []
    for y in targets.T:
        pairs = [(texts[row], y[row], weight[row]) for row in used]
        total = sum(w for _, _, w in pairs)
        overall = sum(w * value for _, value, w in pairs) / total
        groups: dict[str | None, list[tuple[float, float]]] = {}
        for level, value, w in pairs:
            groups.setdefault(level, []).append((value, w))
        n_levels = len(groups)
        within = between = squares = 0.0
        for members in groups.values():
            size = sum(w for _, w in members)
            mean = sum(w * value for value, w in members) / size
            within += sum(w * (value - mean) ** 2 for value, w in members)
            between += size * (mean - overall) ** 2
            squares += size**2
        noise = within / (total - n_levels)
        typical = (total - squares / total) / (n_levels - 1)
        spread = (between / (n_levels - 1) - noise) / typical
        shrinkage = min(max(noise / spread, 1.0), MOST_ROWS) if spread > 0 else MOST_ROWS
        mine = groups.get(text, [])
        size, level_sum = sum(w for _, w in mine), sum(w * value for value, w in mine)
        result.append((level_sum + shrinkage * overall) / (size + shrinkage))
    return np.array(result)


@pytest.mark.parametrize("weighted", [False, True])
def test_training_inputs_are_the_means_of_other_folds_by_hand(weighted: bool) -> None:
    texts, targets = rows()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(texts)) if weighted else None
    once = np.ones(len(texts)) if weight is None else weight
    found = training_inputs(texts, targets, weight)
    folds = fold_numbers(np.arange(len(texts)))
    for row, text in enumerate(texts):
        others = np.flatnonzero(folds != folds[row])
        expected = by_hand(texts, targets, once, others, text)
        assert np.allclose(found[row], expected, rtol=1e-9), row


def test_later_rows_have_the_means_of_all_rows_by_hand() -> None:
    texts, targets = rows()
    column, _, _ = learn(texts, targets)
    everything, once = np.arange(len(texts)), np.ones(len(texts))
    asked: Texts = [*column.levels, None, "unknown", "", "T001"]
    found = column.encode(pa.chunked_array([asked]))
    for row, text in enumerate(asked):
        expected = by_hand(texts, targets, once, everything, text)
        assert np.allclose(found[row], expected, rtol=1e-9), text
    assert np.allclose(found[-3:], targets.mean(0))  # unknown levels
    assert column.inputs == ["x mean 0", "x mean 1"]
    assert learn(texts, targets[:, :1])[0].inputs == ["x mean"]


@pytest.mark.parametrize("level", ["t003", "alone", None])
def test_the_target_of_a_row_is_not_in_its_own_inputs(level: str | None) -> None:
    """Nor is it in the inputs of its fold: not even in their rounding."""
    texts, targets = rows()
    texts[57], texts[58] = "alone", level
    folds = fold_numbers(np.arange(len(texts)))
    row = 57 if level == "alone" else 58
    before = training_inputs(texts, targets)
    changed = targets.copy()
    changed[row] += 1e6
    after = training_inputs(texts, changed)
    same_fold = folds == folds[row]
    assert np.array_equal(after[same_fold], before[same_fold])
    assert (after[~same_fold] != before[~same_fold]).all()


def test_without_missing_levels_a_missing_one_has_the_mean_of_all() -> None:
    texts, targets = rows()
    known: Texts = [text or "t000" for text in texts]
    column, _, _ = learn(known, targets)
    assert column.missing == column.other
    assert not column.has_missing
    found = column.encode(pa.chunked_array([pa.nulls(1, pa.string())]))
    assert np.allclose(found, targets.mean(0))


def effects(
    n_levels: int, noise: float, spread: float, sizes: Any, seed: int
) -> tuple[Any, Any, Any]:
    """Draw true effects of levels; return them, the sums of their targets, and the variance."""
    random = np.random.default_rng(seed)
    truth = spread * random.normal(size=n_levels)
    codes = np.repeat(np.arange(n_levels), sizes)
    targets = 5.0 + truth[codes] + noise * random.normal(size=len(codes))
    sums = np.stack([np.bincount(codes), np.bincount(codes, targets)], axis=1).astype(float)
    return truth, sums, np.array([targets.var()])


@pytest.mark.parametrize("noise", [1.6, 3.0, 6.0])
@pytest.mark.parametrize("balanced", [True, False])
def test_shrinkage_is_that_of_a_model_of_random_effects(noise: float, balanced: bool) -> None:
    """The estimate of σ²/τ² is right on average, and its means are as good as any."""
    spread, n_levels = 1.5, 400
    sizes = np.full(n_levels, 10) if balanced else 1 + np.arange(n_levels) % 20
    found = []
    for seed in range(20):
        truth, sums, variance = effects(n_levels, noise, spread, sizes, seed)
        (rows,) = shrinkage_rows(sums, variance)
        found.append(rows)
        overall = sums[:, 1].sum() / sums[:, 0].sum()

        def error(
            shrinkage: float, sums: Any = sums, truth: Any = truth, mean: Any = overall
        ) -> Any:
            means = (sums[:, 1] + shrinkage * mean) / (sums[:, 0] + shrinkage)
            return np.square(means - 5.0 - truth).mean()

        best = min(error(each) for each in np.geomspace(0.05, 500, 60))
        assert error(rows) < 1.1 * best + 0.01 * spread**2
    assert np.median(found) == pytest.approx((noise / spread) ** 2, rel=0.1)


def test_the_mean_of_all_rows_counts_for_at_least_one() -> None:
    _, sums, variance = effects(100, 0.01, 1.0, np.full(100, 5), 0)
    assert shrinkage_rows(sums, variance) == 1.0


def test_levels_that_say_nothing_are_drawn_to_the_mean_of_all() -> None:
    found = []
    for seed in range(20):
        _, sums, variance = effects(200, 1.0, 0.0, np.full(200, 5), seed)
        (rows,) = shrinkage_rows(sums, variance)
        found.append(rows)
    assert np.median(found) > 20


def test_shrinkage_of_odd_levels_is_finite() -> None:
    one = np.ones(1)
    for sums in (
        np.zeros((3, 2)),  # no rows at all
        np.array([[4.0, 8.0]]),  # one level
        np.array([[1.0, 3.0], [1.0, 5.0]]),  # one row in each
        np.array([[4.0, 8.0], [4.0, 8.0], [0.0, 0.0]]),  # equal means
    ):
        for variance in (one, 0 * one):
            rows = shrinkage_rows(sums, variance)
            assert ((rows >= 1) & (rows <= MOST_ROWS)).all()


def test_a_constant_target_is_the_mean_of_every_level() -> None:
    texts, targets = rows()
    column, fold_means, _ = learn(texts, np.full_like(targets, 7.0))
    assert np.allclose(column.encode(pa.chunked_array([["t001", "new", None]])), 7.0)
    assert np.allclose(fold_means, 7.0)


def test_weights_count_as_copies() -> None:
    texts, targets = rows(200)
    twice, _, _ = learn(texts, targets, np.full(len(texts), 2.0))
    copies, _, _ = learn(texts * 2, np.concatenate((targets, targets)))
    assert np.allclose(twice.means, copies.means, rtol=1e-9)


def test_common_levels_have_indicators_beside_their_mean() -> None:
    texts, targets = rows()
    shown = CategoryColumn("x", has_missing=True, levels=("t001", "t002"), has_other=True)
    column, fold_means, values = learn(texts, targets[:, :1], shown=shown)
    plain, _, _ = learn(texts, targets[:, :1])
    assert column.has_missing
    assert column.inputs == ["x mean", "x=t001", "x=t002", "x other", "x is missing"]
    asked = pa.chunked_array([["t002", "t003", "new", None]])
    found = column.encode(asked)
    assert np.array_equal(found[:, :1], plain.encode(asked))
    assert found[:, 1:].tolist() == [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    folds = fold_numbers(np.arange(len(texts)))
    training = column.encode(values, fold_means, folds)
    assert np.array_equal(training[:, :1], training_inputs(texts, targets[:, :1]))
    assert np.array_equal(training[:, 1:], column.encode(values)[:, 1:])
