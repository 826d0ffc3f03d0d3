from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from sswim.rows import moments
from sswim.tables import (
    IDENTIFIER_ROWS,
    MAX_MARKERS,
    MEAN_ROWS,
    MOST_ROWS,
    N_FOLDS,
    CategoryColumn,
    Column,
    IgnoredColumn,
    LevelMeansColumn,
    LevelSums,
    NumberColumn,
    TextFindings,
    TimeColumn,
    UnknownCategoryWarning,
    as_levels,
    encode_levels,
    fold_numbers,
    level_codes,
    levels,
    shrinkage_rows,
)


def column(values: Any) -> pa.ChunkedArray:
    return values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])


@pytest.mark.parametrize(
    "values",
    [
        *(pa.array([1, None, 20], dtype) for dtype in (pa.int8(), pa.uint64(), pa.float64())),
        pa.array([1.0, np.nan, 20.0], pa.float32()),
        pa.array([1.0, None, 20.0], pa.float16()),
        pa.array([1, None, 20]).dictionary_encode(),
        pa.array([1.0, np.nan, 20.0]).dictionary_encode(),
        pa.array([Decimal(1), None, Decimal(20)]),
        pa.array(["1", None, "20"]),
    ],
    ids=lambda values: str(values.type),
)
def test_a_whole_number_has_the_same_text_whatever_its_type(values: Any) -> None:
    assert as_levels(column(values)).to_pylist() == ["1", None, "20"]


def test_other_values_have_the_text_that_one_would_write() -> None:
    day = datetime.date(2020, 2, 29)
    for values, expected in (
        (pa.array([1.5, 2.0]), ["1.5", "2"]),
        (pa.array([2.0**60, 1.0]), ["1.152921504606847e+18", "1"]),
        (pa.array([True, False]), ["true", "false"]),
        (pa.array([True, None]).dictionary_encode(), ["true", None]),
        (pa.array([day, None]), ["2020-02-29", None]),
        (pa.nulls(2), [None, None]),
        (pa.nulls(2).dictionary_encode(), [None, None]),
    ):
        assert as_levels(column(values)).to_pylist() == expected, values.type


def test_a_missing_entry_of_a_dictionary_is_a_missing_value() -> None:
    pool = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["a", None]))
    assert as_levels(column(pool)).to_pylist() == ["a", None, None]


def test_unknown_levels_are_told_if_that_is_wished() -> None:
    texts = ["b", "p", "q", "p", "r", "s", "t", "u", None]
    with pytest.warns(UnknownCategoryWarning) as caught:
        codes, missing = level_codes("my x", column(texts), ("a", "b"), warn=True)
    assert codes.tolist() == [1, *[-1] * 8]
    assert missing.tolist() == [*[False] * 8, True]
    (warning,) = caught
    message = str(warning.message)
    assert "Column 'my x' has levels that the model has not learnt in 7 rows" in message
    assert "'p', 'q', 'r', 's', 't' and 1 more." in message
    codes, _ = level_codes("x", column(texts), ("a", "b"), warn=False)  # warnings are errors here
    assert codes.tolist() == [1, *[-1] * 8]


def test_folds_depend_on_row_numbers_alone_and_are_even() -> None:
    numbers = np.arange(100_000)
    folds = fold_numbers(numbers)
    assert set(folds) == set(range(N_FOLDS))
    assert np.array_equal(fold_numbers(numbers[500:600]), folds[500:600])
    sizes = np.bincount(folds)
    assert np.abs(sizes / sizes.mean() - 1).max() < 0.03
    following = np.bincount(folds[1:] * N_FOLDS + folds[:-1])  # rows that follow each other
    assert np.abs(following / following.mean() - 1).max() < 0.1


def rows(n: int, n_targets: int = 2) -> tuple[list[str | None], Any, Any, Any]:
    random = np.random.default_rng(n)
    texts = [None if k == 9 else f"t{k}" for k in random.integers(10, size=n)]
    return texts, fold_numbers(np.arange(n)), random.normal(size=(n, n_targets)), random.random(n)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cuts", [(), (30,), (0, 1, 7, 50, 99)])
