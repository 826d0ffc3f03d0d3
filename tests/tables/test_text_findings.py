from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from sswim.rows.scaling import moments
from sswim.tables import (
    CategoryColumn,
    Column,
    IgnoredColumn,
    LevelMeansColumn,
    NumberColumn,
    TimeColumn,
    levels,
)
from sswim.tables.levels import (
    IDENTIFIER_ROWS,
    MAX_INDICATORS,
    MAX_MARKERS,
    MEAN_ROWS,
    N_FOLDS,
    TextFindings,
    fold_numbers,
)

Found = tuple[Column, Any, list[str]]
Texts = Sequence[str | None]


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


def learn(texts: Texts, **options: Any) -> Found:
    """Return what a column of texts becomes."""
    return learnt(collect(texts, **options), len(texts))


def learnt(found: TextFindings, n_rows: int) -> Found:
    folds, targets = fold_numbers(np.arange(n_rows)), torch.tensor(drawn_targets(n_rows))
    return found.learn("x", [moments(targets[folds == fold], None) for fold in range(N_FOLDS)])


def test_numbers_that_are_text_are_read_as_numbers_and_said() -> None:
    column, _, (note,) = learn([f"{k / 4}" for k in range(100)])
    assert column == NumberColumn("x", text_format=".")
    expected = "'x' is text, and all of it numbers: read as numbers; --text x, or the type category"
    assert expected in note


def test_texts_among_numbers_stand_for_missing_ones() -> None:
    texts = [f"{k / 4}" for k in range(100)]
    texts[3] = texts[50] = "?"
    texts[70] = "n/a"
    column, _, (note,) = learn(texts)
    assert column == NumberColumn("x", False, ".", ("?", "n/a"))
    assert "97 numbers and 3 other values, '?', 'n/a': read as numbers, with 3 missing" in note
    texts[50] = texts[70] = "1"
    assert "99 numbers and 1 other value, '?'" in learn(texts)[2][0]
    texts[:17] = ["?"] * 17
    assert not learn(texts)[0].has_missing
    with_gaps: Texts = [*texts, None, None, None]  # with 17 markers, many enough
    assert learn(with_gaps)[0] == NumberColumn("x", True, ".", ("?",))


def test_too_many_texts_among_numbers_make_levels_and_are_said() -> None:
    numbers = [f"{k % 7}" for k in range(100)]
    kinds = [f"code {k}" for k in range(MAX_MARKERS + 1)]
    column, _, (note,) = learn([*numbers, *kinds, *kinds])
    assert isinstance(column, CategoryColumn | LevelMeansColumn)
    assert "100 numbers and 12 other values, such as 'code 0', " in note
    assert f"used as text of {7 + len(kinds)} levels; correct these values" in note
    often = [*numbers, *["?"] * 30]
    column, _, (note,) = learn(often)
    assert isinstance(column, CategoryColumn | LevelMeansColumn)
    assert "100 numbers and 30 other values, such as '?'" in note
    mostly_text = [*numbers, *["?"] * 101]
    assert learn(mostly_text)[2] == []


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
    column, _, (note,) = learn(texts * 30)
    assert column == NumberColumn("x", text_format=text_format)
    assert how in note


def test_codes_with_leading_zeros_are_no_numbers() -> None:
    column, _, notes = learn(["00123", "04109", "12345"] * 30)
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
    column, fold_means, notes = learn([*texts] * 20)
    assert column == expected
    assert fold_means is None
    assert notes == []


def test_texts_among_times_stand_for_missing_ones() -> None:
    texts = [f"{1 + k % 28}.{1 + k % 12}.2020" for k in range(100)]
    texts[3] = texts[50] = "n/a"
    texts[70] = "31.02.2020"
    column, _, (note,) = learn(texts)
    markers = ("31.02.2020", "n/a")
    assert column == TimeColumn("x", text_format="%d.%m.%Y", markers=markers)
    assert "97 dates or times and 3 other values, '31.02.2020', 'n/a': read as dates or" in note
    texts[:20] = ["n/a"] * 20
    assert not isinstance(learn(texts)[0], TimeColumn)  # more than a fifth are something else


