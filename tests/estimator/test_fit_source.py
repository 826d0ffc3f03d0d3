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

from sswim.base.validation import UserError
from sswim.estimator.inputs import as_source
from sswim.rows import ArraySource
from sswim.rows.source import MemorySource
from sswim.tables import FrameSource, TableNote, TableSource

X, Y = make_rows(20)
NAMES = ["east", "north"]


def frame() -> pd.DataFrame:
    return pd.DataFrame(X, columns=NAMES)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    frame().assign(height=Y).to_csv(path, index=False)
    return path


def source_of(X: Any, y: Any = Y, **options: Any) -> Any:
    settings = {name: options.pop(name) for name in ("coordinates",) if name in options}
    return as_source(small(**settings), X, y, **{"dtype": torch.float64, **options})


def test_arrays_become_rows_in_memory() -> None:
    source = source_of(X)
    assert type(source) is MemorySource
    assert source.in_memory
    assert source.flat_targets
    assert source.names is None
    assert source.schema is None
    assert np.array_equal(np.sort(source.rows.targets[:, 0]), np.sort(Y))
    assert not source_of(X, Y[:, None]).flat_targets


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_, object])
def test_arrays_of_plain_numbers_need_no_schema(dtype: Any) -> None:
    assert type(source_of((10 * X).astype(dtype))) is MemorySource


def test_the_columns_of_a_frame_are_the_names_of_the_inputs() -> None:
    for each in (frame(), pl.DataFrame(X, schema=NAMES), pa.table(list(X.T), names=NAMES)):
        source = source_of(each)
        assert isinstance(source, FrameSource)
        assert source.names == source.columns == ("east", "north")
        assert np.array_equal(source.rows.inputs.mean, X)
        assert source.flat_targets
        assert not source_of(each, Y[:, None]).flat_targets


def test_names_that_are_no_text_are_not_kept() -> None:
    source = source_of(pd.DataFrame(X))
    assert source.columns is None
    assert source.names == ("0", "1")


def test_the_target_may_be_a_column_of_the_frame() -> None:
    source, expected = source_of(frame().assign(height=Y), "height"), source_of(frame())
    assert source.names == ("east", "north")
    assert source.schema.target == "height"
    assert torch.equal(source.rows.targets, expected.rows.targets)
    assert torch.equal(source.rows.inputs.mean, expected.rows.inputs.mean)


def with_nan() -> Any:
    holes = X.copy()
    holes[3, 1] = np.nan
    return holes


@pytest.mark.parametrize(
    ("array", "names"),
    [
        (with_nan(), ("x0", "x1")),
        (with_nan().astype(np.float32), ("x0", "x1")),
        (torch.tensor(with_nan()), ("x0", "x1")),
        (with_nan().astype(object), ("x0", "x1")),
        (np.array([[1.5, "a"], [2.5, "b"]] * 10, dtype=object), ("x0", "x1=b")),
        (np.array([[1.5, None], [2.5, True]] * 10, dtype=object), ("x0", "x1")),
        (np.array([["a", "b"], ["c", "d"]] * 10), ("x0=c", "x1=d")),
    ],
)
def test_arrays_of_other_things_become_tables(array: Any, names: tuple[str, ...]) -> None:
    source = source_of(array)
    assert isinstance(source, FrameSource)
    assert source.names == names
    assert source.columns is None  # the names are not the user's
    assert source.rows.inputs.mean.isfinite().all()


def test_coordinates_are_given_by_name_or_by_place() -> None:
    expected = ("east, north east", "east, north north", "east, north up")
    assert source_of(frame(), coordinates=("east", "north")).names == expected
    assert source_of(frame(), coordinates=(0, 1)).names == expected
    assert source_of(X, coordinates=(1, 0)).names[0] == "x1, x0 east"


def test_points_of_a_geo_frame_are_coordinates() -> None:
    points = geopandas.points_from_xy(X[:, 0], X[:, 1], crs="EPSG:4326")
    geo = geopandas.GeoDataFrame({"a": Y}, geometry=points)
    source = source_of(geo)
    assert source.names == ("lon, lat east", "lon, lat north", "lon, lat up", "a")
    assert "WGS 84" in source.schema.crs
    plane = source_of(geo.to_crs("EPSG:3857"))
    assert plane.names == ("x", "y", "a")
    assert plane.schema.sphere is None


@pytest.mark.parametrize("memory", [None, 0, 2**30])
def test_a_path_becomes_a_source_of_the_tables_rows(table: Path, memory: int | None) -> None:
    for path in (table, str(table)):
        source = source_of(path, "height", memory=memory)
        assert isinstance(source, FrameSource if memory else TableSource)
        assert source.names == ("east", "north")
        chunks = list(source.chunks())
        assert np.allclose(np.concatenate([chunk.rows.inputs.mean for chunk in chunks]), X)
        assert np.allclose(np.concatenate([chunk.rows.targets for chunk in chunks])[:, 0], Y)


def test_a_path_has_coordinates_by_name(table: Path) -> None:
    source = source_of(table, "height", coordinates=("east", "north"))
    assert source.schema.sphere is not None


def test_a_source_is_used_as_it_is(table: Path) -> None:
    source = ArraySource(X, Y)
    assert source_of(source, None) is source
    tables = source_of(table, "height", coordinates=("east", "north"))
    assert source_of(tables, None, coordinates=("east", "north")) is tables


def test_notes_on_columns_are_warnings() -> None:
    with pytest.warns(TableNote, match="'nothing' is not used: it has no values"):
        source_of(frame().assign(nothing=None))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sample_weight": np.ones(20)}, "sample_weight and X_std belong to arrays"),
        ({"X_std": 0.1}, "sample_weight and X_std belong to arrays"),
        ({"y": Y}, "A source has its own targets"),
        ({"X": "table.csv"}, "target of a table must be the name of a column. Got None"),
        ({"coordinates": (0, 1)}, "whose inputs are used as they are"),
        ({"X": X, "y": "height"}, "y may be the name of a column where X is a data frame"),
        ({"X": frame(), "y": "height"}, "must have columns 'height'"),
        ({"X": frame(), "y": None}, "requires y to be passed"),
        ({"X": frame(), "y": Y, "coordinates": ("lon", "lat")}, "must name input columns"),
        ({"X": frame()[:1], "y": Y[:1]}, "at least 2 rows and 1 column. Got 1 sample"),
        ({"X": frame(), "y": Y, "X_std": [0.1] * 3}, "X_std must be a number, or have shape"),
    ],
)
def test_arguments_that_exclude_each_other_are_an_error(
    arguments: dict[str, Any], message: str
) -> None:
    given = {"X": ArraySource(X, Y), "y": None} | arguments
    with pytest.raises(UserError, match=message):
        source_of(**given)
