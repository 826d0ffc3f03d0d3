"""Frames of every library are fitted and predicted, whatever the types of their columns."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from builders.estimators import small
from builders.frames import FRAMES, IS_MISSING, N_ROWS, TEXTS, with_missing

from sswim.estimator import BaseRegressor
from sswim.tables import MixedColumnWarning, TableError, TableNote, UnknownCategoryWarning, as_table

Z = np.random.default_rng(0).normal(size=N_ROWS)
Y = np.sin(np.arange(N_ROWS)) + Z
CASES = [(library, name) for library, (columns, _) in FRAMES.items() for name in columns]


@contextmanager
def quiet() -> Iterator[None]:
    """Ignore what is said about columns, which is the business of other tests."""
    with warnings.catch_warnings():
        for category in (TableNote, MixedColumnWarning, UnknownCategoryWarning):
            warnings.simplefilter("ignore", category)
        yield


def fit(frame: Any, y: Any = Y) -> BaseRegressor:
    with quiet():
        return small(depth=0, n_components=8, n_pseudo=2, max_iter=1).fit(frame, y)


def predict(regressor: BaseRegressor, frame: Any) -> Any:
    with quiet():
        found = np.asarray(regressor.predict(frame))
    assert found.shape == (N_ROWS,)
    assert np.isfinite(found).all()
    return found


@pytest.mark.parametrize(("library", "name"), CASES)
def test_a_column_of_every_type_is_an_input(library: str, name: str) -> None:
    columns, make = FRAMES[library]
    complete, holes = columns[name], with_missing(columns[name])
    predictions = []
    for column in (complete, holes):
        frame = make({"c": column, "z": Z})
        regressor = fit(frame)
        assert list(regressor.feature_names_in_) == ["c", "z"]
        assert regressor.input_names_[0].startswith("c")
        found = predict(regressor, frame)
        with quiet():
            table = as_table(frame)
        assert np.array_equal(predict(regressor, table), found)
        if library != "arrow" or table.schema != frame.schema:  # else it is the same fit
            assert np.array_equal(predict(fit(table), table), found)
        wide = make({"other": [[1]] * N_ROWS, "z": Z, "c": column})
        assert np.array_equal(predict(regressor, wide), found)
        predictions.append((regressor, found))
    (of_complete, found), (of_holes, _) = predictions
    assert "c is missing" not in of_complete.input_names_
    assert "c is missing" in of_holes.input_names_
    imputed = predict(of_complete, make({"c": holes, "z": Z}))
    assert np.allclose(imputed[~IS_MISSING], found[~IS_MISSING], rtol=1e-9)
    predict(of_holes, make({"c": complete, "z": Z}))


def mixed() -> pd.DataFrame:
    """Return a frame with missing values, of types that all libraries share."""
    columns, _ = FRAMES["pandas"]
    names = ["Int16", "Float64", "boolean", "str", "category of text", "datetime64[us]", "decimal"]
    names += ["datetime64[ms, Europe/Berlin]", "timedelta64[ns]", "object date", "object time"]
    return pd.DataFrame({name: with_missing(columns[name]) for name in names})


def test_one_library_predicts_what_another_has_fitted() -> None:
    frame = mixed()
    table = pa.Table.from_pandas(frame, preserve_index=False)
    frames = [frame, table, pl.from_arrow(table), frame.convert_dtypes(dtype_backend="pyarrow")]
    found = [predict(fit(each), other) for each in frames for other in frames]
    assert all(np.array_equal(each, found[0]) for each in found)


@pytest.mark.parametrize(
    "nothing",
    [
        pd.DataFrame({"c": [None] * N_ROWS, "z": Z}),
        pd.DataFrame({"c": pd.Categorical([None] * N_ROWS), "z": Z}),
        pl.DataFrame({"c": [None] * N_ROWS, "z": Z}),
        pl.DataFrame({"c": pl.Series([None] * N_ROWS, dtype=pl.Enum(["a"])), "z": Z}),
        pa.table({"c": pa.nulls(N_ROWS, pa.string()), "z": Z}),
    ],
)
def test_a_column_without_values_is_not_used(nothing: Any) -> None:
    with pytest.warns(TableNote, match="'c' is not used: it has no values"):
        regressor = small(depth=0, n_components=8, max_iter=1).fit(nothing, Y)
    assert regressor.input_names_ == ["z"]
    expected = regressor.predict(nothing)
    assert np.array_equal(regressor.predict(pa.table({"z": Z})), expected)
    assert np.array_equal(regressor.predict(pa.table({"z": Z, "c": TEXTS})), expected)


@pytest.mark.parametrize(
    ("make", "values"),
    [
        (pd.DataFrame, np.ones(N_ROWS) * 1j),
        (pd.DataFrame, [object()] * N_ROWS),
        (pl.DataFrame, [[1, 2]] * N_ROWS),
        (pl.DataFrame, pl.Series([1] * N_ROWS, dtype=pl.Int128)),
        (pa.table, pa.array([{"a": 1}] * N_ROWS)),
        (pa.table, pa.array([b"a"] * N_ROWS).dictionary_encode()),
    ],
)
def test_a_column_that_cannot_be_an_input_is_named(make: Any, values: Any) -> None:
    frame = make({"z": Z, "my c": values})
    with pytest.raises(TableError, match="'my c'"):
        small(depth=0).fit(frame, Y)


def test_targets_are_matched_by_place_and_may_be_a_column() -> None:
    frame = mixed()
    found = predict(fit(frame), frame)
    y = pd.Series(Y, index=range(100, 100 + N_ROWS))
    assert np.array_equal(predict(fit(frame, y), frame), found)
    regressor = fit(frame.assign(y=Y), "y")
    assert np.array_equal(predict(regressor, frame), found)
    assert np.array_equal(predict(regressor, frame.assign(y=None)), found)