def test_days_and_months_that_cannot_be_told_apart_are_said() -> None:
    column, _, (note,) = learn(["1/2/2020", "3/4/2020"] * 20)
    assert column == TimeColumn("x", text_format="%d/%m/%Y")
    assert "day and month cannot be told apart: read as %d/%m/%Y; write them as YYYY-" in note


@pytest.mark.parametrize("texts", [["1.2.3", "2.10.1"], ["2020-01-31", "soon"], ["5:30"]])
def test_what_is_not_mostly_a_time_is_text(texts: list[str]) -> None:
    assert isinstance(learn(texts * 20)[0], CategoryColumn)


def test_a_category_is_never_a_number_or_a_time() -> None:
    for texts in (["1", "2", "3"], ["2020-01-31", "2020-02-01", "2020-02-02"]):
        column, _, notes = learn(texts * 20, is_plain=False)
        assert column == CategoryColumn("x", levels=tuple(texts))
        assert notes == []


def test_few_levels_have_indicators_in_the_order_of_their_texts() -> None:
    column, fold_means, notes = learn(["b", "a", "é", "b"] * 10)
    assert column == CategoryColumn("x", levels=("a", "b", "é"))
    assert fold_means is None
    assert notes == []
    assert learn(["b", "a", None] * 10)[0] == CategoryColumn("x", levels=("a", "b"))
    assert learn(["b", "a", None] * 20)[0] == CategoryColumn("x", True, levels=("a", "b"))


def test_rare_levels_share_a_word() -> None:
    texts = [*["a"] * 100, *["b"] * 80, "rare", "scarce", "few"]
    column, fold_means, _ = learn(texts)
    assert isinstance(column, LevelMeansColumn)
    assert column.levels == ("a", "b", "few", "rare", "scarce")
    assert column.shown == CategoryColumn("x", levels=("a", "b"), has_other=True)
    assert fold_means is not None
    assert fold_means.shape == (5 + 2, N_FOLDS, 1)


def test_levels_of_many_rows_also_have_their_mean_target() -> None:
    texts = [f"t{k % 3}" for k in range(MEAN_ROWS)]
    column, _, _ = learn(texts)
    assert isinstance(column, LevelMeansColumn)
    assert column.shown == CategoryColumn("x", levels=("t0", "t1", "t2"))
    assert isinstance(learn(texts[:-1])[0], CategoryColumn)
    two = [f"t{k % 2}" for k in range(MEAN_ROWS)]  # whose indicator is the mean already
    assert learn(two)[0] == CategoryColumn("x", levels=("t0", "t1"))


def test_only_so_many_levels_have_indicators() -> None:
    n_levels = 3 * MAX_INDICATORS
    texts = [f"t{k % n_levels:04}" for k in range(20 * n_levels)]
    column, _, _ = learn(texts)
    assert isinstance(column, LevelMeansColumn)
    assert len(column.levels) == n_levels
    assert column.shown is None or len(column.shown.levels) <= MAX_INDICATORS


@pytest.mark.parametrize("n_rows", [IDENTIFIER_ROWS, IDENTIFIER_ROWS + 1])
def test_an_identifier_is_not_used(n_rows: int) -> None:
    texts = [f"id{k:02}" for k in range(n_rows)]
    column, _, notes = learn(texts)
    if n_rows == IDENTIFIER_ROWS:
        assert not isinstance(column, IgnoredColumn)
        return
    assert column == IgnoredColumn("x", "it has a different text in every row")
    assert notes == ["Column 'x' is not used: it has a different text in every row."]
    assert isinstance(learn([*texts, None])[0], IgnoredColumn)
    assert not isinstance(learn([*texts, texts[0]])[0], IgnoredColumn)


def test_a_column_without_texts_is_not_used() -> None:
    column, _, notes = learn([None] * 5)
    assert column == IgnoredColumn("x", "it has no values")
    assert notes == ["Column 'x' is not used: it has no values."]


def test_too_many_different_texts_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "MAX_DISTINCT", 30)
    texts = [f"t{k // 2}" for k in range(100)]
    column, _, (note,) = learn(texts, cuts=(50,))
    assert isinstance(column, IgnoredColumn)
    assert "different texts" in note
    numbers: Texts = [None if k >= 80 else f"{k / 4}" for k in range(100)]
    assert learn(numbers, cuts=(50,))[0] == NumberColumn("x", True, ".")  # missing ones are known


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
    column, means, notes = learn(texts)
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
