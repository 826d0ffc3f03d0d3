from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from builders.tables import learn_together

from sswim.tables import (
    CategoryColumn,
    Column,
    IgnoredColumn,
    LearntSchema,
    LevelMeansColumn,
    NumberColumn,
    TargetedRows,
    TimeColumn,
    learn_schema,
    schema_learning,
)
from sswim.tables.schema_learning import (
    IDENTIFIER_ROWS,
    MAX_MARKERS,
    MEAN_ROWS,
    MOST_ROWS,
    N_FOLDS,
    fold_numbers,
    shrinkage_rows,
)

Texts = Sequence[str | None]


def table_of(texts: Texts) -> pa.Table:
    """Return texts beside a column that is always of use."""
    return pa.table({"x": pa.array(texts, pa.string()), "n": [0.0] * len(texts)})


def pieces_of(
    texts: Texts, targets: Any = None, weight: Any = None, cuts: Sequence[int] = ()
) -> Iterator[TargetedRows]:
    """Return texts with their targets, in pieces."""
    if targets is None:
        targets = np.random.default_rng(0).normal(size=(len(texts), 1))
    for first, last in pairwise((0, *cuts, len(texts))):
        part = slice(first, last)
        some = None if weight is None else weight[part]
        table = table_of(texts).slice(first, last - first)
        yield TargetedRows(np.arange(first, last), table, targets[part], some)


def learn(texts: Texts, *rows: Any, text: Sequence[str] = (), **options: Any) -> LearntSchema:
    """Return what is learnt of texts, with targets and weights of their rows."""
    pieces = partial(pieces_of, texts, *rows, **options)
    return learn_schema(pieces, table_of(texts).schema, text=text)


def column_of(texts: Texts, *rows: Any, **options: Any) -> Any:
    """Return the column that texts become."""
    return learn(texts, *rows, **options).schema.columns[0]


def training_inputs(texts: Texts, targets: Any, weight: Any = None) -> Any:
    """Return the mean targets that are the inputs of the rows that levels were learnt from."""
    learnt = learn(texts, targets, weight)
    return learnt.encode(np.arange(len(texts)), table_of(texts))[:, : targets.shape[1]]


def later_inputs(learnt: LearntSchema, texts: Texts) -> Any:
    return learnt.schema.columns[0].encode(pa.chunked_array([pa.array(texts, pa.string())]))


def test_folds_depend_on_row_numbers_alone_and_are_even() -> None:
    numbers = np.arange(100_000)
    folds = fold_numbers(numbers)
    assert set(folds) == set(range(N_FOLDS))
    assert np.array_equal(fold_numbers(numbers[500:600]), folds[500:600])
    sizes = np.bincount(folds)
    assert np.abs(sizes / sizes.mean() - 1).max() < 0.03
    following = np.bincount(folds[1:] * N_FOLDS + folds[:-1])  # rows that follow each other
    assert np.abs(following / following.mean() - 1).max() < 0.1


def effects_of_levels(n: int = 400, n_targets: int = 2) -> tuple[Any, Any]:
    """Draw levels of random effects, some of them missing, and targets far from zero."""
    random = np.random.default_rng(n)
    codes = random.integers(30, size=n)
    effects = random.normal(size=(30, n_targets)) * np.arange(1, n_targets + 1)
    targets = 1e3 + effects[codes] + random.normal(size=(n, n_targets))
    return [None if code == 0 else f"t{code:03}" for code in codes], targets


def by_hand(texts: Texts, targets: Any, weight: Any, used: Any, text: str | None) -> Any:
    """Compute the shrunk mean target of a level in some rows, by loops over rows."""
    result = []
    for y in targets.T:
        groups: dict[str | None, list[int]] = {}
        for row in used:
            groups.setdefault(texts[row], []).append(row)
        sizes = {level: weight[rows].sum() for level, rows in groups.items()}
        means = {level: np.average(y[rows], weights=weight[rows]) for level, rows in groups.items()}
        overall, total = np.average(y[used], weights=weight[used]), weight[used].sum()
        within = sum((weight[r] * (y[r] - means[level]) ** 2).sum() for level, r in groups.items())
        between = sum(sizes[level] * (means[level] - overall) ** 2 for level in groups)
        noise = within / (total - len(groups))
        squares = sum(size**2 for size in sizes.values())
        typical = (total - squares / total) / (len(groups) - 1)
        spread = (between / (len(groups) - 1) - noise) / typical
        shrinkage = min(max(noise / spread, 1.0), MOST_ROWS) if spread > 0 else MOST_ROWS
        size = sizes.get(text, 0.0)
        result.append((size * means.get(text, 0.0) + shrinkage * overall) / (size + shrinkage))
    return np.array(result)