def test_sums_of_chunks_are_those_of_a_loop(weighted: bool, cuts: tuple[int, ...]) -> None:
    texts, folds, targets, weight = rows(100)
    found = LevelSums()
    bounds = [0, *cuts, 100]
    for first, last in pairwise(bounds):
        part = slice(first, last)
        more = weight[part] if weighted else None
        found.add(
            column(pa.array(texts[part], pa.large_string())), folds[part], targets[part], more
        )
    assert found.sums is not None
    expected: Any = np.zeros((len(found.index), N_FOLDS, 3))
    for row, text in enumerate(texts):
        once = weight[row] if weighted else 1.0
        expected[found.index[text], folds[row]] += once * np.array([1.0, *targets[row]])
    assert np.allclose(found.sums, expected, rtol=1e-12)
    assert found.sorted_levels() == [f"t{k}" for k in range(9)]
    counts = Counter(texts)
    assert all(found.count(text) == counts[text] for text in counts)
    assert found.count("unknown") == 0
    assert LevelSums().count(None) == 0


Texts = Sequence[str | None]


def encoding_of(
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
    column, fold_means, values = encoding_of(texts, targets, weight)
    return column.encode(values, fold_means, fold_numbers(np.arange(len(texts))))


def effects_of_levels(n: int = 400, n_levels: int = 30, n_targets: int = 2) -> tuple[Any, Any]:
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
    texts, targets = effects_of_levels()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(texts)) if weighted else None
    once = np.ones(len(texts)) if weight is None else weight
    found = training_inputs(texts, targets, weight)
    folds = fold_numbers(np.arange(len(texts)))
    for row, text in enumerate(texts):
        others = np.flatnonzero(folds != folds[row])
        expected = by_hand(texts, targets, once, others, text)
        assert np.allclose(found[row], expected, rtol=1e-9), row


def test_later_rows_have_the_means_of_all_rows_by_hand() -> None:
    texts, targets = effects_of_levels()
    column, _, _ = encoding_of(texts, targets)
    everything, once = np.arange(len(texts)), np.ones(len(texts))
    asked: Texts = [*column.levels, None, "unknown", "", "T001"]
    found = column.encode(pa.chunked_array([asked]))
    for row, text in enumerate(asked):
        expected = by_hand(texts, targets, once, everything, text)
        assert np.allclose(found[row], expected, rtol=1e-9), text
    assert np.allclose(found[-3:], targets.mean(0))  # unknown levels
    assert column.inputs == ["x mean 0", "x mean 1"]
    assert encoding_of(texts, targets[:, :1])[0].inputs == ["x mean"]


@pytest.mark.parametrize("level", ["t003", "alone", None])
def test_the_target_of_a_row_is_not_in_its_own_inputs(level: str | None) -> None:
    """Nor is it in the inputs of its fold: not even in their rounding."""
    texts, targets = effects_of_levels()
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
    texts, targets = effects_of_levels()
    column, fold_means, _ = encoding_of(texts, np.full_like(targets, 7.0))
    assert np.allclose(column.encode(pa.chunked_array([["t001", "new", None]])), 7.0)
    assert np.allclose(fold_means, 7.0)


def test_weights_count_as_copies() -> None:
    texts, targets = effects_of_levels(200)
    twice, _, _ = encoding_of(texts, targets, np.full(len(texts), 2.0))
    copies, _, _ = encoding_of(texts * 2, np.concatenate((targets, targets)))
    assert np.allclose(twice.means, copies.means, rtol=1e-9)


def test_common_levels_have_indicators_beside_their_mean() -> None:
    texts, targets = effects_of_levels()
    shown = CategoryColumn("x", has_missing=True, levels=("t001", "t002"), has_other=True)
    column, fold_means, values = encoding_of(texts, targets[:, :1], shown=shown)
    plain, _, _ = encoding_of(texts, targets[:, :1])
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


Found = tuple[Column, Any, list[str]]


