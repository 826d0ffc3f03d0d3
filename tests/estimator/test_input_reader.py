from __future__ import annotations

from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from builders.estimators import make_rows, small
from builders.tables import learn

from sswim.base.validation import UserError
from sswim.estimator import BaseRegressor
from sswim.estimator.inputs import InputReader, learn_reader, read_schema
from sswim.rows import ArraySource, Measure, learn_imputer
from sswim.rows.rows import as_rows
from sswim.tables import (
    FrameSource,
    TableError,
    UnknownCategoryWarning,
    schema_to_dict,
    write_table,
)
from sswim.tables import levels as missing_values

N_ROWS = 60


def rows() -> pd.DataFrame:
    """Return rows with numbers, text and times, and their target."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "a": random.normal(size=N_ROWS),
            "code": random.choice(["007", "008", "009"], N_ROWS),
            "when": pd.date_range("2020-01-01", periods=N_ROWS, freq="D"),
            "b": random.normal(size=N_ROWS),
        }
    )
    frame.loc[::7, "b"] = np.nan
    return frame.assign(y=frame["a"] + random.normal(size=N_ROWS))


INPUTS = ["a", "code", "when", "b"]


@pytest.fixture(scope="module")
def regressor() -> BaseRegressor:
    return small(depth=0, n_components=16, max_iter=2).fit(rows(), "y")


@pytest.fixture(scope="module")
def expected(regressor: BaseRegressor) -> Measure:
    """The encoded rows, whose target is not used."""
    return regressor._reader.read(regressor, rows())


def same(found: Measure, expected: Measure) -> bool:
    return all(map(torch.equal, found.tensors(), expected.tensors()))


def test_rows_are_encoded_and_imputed(regressor: BaseRegressor, expected: Measure) -> None:
    learnt = learn(pa.Table.from_pandas(rows(), preserve_index=False))
    reader = regressor._reader
    assert reader.schema == learnt.schema
    assert reader.columns == tuple(INPUTS)
    assert reader.inputs == tuple(learnt.schema.feature_names)
    assert reader.n_columns == regressor.n_features_in_ == 4
    assert reader.n_inputs == len(learnt.schema.feature_names)
    assert expected.mean.isfinite().all()
    place = learnt.schema.feature_names.index("b")
    assert expected.input_variance is not None
    assert np.array_equal(
        np.flatnonzero(expected.input_variance[:, place]), np.arange(0, N_ROWS, 7)
    )


@pytest.mark.parametrize(
    "form",
    ["pandas", "polars", "arrow", "batch", "shuffled", "wide", "text", "objects", "parquet", "csv"],
)
def test_rows_of_every_form_are_read_alike(
    form: str, regressor: BaseRegressor, expected: Measure, tmp_path: Path
) -> None:
    frame = rows()
    table = pa.Table.from_pandas(frame, preserve_index=False)
    path = tmp_path / f"t.{form}"
    if form in ("parquet", "csv"):
        write_table(table, path)
    X: Any = {
        "pandas": frame[INPUTS],
        "polars": pl.from_arrow(table),
        "arrow": table,
        "batch": table.to_batches()[0],
        "shuffled": frame[INPUTS[::-1]],
        "wide": frame.assign(other=[[1]] * N_ROWS),
        "text": frame.assign(a=frame["a"].map(repr), when=frame["when"].dt.strftime("%Y-%m-%d")),
        "objects": frame[INPUTS].astype(object).to_numpy(),
        "parquet": path,
        "csv": str(path),
    }[form]
    found = regressor._reader.read(regressor, X)
    assert same(found, expected)


def test_rows_that_were_read_before_stay_as_they_are(
    regressor: BaseRegressor, expected: Measure
) -> None:
    reader = regressor._reader
    inputs = reader.encode(regressor, rows())
    assert np.isnan(inputs).any()
    assert same(reader.impute(inputs), expected)
    assert same(reader.read(regressor, expected), expected)
    assert np.array_equal(regressor.predict(expected), regressor.predict(rows()))


def test_a_deviation_of_columns_is_one_of_inputs(
    regressor: BaseRegressor, expected: Measure
) -> None:
    found = regressor._reader.read(regressor, rows(), [0.5, 0, 0, 0.25])
    assert np.array_equal(found.mean, expected.mean)
    assert found.input_variance is not None
    assert expected.input_variance is not None
    names = regressor.input_names_
    known = np.array([{"a": 0.25, "b": 0.0625}.get(name, 0.0) for name in names])
    assert np.allclose(found.input_variance - expected.input_variance, known)


def test_a_missing_value_that_has_an_input_of_its_own_counts_as_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(missing_values, "TELLING_ROWS", 1)
    regressor = small(depth=0, n_components=16, max_iter=2).fit(rows(), "y")
    assert "b is missing" in regressor.input_names_
    assert regressor._reader.read(regressor, rows()).input_variance is None
    found = regressor._reader.read(regressor, rows().assign(a=[None] * N_ROWS))
    assert found.input_variance is not None
    assert np.flatnonzero(found.input_variance.numpy().any(axis=0)).tolist() == [
        0
    ]  # a was never missing


def test_values_that_fit_has_not_seen_are_read(regressor: BaseRegressor) -> None:
    new = rows().assign(a=[None] * N_ROWS)
    new.loc[3, "code"] = "100"
    with pytest.warns(UnknownCategoryWarning, match="in 1 rows: '100'"):
        found = regressor._reader.read(regressor, new)
    assert found.mean.isfinite().all()
    assert found.input_variance is not None
    assert (found.input_variance[:, 0] > 0).all()


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (rows()[["a", "code"]], "must have columns 'when', 'b'"),
        (rows()[:0], "at least one row"),
        (rows()[["a"]].to_numpy(), r"array of 4 columns \('a', 'code', 'when', 'b'\)"),
        (rows().assign(a=rows()["when"]), "'a' must hold numbers. Got type timestamp"),
        (rows().assign(a=np.inf), "Got 60 infinite values in column 'a'"),
        ("nowhere.csv", "cannot be found"),
    ],
)
def test_rows_that_do_not_fit_the_model_are_refused(
    X: Any, message: str, regressor: BaseRegressor
) -> None:
    with pytest.raises(UserError, match=message):
        regressor.predict(X)


def test_files_that_do_not_fit_the_model_are_refused(
    regressor: BaseRegressor, tmp_path: Path
) -> None:
    table = pa.Table.from_pandas(rows(), preserve_index=False)
    write_table(table.drop_columns(["a"]), tmp_path / "short.parquet")
    with pytest.raises(TableError, match="must have columns 'a'"):
        regressor.predict(tmp_path / "short.parquet")
    (tmp_path / "empty").mkdir()
    write_table(table.slice(0, 0), tmp_path / "empty" / "a.parquet")
    with pytest.raises(UserError, match="at least one row"):
        regressor.predict(tmp_path / "empty")


def test_a_target_is_split_off_frames_and_paths(
    regressor: BaseRegressor, tmp_path: Path, expected: Measure
) -> None:
    table = pa.Table.from_pandas(rows(), preserve_index=False)
    write_table(table, tmp_path / "t.parquet")
    for X in (rows(), table, tmp_path / "t.parquet"):
        inputs, targets = regressor._reader.split_target(X, "y")
        assert np.array_equal(targets, rows()["y"])
        assert same(regressor._reader.read(regressor, inputs), expected)
    with pytest.raises(UserError, match="y may be the name of a column where X is a data frame"):
        regressor._reader.split_target(rows().to_numpy(), "y")


def test_a_model_of_arrays_reads_arrays() -> None:
    x, y = make_rows(20)
    regressor = small(depth=0, max_iter=1).fit(x, y)
    reader = regressor._reader
    assert (reader.schema, reader.columns, reader.inputs) == (None, None, None)
    assert reader.n_columns == reader.n_inputs == 2
    for X in (x, torch.tensor(x), x.tolist()):
        found = reader.read(regressor, X)
        assert np.array_equal(found.mean, x)
        assert found.input_variance is None
    holes = x.copy()
    holes[3, 1] = np.nan
    found = reader.read(regressor, holes, 0.5)
    expected = learn_imputer(x)
    assert np.array_equal(reader.imputer.mean, expected.mean)
    assert np.array_equal(found.mean, expected.fill(holes)[0])
    assert found.input_variance is not None
    assert found.input_variance[3, 1] > 0.25
    assert np.all(np.delete(found.input_variance.numpy().ravel(), 7) == 0.25)
    with pytest.raises(UserError, match="model of arrays does not know the columns of a table"):
        regressor.predict("t.csv")
    with pytest.raises(UserError, match="y may be the name of a column"):
        reader.split_target(x, "y")


def test_points_are_read_in_the_reference_system_of_fit() -> None:
    x, y = make_rows(30)
    points = geopandas.points_from_xy(151 + x[:, 0], -33 + x[:, 1], crs="EPSG:4326")
    geo = geopandas.GeoDataFrame({"a": y}, geometry=points)
    plane = geo.to_crs("EPSG:3857")
    for fitted, other in ((geo, plane), (plane, geo)):
        regressor = small(depth=0, max_iter=1).fit(fitted, y)
        ours, theirs = (regressor._reader.read(regressor, each) for each in (fitted, other))
        assert np.allclose(ours.mean, theirs.mean, rtol=1e-9, atol=1e-9)
    bare = pd.DataFrame({"a": y, "lat": -33 + x[:, 1], "lon": 151 + x[:, 0]})
    regressor = small(depth=0, max_iter=1).fit(geo, y)
    assert np.allclose(regressor.predict(bare), regressor.predict(geo))


def test_a_reader_is_learnt_from_a_source_and_a_sample() -> None:
    x, y = make_rows(20)
    source = ArraySource(x, y)
    source.names = ("east", "north")
    reader = learn_reader(source, as_rows(x, y))
    assert reader.schema is None
    assert reader.columns == reader.inputs == ("east", "north")
    frame = FrameSource(pa.table({"a": x[:, 0], "s": ["p", "q"] * 10}), y[:, None])
    reader = learn_reader(frame, as_rows(x, y))
    assert reader.schema == frame.schema
    assert reader.columns == ("a", "s")
    assert reader.inputs == ("a", "s=q")
    assert reader.imputer is frame.imputer


def test_a_schema_is_read_from_a_model_file() -> None:
    assert read_schema(None) is None
    schema = learn(pa.table({"a": [1.0, 2.0], "y": [1.0, 2.0]})).schema
    assert read_schema(schema_to_dict(schema)) == schema


def test_an_imputer_belongs_to_its_schema() -> None:
    learnt = learn(pa.table({"a": [1.0, 2.0, None] * 20, "y": [1.0, 2.0, 3.0] * 20}))
    assert InputReader(learnt.imputer, schema=learnt.schema).n_inputs == 2
    with pytest.raises(ValueError, match="an imputer of 3 inputs for a schema of 2, 1 of which"):
        InputReader(learn_imputer(np.ones((2, 3))), schema=learnt.schema)