@pytest.mark.parametrize("weighted", [False, True])
def test_training_inputs_are_the_means_of_other_folds_by_hand(weighted: bool) -> None:
    texts, targets = effects_of_levels()
    once = np.random.default_rng(1).uniform(0.5, 2.0, 400) if weighted else np.ones(400)
    found = training_inputs(texts, targets, once if weighted else None)
    folds = fold_numbers(np.arange(400))
    expected = {
        (fold, text): by_hand(texts, targets, once, np.flatnonzero(folds != fold), text)
        for fold, text in {*zip(folds, texts, strict=True)}
    }
    for row, key in enumerate(zip(folds, texts, strict=True)):
        assert np.allclose(found[row], expected[key], rtol=1e-9), row


def test_later_rows_have_the_means_of_all_rows_by_hand() -> None:
    texts, targets = effects_of_levels()
    learnt = learn(texts, targets)
    column: Any = learnt.schema.columns[0]
    asked: Texts = [*column.levels, None, "unknown", "", "T001"]
    found = later_inputs(learnt, asked)[:, :2]
    for row, text in enumerate(asked):
        expected = by_hand(texts, targets, np.ones(400), np.arange(400), text)
        assert np.allclose(found[row], expected, rtol=1e-9), text
    assert np.allclose(found[-3:], targets.mean(0))  # unknown levels
    assert column.inputs[:2] == ["x mean 0", "x mean 1"]
    assert column_of(texts, targets[:, :1]).inputs[0] == "x mean"


@pytest.mark.parametrize("level", ["t003", "alone", None])
def test_the_target_of_a_row_is_not_in_its_own_inputs(level: str | None) -> None:
    """Nor is it in the inputs of its fold: not even in their rounding."""
    texts, targets = effects_of_levels()
    texts[57], texts[58] = "alone", level
    folds = fold_numbers(np.arange(len(texts)))
    row = 57 if level == "alone" else 58
    before = training_inputs(texts, targets)
    targets[row] += 1e6
    after = training_inputs(texts, targets)
    same_fold = folds == folds[row]
    assert np.array_equal(after[same_fold], before[same_fold])
    assert (after[~same_fold] != before[~same_fold]).all()


def draw_effects(noise: float, spread: float, sizes: Any, seed: int) -> tuple[Any, Any, Any]:
    """Draw true effects of levels; return them, the sums of their targets, and the variance."""
    random = np.random.default_rng(seed)
    truth = spread * random.normal(size=len(sizes))
    codes = np.repeat(np.arange(len(sizes)), sizes)
    targets = 5.0 + truth[codes] + noise * random.normal(size=len(codes))
    sums = np.stack([np.bincount(codes), np.bincount(codes, targets)], axis=1).astype(float)
    return truth, sums, np.array([targets.var()])


@pytest.mark.parametrize("noise", [1.6, 6.0])
@pytest.mark.parametrize("sizes", [np.full(400, 10), 1 + np.arange(400) % 20], ids=["10", "1-20"])
def test_shrinkage_is_that_of_a_model_of_random_effects(noise: float, sizes: Any) -> None:
    """The estimate of σ²/τ² is right on average, and its means are as good as any."""
    found = []
    for seed in range(20):
        truth, sums, variance = draw_effects(noise, 1.5, sizes, seed)
        (rows,) = shrinkage_rows(sums, variance)
        found.append(rows)
        overall = sums[:, 1].sum() / sums[:, 0].sum()
        shrinkages = np.append(np.geomspace(0.05, 500, 60), rows)[:, None]
        means = (sums[:, 1] + shrinkages * overall) / (sums[:, 0] + shrinkages)
        errors = np.square(means - 5.0 - truth).mean(1)
        assert errors[-1] < 1.1 * errors.min() + 0.01 * 1.5**2
    assert np.median(found) == pytest.approx((noise / 1.5) ** 2, rel=0.1)