def collect(texts: Texts, cuts: tuple[int, ...] = (), *, is_plain: bool = True) -> TextFindings:
    """Return what is found in texts that come in chunks."""
    folds, targets = fold_numbers(np.arange(len(texts))), drawn_targets(len(texts))
    found = TextFindings(is_plain)
    for first, last in pairwise((0, *cuts, len(texts))):
        part = slice(first, last)
        values = pa.chunked_array([pa.array(texts[part], pa.string())])
        found.add(values, folds[part], targets[part], None)
    return found


def drawn_targets(n: int) -> Any:
    return np.random.default_rng(0).normal(size=(n, 1))


def learn_texts(texts: Texts, **options: Any) -> Found:
    """Return what a column of texts becomes."""
    return learnt(collect(texts, **options), len(texts))


def learnt(found: TextFindings, n_rows: int) -> Found:
    folds, targets = fold_numbers(np.arange(n_rows)), torch.tensor(drawn_targets(n_rows))
    return found.learn("x", [moments(targets[folds == fold], None) for fold in range(N_FOLDS)])


def test_numbers_that_are_text_are_read_as_numbers_and_said() -> None:
    column, _, (note,) = learn_texts([f"{k / 4}" for k in range(100)])
    assert column == NumberColumn("x", text_format=".")
    expected = "'x' is text, and all of it numbers: read as numbers; --text x, or the type category"
    assert expected in note


def test_texts_among_numbers_stand_for_missing_ones() -> None:
    texts = [f"{k / 4}" for k in range(100)]
    texts[3] = texts[50] = "?"
    texts[70] = "n/a"
    column, _, (note,) = learn_texts(texts)
    assert column == NumberColumn("x", False, ".", ("?", "n/a"))
    assert "97 numbers and 3 other values, '?', 'n/a': read as numbers, with 3 missing" in note
    texts[50] = texts[70] = "1"
    assert "99 numbers and 1 other value, '?'" in learn_texts(texts)[2][0]
    texts[:17] = ["?"] * 17
    assert not learn_texts(texts)[0].has_missing
    with_gaps: Texts = [*texts, None, None, None]  # with 17 markers, many enough
    assert learn_texts(with_gaps)[0] == NumberColumn("x", True, ".", ("?",))


def test_too_many_texts_among_numbers_make_levels_and_are_said() -> None:
    numbers = [f"{k % 7}" for k in range(100)]
    kinds = [f"code {k}" for k in range(MAX_MARKERS + 1)]
    column, _, (note,) = learn_texts([*numbers, *kinds, *kinds])
    assert isinstance(column, CategoryColumn | LevelMeansColumn)
    assert "100 numbers and 12 other values, such as 'code 0', " in note
    assert f"used as text of {7 + len(kinds)} levels; correct these values" in note
    often = [*numbers, *["?"] * 30]
    column, _, (note,) = learn_texts(often)
    assert isinstance(column, CategoryColumn | LevelMeansColumn)
    assert "100 numbers and 30 other values, such as '?'" in note
    mostly_text = [*numbers, *["?"] * 101]
    assert learn_texts(mostly_text)[2] == []


@pytest.mark.parametrize(
    ("texts", "text_format", "how"),
    [
        (["1,5", "2,25", "1000"], ",", "with ',' before fractions;"),
        (["1.234,5", "2,25", "7"], ",.", "with ',' before fractions and '.' between thousands;"),
        (["1,234.5", "2.25", "7"], ".,", "with '.' before fractions and ',' between thousands;"),
        (["1,234", "5,678", "7"], ".,", "with '.' before fractions and ',' between thousands;"),
        (["1 234,5", "2,25", "7"], ", ", "with ',' before fractions and ' ' between thousands;"),
        (["1'234.5", "2.25", "7"], ".'", "with '.' before fractions and \"'\" between thousands;"),
        (["1\u202f234,5", "2,25", "7"], ",\u202f", "between thousands;"),
    ],
)
def test_marks_of_numbers_are_found_and_said(texts: list[str], text_format: str, how: str) -> None:
    column, _, (note,) = learn_texts(texts * 30)
    assert column == NumberColumn("x", text_format=text_format)
    assert how in note


