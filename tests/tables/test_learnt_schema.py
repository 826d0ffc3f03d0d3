from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from builders.tables import learn

from sswim.rows.imputer import learn_imputer
from sswim.tables import LearntSchema, LevelMeansColumn
from sswim.tables.levels import fold_numbers

N_ROWS = 300


def rows() -> pa.Table:
    """Return a table with many levels and missing values, whose numbers are correlated."""
    random = np.random.default_rng(0)
    a = random.normal(size=N_ROWS)
    b = 2 * a + 0.1 * random.normal(size=N_ROWS)
    codes = random.integers(60, size=N_ROWS)
    number = np.arange(N_ROWS)
    return pa.table(
        {
            "a": a,
            "b": pa.array(b, mask=number % 5 == 2),
            "level": pa.array([f"t{code:02}" for code in codes], mask=number % 7 == 3),
            "y": a + codes / 10 + random.normal(size=N_ROWS),
        }
    )


def changed(table: pa.Table, row: int) -> pa.Table:
    """Return a table with another target in a row."""
    targets = table["y"].to_numpy().copy()
    targets[row] += 50.0
    return table.set_column(3, "y", pa.array(targets))


def encode(learnt: LearntSchema, table: pa.Table) -> Any:
    return learnt.encode(np.arange(table.num_rows), table)


@pytest.fixture(scope="module")
def learnt() -> LearntSchema:
    return learn(rows())


def test_missing_values_are_imputed(learnt: LearntSchema) -> None:
    names = learnt.schema.feature_names
    b = names.index("b")
    found = encode(learnt, rows())
    missing = np.arange(N_ROWS) % 5 == 2
    assert np.isfinite(found).all()
    known = rows()["b"].to_numpy()
    assert np.array_equal(found[~missing, b], known[~missing])
    guess = 2 * rows()["a"].to_numpy()[missing]
    assert np.abs(found[missing, b] - guess).max() < 0.7  # from its neighbour in the row
    assert np.array_equal(found[:, names.index("b is missing")], missing)


def test_the_imputer_is_that_of_the_inputs_that_are_values(learnt: LearntSchema) -> None:
    values = learnt.schema.encode(rows())[:, ~learnt.schema.indicators]
    expected = learn_imputer(values)
    assert np.array_equal(learnt.imputer.mean, expected.mean)
    assert np.array_equal(learnt.imputer.correlation, expected.correlation)


def test_rows_of_training_have_means_without_their_fold(learnt: LearntSchema) -> None:
    (column,) = (each for each in learnt.schema.columns if each.name == "level")
    assert isinstance(column, LevelMeansColumn)
    place = learnt.schema.feature_names.index("level mean")
    found = encode(learnt, rows())[:, place]
    folds = fold_numbers(np.arange(N_ROWS))
    expected = column.encode(rows()["level"], learnt.fold_means["level"], folds)[:, 0]
    assert np.array_equal(found, expected)
    later = learnt.schema.encode(rows())[:, place]
    assert not np.isclose(found, later).any()


def test_rows_may_be_encoded_in_any_parts(learnt: LearntSchema) -> None:
    whole = encode(learnt, rows())
    part = learnt.encode(np.arange(100, 150), rows().slice(100, 50))
    assert np.allclose(part, whole[100:150], rtol=1e-12)


@pytest.mark.parametrize("row", [0, 10, 57, 101])
def test_the_target_of_a_row_is_not_in_its_own_means(learnt: LearntSchema, row: int) -> None:
    place = learnt.schema.feature_names.index("level mean")
    before = encode(learnt, rows())[:, place]
    after = encode(learn(changed(rows(), row)), rows())[:, place]
    folds = fold_numbers(np.arange(N_ROWS))
    own = folds == folds[row]
    assert np.array_equal(after[own], before[own])
    assert (after[~own] != before[~own]).all()