def test_levels_that_say_nothing_are_drawn_to_the_mean_of_all() -> None:
    draws = [draw_effects(1.0, 0.0, np.full(200, 5), seed)[1:] for seed in range(20)]
    assert np.median([shrinkage_rows(*draw) for draw in draws]) > 20
    for sums in (
        np.zeros((3, 2)),  # no rows at all
        np.array([[4.0, 8.0]]),  # one level
        np.array([[1.0, 3.0], [1.0, 5.0]]),  # one row in each
        np.array([[4.0, 8.0], [4.0, 8.0], [0.0, 0.0]]),  # equal means
    ):
        for variance in (np.ones(1), np.zeros(1)):
            rows = shrinkage_rows(sums, variance)
            assert ((rows >= 1) & (rows <= MOST_ROWS)).all()


def test_a_constant_target_is_the_mean_of_every_level() -> None:
    texts, targets = effects_of_levels()
    constant = np.full_like(targets, 7.0)
    assert np.allclose(later_inputs(learn(texts, constant), ["t001", "new", None])[:, :2], 7.0)
    assert np.allclose(training_inputs(texts, constant), 7.0)


def test_weights_count_as_copies() -> None:
    texts, targets = effects_of_levels(200)
    twice = column_of(texts, targets, np.full(len(texts), 2.0))
    copies = column_of(texts * 2, np.concatenate((targets, targets)))
    assert np.allclose(twice.means, copies.means, rtol=1e-9)
    weight = np.random.default_rng(0).integers(0, 3, 200).astype(float)
    column = column_of(texts, targets, weight)
    assert np.allclose(column.other, np.average(targets, weights=weight, axis=0))


def test_common_levels_have_indicators_beside_their_mean() -> None:
    texts = [*["a"] * 100, *["b"] * 80, "rare", "scarce", "few", *[None] * 30]
    learnt = learn(texts)
    column: Any = learnt.schema.columns[0]
    assert column.levels == ("a", "b", "few", "rare", "scarce")
    assert column.shown == CategoryColumn("x", True, ("a", "b"), has_other=True)
    assert column.inputs == ["x mean", "x=a", "x=b", "x other", "x is missing"]
    later = later_inputs(learnt, ["b", "few", "new", None])[:, 1:]
    assert later.tolist() == [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    training = learnt.encode(np.arange(len(texts)), table_of(texts))[:, 1:5]
    assert np.array_equal(training, later_inputs(learnt, texts)[:, 1:])


def test_texts_among_numbers_stand_for_missing_ones() -> None:
    texts = [f"{k / 4}" for k in range(100)]
    texts[3] = texts[50] = "?"
    texts[70] = "n/a"
    learnt = learn(texts)
    assert learnt.schema.columns[0] == NumberColumn("x", False, ".", ("?", "n/a"))
    (note,) = learnt.notes
    assert "97 numbers and 3 other values, '?', 'n/a': read as numbers, with 3 missing" in note
    texts[50] = texts[70] = "1"
    assert "99 numbers and 1 other value, '?'" in learn(texts).notes[0]
    texts[:17] = ["?"] * 17
    assert not column_of(texts).has_missing
    with_gaps: Texts = [*texts, None, None, None]  # with 17 markers, many enough
    assert column_of(with_gaps) == NumberColumn("x", True, ".", ("?",))


def test_too_many_texts_among_numbers_make_levels_and_are_said() -> None:
    numbers = [f"{k % 7}" for k in range(100)]
    kinds = [f"code {k}" for k in range(MAX_MARKERS + 1)]
    for others, words in (
        ([*kinds, *kinds], "100 numbers and 12 other values, such as 'code 0', "),
        (["?"] * 30, "100 numbers and 30 other values, such as '?': used as text of 8 levels; cor"),
    ):
        learnt = learn([*numbers, *others])
        assert isinstance(learnt.schema.columns[0], CategoryColumn | LevelMeansColumn)
        (note,) = learnt.notes
        assert words in note
    assert learn([*numbers, *["?"] * 101]).notes == ()  # mostly text


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
    learnt = learn(texts * 30)
    assert learnt.schema.columns[0] == NumberColumn("x", text_format=text_format)
    assert how in learnt.notes[0]


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
        (["00123", "04109"], CategoryColumn("x", levels=("00123", "04109"))),  # codes
        (["1.2.3", "2.10.1"], CategoryColumn("x", levels=("1.2.3", "2.10.1"))),
        (["2020-01-31", "soon"], CategoryColumn("x", levels=("2020-01-31", "soon"))),
        (["5:30"], CategoryColumn("x", levels=("5:30",))),
        (["b", "a", "é", "b"], CategoryColumn("x", levels=("a", "b", "é"))),
        (["b", "a", None], CategoryColumn("x", True, levels=("a", "b"))),
    ],
)
def test_texts_are_times_or_levels(texts: Texts, expected: Column) -> None:
    learnt = learn([*texts] * 20)
    assert learnt.schema.columns[0] == expected
    assert learnt.notes == ()
    assert learnt.fold_means == {}


