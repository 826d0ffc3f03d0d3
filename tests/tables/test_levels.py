from __future__ import annotations

import datetime
from collections import Counter
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from builders.tables import dictionary, views

from sswim.tables import TableError, UnknownCategoryWarning, as_levels, levels
from sswim.tables.columns import level_codes
from sswim.tables.levels import N_FOLDS, LevelSums, fold_numbers


def column(values: Any) -> pa.ChunkedArray:
    return values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["b", None, "a"]),
        pa.array(["b", None, "a"], pa.large_string()),
        pa.array(["b", None, "a"], pa.string_view()),
        dictionary(["b", None, "a"], pa.string()),
        dictionary(["b", None, "a"], pa.large_string()),
        views(["a", "b"], [1, 0]).take(pa.array([0, None, 1])),
        pa.chunked_array([["b"], [None, "a"]]),
    ],
    ids=lambda values: str(values.type),
)
def test_text_of_every_type_stays_as_it_is(values: Any) -> None:
    found = as_levels(column(values))
    assert found.type == pa.large_string()
    assert found.to_pylist() == ["b", None, "a"]


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


def test_codes_are_places_among_the_levels() -> None:
    codes, missing = level_codes("x", column(["b", "a", None, "b"]), ("a", "b"), warn=True)
    assert codes.tolist() == [1, 0, -1, 1]
    assert missing.tolist() == [False, False, True, False]


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


def test_a_column_without_levels_is_refused() -> None:
    with pytest.raises(TableError, match=r"Column 'x' must hold text. Got type list<"):
        level_codes("x", column(pa.array([["a"]])), ("a",), warn=True)


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


def test_merged_collections_are_those_of_all_rows() -> None:
    texts, folds, targets, _ = rows(100)
    whole, parts = LevelSums(), [LevelSums() for _ in range(3)]
    whole.add(column(pa.array(texts, pa.large_string())), folds, targets, None)
    for number, part in enumerate(parts[:2]):
        which = slice(50 * number, 50 * number + 50)
        part.add(
            column(pa.array(texts[which], pa.large_string())), folds[which], targets[which], None
        )
    total = parts[2]
    total.merge(parts[1])
    total.merge(parts[0])
    total.merge(LevelSums())
    assert total.sorted_levels() == whole.sorted_levels()
    assert total.sums is not None
    assert whole.sums is not None
    for level, place in whole.index.items():
        assert np.allclose(total.sums[total.index[level]], whole.sums[place])
        assert total.count(level) == whole.count(level)


def test_too_many_levels_are_not_collected_any_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "MAX_DISTINCT", 5)
    found = LevelSums()
    for first in range(0, 20, 4):
        texts = column(pa.array([f"t{first + k}" for k in range(4)], pa.large_string()))
        found.add(texts, np.zeros(4, dtype=np.int64), np.zeros((4, 1)), None)
    assert found.overflows
    assert len(found.index) == 8