def test_codes_with_leading_zeros_are_no_numbers() -> None:
    column, _, notes = learn_texts(["00123", "04109", "12345"] * 30)
    assert isinstance(column, CategoryColumn)
    assert column.levels == ("00123", "04109", "12345")
    assert notes == []


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["2020-01-31", "2020-02-01"], TimeColumn("x", text_format="ISO 8601")),
        (["2020-01-31 10:00", "2020-02-01"], TimeColumn("x", text_format="ISO 8601")),
        (
            ["2020-01-31T10:00Z", "2020-02-01T00:00:00.5+02:00"],
            TimeColumn("x", zone="UTC", text_format="ISO 8601 with offset"),
        ),
        (["31.01.2020", "1.2.2020"], TimeColumn("x", text_format="%d.%m.%Y")),
        (["1/31/2020", "2/1/2020"], TimeColumn("x", text_format="%m/%d/%Y")),
        (["31/1/2020", "1/2/2020"], TimeColumn("x", text_format="%d/%m/%Y")),
        (["31/1/2020 10:00", "1/2/2020 23:59"], TimeColumn("x", text_format="%d/%m/%Y %H:%M")),
        (["2020-01-31", None], TimeColumn("x", True, text_format="ISO 8601")),
    ],
)
def test_times_that_are_text_are_found(texts: Texts, expected: TimeColumn) -> None:
    column, fold_means, notes = learn_texts([*texts] * 20)
    assert column == expected
    assert fold_means is None
    assert notes == []


def test_texts_among_times_stand_for_missing_ones() -> None:
    texts = [f"{1 + k % 28}.{1 + k % 12}.2020" for k in range(100)]
    texts[3] = texts[50] = "n/a"
    texts[70] = "31.02.2020"
    column, _, (note,) = learn_texts(texts)
    markers = ("31.02.2020", "n/a")
    assert column == TimeColumn("x", text_format="%d.%m.%Y", markers=markers)
    assert "97 dates or times and 3 other values, '31.02.2020', 'n/a': read as dates or" in note
    texts[:20] = ["n/a"] * 20
    assert not isinstance(learn_texts(texts)[0], TimeColumn)  # more than a fifth are something else


def test_days_and_months_that_cannot_be_told_apart_are_said() -> None:
    column, _, (note,) = learn_texts(["1/2/2020", "3/4/2020"] * 20)
    assert column == TimeColumn("x", text_format="%d/%m/%Y")
    assert "day and month cannot be told apart: read as %d/%m/%Y; write them as YYYY-" in note


@pytest.mark.parametrize("texts", [["1.2.3", "2.10.1"], ["2020-01-31", "soon"], ["5:30"]])
def test_what_is_not_mostly_a_time_is_text(texts: list[str]) -> None:
    assert isinstance(learn_texts(texts * 20)[0], CategoryColumn)


def test_a_category_is_never_a_number_or_a_time() -> None:
    for texts in (["1", "2", "3"], ["2020-01-31", "2020-02-01", "2020-02-02"]):
        column, _, notes = learn_texts(texts * 20, is_plain=False)
        assert column == CategoryColumn("x", levels=tuple(texts))
        assert notes == []


def test_few_levels_have_indicators_in_the_order_of_their_texts() -> None:
    column, fold_means, notes = learn_texts(["b", "a", "é", "b"] * 10)
    assert column == CategoryColumn("x", levels=("a", "b", "é"))
    assert fold_means is None
    assert notes == []
    assert learn_texts(["b", "a", None] * 10)[0] == CategoryColumn("x", levels=("a", "b"))
    assert learn_texts(["b", "a", None] * 20)[0] == CategoryColumn("x", True, levels=("a", "b"))


def test_rare_levels_share_a_word() -> None:
    texts = [*["a"] * 100, *["b"] * 80, "rare", "scarce", "few"]
    column, fold_means, _ = learn_texts(texts)
    assert isinstance(column, LevelMeansColumn)
    assert column.levels == ("a", "b", "few", "rare", "scarce")
    assert column.shown == CategoryColumn("x", levels=("a", "b"), has_other=True)
    assert fold_means is not None
    assert fold_means.shape == (5 + 2, N_FOLDS, 1)