def test_texts_among_times_stand_for_missing_ones() -> None:
    texts = [f"{1 + k % 28}.{1 + k % 12}.2020" for k in range(100)]
    texts[3] = texts[50] = "n/a"
    texts[70] = "31.02.2020"
    learnt = learn(texts)
    (column,), (note,) = learnt.schema.columns[:1], learnt.notes
    expected = TimeColumn("x", text_format="%d.%m.%Y", markers=("31.02.2020", "n/a"))
    assert replace(column, cycles=()) == expected  # type: ignore[call-arg]
    assert "97 dates or times and 3 other values, '31.02.2020', 'n/a': read as dates or" in note
    texts[:20] = ["n/a"] * 20
    assert not isinstance(column_of(texts), TimeColumn)  # more than a fifth are something else


def test_ambiguous_days_and_months_are_said() -> None:
    learnt = learn(["1/2/2020", "3/4/2020"] * 20)
    assert learnt.schema.columns[0] == TimeColumn("x", text_format="%d/%m/%Y")
    message = "day and month cannot be told apart: read as %d/%m/%Y; write them as YYYY-"
    assert message in learnt.notes[0]


@pytest.mark.parametrize(
    "texts", [["1", "2", "3"], ["2020-01-31", "2020-02-01", "2020-02-02"]], ids=["1", "2020"]
)
def test_a_category_by_request_is_never_a_number_or_a_time(texts: list[str]) -> None:
    learnt = learn(texts * 20, text=["x"])
    assert learnt.schema.columns[0] == CategoryColumn("x", levels=tuple(texts))
    assert learnt.notes == ()


def test_levels_of_many_rows_also_have_their_mean_target() -> None:
    texts = [f"t{k % 3}" for k in range(MEAN_ROWS)]
    assert column_of(texts).shown == CategoryColumn("x", levels=("t0", "t1", "t2"))
    assert isinstance(column_of(texts[:-1]), CategoryColumn)
    two = [f"t{k % 2}" for k in range(MEAN_ROWS)]  # whose indicator is the mean already
    assert column_of(two) == CategoryColumn("x", levels=("t0", "t1"))


def test_columns_that_tell_nothing_are_not_used() -> None:
    texts = [f"id{k:02}" for k in range(IDENTIFIER_ROWS + 1)]
    identifier = IgnoredColumn("x", "it has a different text in every row")
    assert column_of(texts) == column_of([*texts, None]) == identifier
    assert learn(texts).notes == (f"Column 'x' is not used: {identifier.reason}.",)
    for others in (texts[:-1], [*texts, texts[0]]):
        assert not isinstance(column_of(others), IgnoredColumn)
    assert column_of([None] * 5) == IgnoredColumn("x", "it has no values")
    assert learn([None] * 5).notes == ("Column 'x' is not used: it has no values.",)


def test_too_many_different_texts_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_learning, "MAX_DISTINCT", 30)
    learnt = learn([f"t{k // 2}" for k in range(100)], cuts=(50,))
    assert isinstance(learnt.schema.columns[0], IgnoredColumn)
    assert "it has more than 30 different texts" in learnt.notes[0]
    numbers: Texts = [None if k >= 80 else f"{k / 4}" for k in range(100)]
    assert column_of(numbers, cuts=(50,)) == NumberColumn("x", True, ".")  # missing ones are known


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
    expected = learn(texts)
    parts = [partial(iter, [piece]) for piece in pieces_of(texts, cuts=cuts)]
    for found in (learn(texts, cuts=cuts), learn_together(parts, table_of(texts).schema)):
        assert found.notes == expected.notes
        column, other = expected.schema.columns[0], found.schema.columns[0]
        if isinstance(column, LevelMeansColumn) and isinstance(other, LevelMeansColumn):
            assert (other.levels, other.shown) == (column.levels, column.shown)
            assert np.allclose(other.means, column.means)
            assert np.allclose(found.fold_means["x"], expected.fold_means["x"])
        else:
            assert other == column