def test_levels_of_many_rows_also_have_their_mean_target() -> None:
    texts = [f"t{k % 3}" for k in range(MEAN_ROWS)]
    column, _, _ = learn_texts(texts)
    assert isinstance(column, LevelMeansColumn)
    assert column.shown == CategoryColumn("x", levels=("t0", "t1", "t2"))
    assert isinstance(learn_texts(texts[:-1])[0], CategoryColumn)
    two = [f"t{k % 2}" for k in range(MEAN_ROWS)]  # whose indicator is the mean already
    assert learn_texts(two)[0] == CategoryColumn("x", levels=("t0", "t1"))


@pytest.mark.parametrize("n_rows", [IDENTIFIER_ROWS, IDENTIFIER_ROWS + 1])
def test_an_identifier_is_not_used(n_rows: int) -> None:
    texts = [f"id{k:02}" for k in range(n_rows)]
    column, _, notes = learn_texts(texts)
    if n_rows == IDENTIFIER_ROWS:
        assert not isinstance(column, IgnoredColumn)
        return
    assert column == IgnoredColumn("x", "it has a different text in every row")
    assert notes == ["Column 'x' is not used: it has a different text in every row."]
    assert isinstance(learn_texts([*texts, None])[0], IgnoredColumn)
    assert not isinstance(learn_texts([*texts, texts[0]])[0], IgnoredColumn)


def test_a_column_without_texts_is_not_used() -> None:
    column, _, notes = learn_texts([None] * 5)
    assert column == IgnoredColumn("x", "it has no values")
    assert notes == ["Column 'x' is not used: it has no values."]


def test_too_many_different_texts_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "MAX_DISTINCT", 30)
    texts = [f"t{k // 2}" for k in range(100)]
    column, _, (note,) = learn_texts(texts, cuts=(50,))
    assert isinstance(column, IgnoredColumn)
    assert "different texts" in note
    numbers: Texts = [None if k >= 80 else f"{k / 4}" for k in range(100)]
    column, _, _ = learn_texts(numbers, cuts=(50,))
    assert column == NumberColumn("x", True, ".")  # missing ones are known


SAMPLES: dict[str, Texts] = {
    "numbers": [f"{k / 4}" for k in range(100)],
    "marks": ["?" if k % 20 == 3 else f"{k},5" for k in range(100)],
    "times": [f"2020-01-{1 + k % 31:02}" for k in range(100)],
    "levels": [None if k % 9 == 2 else f"t{k % 40}" for k in range(100)],
    "late text": [f"{k}" if k < 90 else f"code {k}" for k in range(100)],
    "identifier": [f"id{k}" for k in range(100)],
    "nothing": [None] * 100,
}


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("cuts", [(40,), (0, 1, 2, 99), tuple(range(5, 100, 5))])
def test_chunks_and_processes_find_what_all_rows_show(name: str, cuts: tuple[int, ...]) -> None:
    texts = SAMPLES[name]
    column, means, notes = learn_texts(texts)
    in_chunks = collect(texts, cuts)
    merged = TextFindings(is_plain=True)
    folds, targets = fold_numbers(np.arange(100)), drawn_targets(100)
    for first, last in pairwise((0, *cuts, 100)):
        part = slice(first, last)
        mine = TextFindings(is_plain=True)
        values = pa.chunked_array([pa.array(texts[part], pa.large_string())])
        mine.add(values, folds[part], targets[part], None)
        merged.merge(mine)
    for found in (in_chunks, merged):
        other_column, other_means, other_notes = learnt(found, 100)
        assert other_notes == notes
        assert (other_means is None) == (means is None)
        if means is None or other_means is None:
            assert other_column == column
        else:
            assert isinstance(column, LevelMeansColumn)
            assert isinstance(other_column, LevelMeansColumn)
            assert other_column.levels == column.levels
            assert other_column.shown == column.shown
            assert np.allclose(other_column.means, column.means)
            assert np.allclose(other_means, means)
