from __future__ import annotations

import datetime
import sys
from decimal import Decimal
from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from shapely import LineString, Point, Polygon

from sswim.tables import MixedColumnWarning, TableError, array_table, as_table, split_geometry

DAYS = [datetime.date(2020, 1, 1), datetime.date(2020, 2, 29), None]


def test_frames_of_every_library_become_the_same_table() -> None:
    content = {"n": [1, 2, 3], "f": [0.5, None, 2.5], "s": ["a", None, "c"], "d": DAYS}
    expected = pa.table(content)
    arrow = pa.record_batch(content)
    for frame in (
        expected,
        arrow,
        pa.RecordBatchReader.from_batches(arrow.schema, [arrow]),
        pl.DataFrame(content),
        pd.DataFrame(content).astype({"d": object}),
        pd.DataFrame({name: pd.array(content[name], dtype="object") for name in content}),
        expected.to_pandas(types_mapper=pd.ArrowDtype),
    ):
        found = as_table(frame)
        assert found.column_names == ["n", "f", "s", "d"]
        assert found.to_pylist() == expected.to_pylist()


def test_names_become_text_and_must_differ() -> None:
    frame = pd.DataFrame([[1, 2, 3]], columns=[0, "b", ("c", 1)])
    assert as_table(frame).column_names == ["0", "b", "('c', 1)"]
    for repeated in (
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        pd.DataFrame([[1, 2]], columns=["1", 1]),
        pa.table([[1], [2]], names=["a", "a"]),
    ):
        with pytest.raises(TableError, match=r"Column names must be unique. Got several '"):
            as_table(repeated)
    frame = pd.DataFrame({"a": [1.0, 2.0]}, index=pd.Index(["p", "q"], name="id"))
    assert as_table(frame.iloc[::-1]).to_pydict() == {"a": [2.0, 1.0]}  # without the index


BERLIN = "Europe/Berlin"
SERIES: dict[str, tuple[Any, pa.DataType | None, list[Any]]] = {
    "long double": (pd.Series(np.array([1.5, np.nan], np.longdouble)), pa.float64(), [1.5, None]),
    "other byte order": (pd.Series(np.array([1.5, np.nan], ">f8")), pa.float64(), [1.5, None]),
    "sparse": (pd.Series(pd.arrays.SparseArray([0, 5, 0])), pa.int64(), [0, 5, 0]),
    "months": (
        pd.Series(pd.PeriodIndex(["2020-03", None], freq="M")),
        None,
        [datetime.datetime(2020, 3, 1), None],
    ),
    "intervals": (
        pd.Series(pd.arrays.IntervalArray.from_tuples([(0, 1), (1, 2)])),
        pa.dictionary(pa.int8(), pa.large_string()),
        ["(0, 1]", "(1, 2]"],
    ),
    "intervals of floats": (
        pd.Series(pd.arrays.IntervalArray.from_tuples([(0.0, 1.05), None, (10.5, 20.0)])),
        None,
        ["(0, 1.05]", None, "(10.5, 20]"],
    ),
    "period categories": (
        pd.Series(pd.PeriodIndex(["2020-03", None], freq="M")).astype("category"),
        None,
        ["2020-03", None],
    ),
    "decimals": (pd.Series([Decimal("1.50"), None]), None, [Decimal("1.50"), None]),
    "decimals and floats": (
        pd.Series([Decimal("1.5"), 2, 2.5, None], dtype=object),
        pa.float64(),
        [1.5, 2.0, 2.5, None],
    ),
    "numbers": (pd.Series([1, 2.5, True, None], dtype=object), pa.float64(), [1, 2.5, 1, None]),
    "all missing": (pd.Series([None, np.nan, pd.NaT, pd.NA], dtype=object), pa.null(), [None] * 4),
}


@pytest.mark.parametrize("name", SERIES)
def test_columns_of_pandas_keep_their_values(name: str) -> None:
    series, dtype, values = SERIES[name]
    column = as_table(pd.DataFrame({"x": series})).column("x")
    assert column.to_pylist() == values
    if dtype is not None:
        assert column.type.equals(dtype) or pa.types.is_dictionary(dtype)


@pytest.mark.parametrize("make", [lambda values: values, pd.Categorical])
def test_a_mix_of_numbers_and_text_is_read_as_text_with_a_warning(make: Any) -> None:
    values = pd.Series(make(pd.array([1, "a", 2.5, None, "a"], dtype="object")))
    message = r"'my x' has values of several types \(float, int, str\): it is read as text"
    with pytest.warns(MixedColumnWarning, match=message):
        column = as_table(pd.DataFrame({"my x": values})).column("my x")
    assert column.to_pylist() == ["1", "a", "2.5", None, "a"]
    assert pa.types.is_dictionary(column.type) == (make is pd.Categorical)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (np.array([1j, 2j]), "complex128"),
        (np.array([object(), object()]), "object"),
        (np.array(["a", {1}], dtype=object), "object"),
    ],
    ids=["complex", "objects", "mix"],
)
def test_columns_that_arrow_does_not_know_are_named(values: Any, dtype: str) -> None:
    with pytest.raises(TableError, match=f"Got column 'my x' of type {dtype}; leave it out"):
        as_table(pd.DataFrame({"my x": values, "y": [1, 2]}))


NAMES = ["a", "b"]


def test_arrays_have_the_columns_of_fit() -> None:
    for array in (
        np.array([[1.0, np.nan], [3.0, 4.0]]),
        np.array([[1.0, np.nan], [3.0, 4.0]], np.float32, order="F"),
        np.array([[1.0, np.nan], [3.0, 4.0]], ">f8"),
        np.array([[1.0, np.nan], [3.0, 4.0]], np.longdouble),
        np.array([[1, None], [3.0, 4]], dtype=object),
        [[1.0, np.nan], [3.0, 4.0]],
    ):
        assert array_table(array, NAMES).to_pydict() == {"a": [1.0, 3.0], "b": [None, 4.0]}
    texts = array_table(np.array([["p", "1"], ["q", "2"]]), NAMES)
    assert texts.to_pydict() == {"a": ["p", "q"], "b": ["1", "2"]}
    mixed = array_table(np.array([["p", 1.5], [None, np.nan]], dtype=object), NAMES)
    assert mixed.to_pydict() == {"a": ["p", None], "b": [1.5, None]}
    times = np.array([["2020-01-01", "NaT"]], dtype="datetime64[s]")
    day = datetime.datetime(2020, 1, 1)
    assert array_table(times, NAMES).to_pydict() == {"a": [day], "b": [None]}


def test_frames_and_arrays_of_other_things_are_refused() -> None:
    wide = pl.DataFrame({"a": [1], "wide": pl.Series([1], dtype=pl.Int128)})
    with pytest.raises(TableError, match="cannot be read as an Arrow table because of 'wide': "):
        as_table(wide)
    with pytest.raises(TableError, match="cannot be read as an Arrow table: "):
        as_table(pa.chunked_array([[1, 2]]))  # a column alone
    with pytest.raises(TableError, match="Got column 'a' of type complex128"):
        array_table(np.array([[1j, 2j]]), NAMES)
    with pytest.raises(TableError, match="Got column 'b' of type object"):
        array_table(np.array([[1, object()]], dtype=object), NAMES)


@pytest.mark.parametrize("shape", [(4,), (2, 3), (2, 2, 2), ()])
def test_arrays_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(
        TableError, match=r"array of 2 columns \('a', 'b'\), as in fit. Got X.shape="
    ):
        array_table(np.zeros(shape), NAMES)


def places(crs: str | None = "EPSG:4326", **columns: Any) -> gpd.GeoDataFrame:
    data = {"rain": [1.0, 2.0, 3.0]} | columns
    points = gpd.points_from_xy([170, 180, -170], [10, 20, 30])
    return gpd.GeoDataFrame(data, geometry=points, crs=crs, index=[5, 6, 7])


def test_degrees_become_lon_and_lat() -> None:
    frame = places()
    found: Any = split_geometry(frame)
    assert type(found.frame) is pd.DataFrame
    assert list(found.frame.columns) == ["lon", "lat", "rain"]
    assert list(found.frame.index) == [5, 6, 7]
    assert found.frame["lon"].tolist() == [170, 180, -170]
    assert found.frame["lat"].tolist() == [10, 20, 30]
    assert found.coordinates == ("lon", "lat")
    assert found.is_geographic
    assert "WGS 84" in found.crs_wkt
    assert list(frame.columns) == ["rain", "geometry"]  # left as it was


@pytest.mark.parametrize("crs", ["EPSG:3035", None])
def test_other_coordinates_become_x_and_y(crs: str | None) -> None:
    found: Any = split_geometry(places(crs, lat=[1, 2, 3]).rename_geometry("where"))
    assert list(found.frame.columns) == ["x", "y", "rain", "lat"]
    assert found.coordinates == ("x", "y")
    assert not found.is_geographic
    assert (found.crs_wkt is None) == (crs is None)


def test_coordinates_are_converted_to_those_of_a_model() -> None:
    frame = places()
    model: Any = split_geometry(frame)
    found: Any = split_geometry(frame.to_crs("EPSG:3832"), model.crs_wkt)  # the Pacific
    np.testing.assert_allclose(found.frame["lat"], [10, 20, 30])
    np.testing.assert_allclose(found.frame["lon"] % 360, [170, 180, 190])
    with pytest.raises(TableError, match="set it with set_crs"):
        split_geometry(places(None), model.crs_wkt)


def test_other_objects_are_not_geometries_and_do_not_import_geopandas(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "geopandas", None)  # whose import would fail
    for other in (pd.DataFrame({"geometry": [1.0]}), np.zeros((2, 2)), None):
        assert split_geometry(other) is None


@pytest.mark.parametrize(
    ("geometry", "message"),
    [
        ([Point(0, 1), None, Point(1, 1)], "Got 1 missing ones, the first in row 2"),
        ([Point(0, 1), Point(0, 0), Point()], "Got 1 empty ones, the first in row 3"),
        ([Point(0, 1), LineString([(0, 0), (1, 1)]), Point(1, 1)], "Got 'LineString' in 1 rows"),
        ([Polygon([(0, 0), (1, 0), (0, 1)])] * 3, "Got 'Polygon' in 3 rows"),
    ],
)
def test_rows_without_a_point_are_refused(geometry: list[Any], message: str) -> None:
    with pytest.raises(TableError, match=message):
        split_geometry(gpd.GeoDataFrame({"rain": [1, 2, 3]}, geometry=geometry))


def test_frames_with_ambiguous_points_are_refused() -> None:
    frame = places()
    frame["other"] = frame.geometry.translate(1)
    for refused, message in (
        (gpd.GeoDataFrame({"rain": [1, 2]}), "choose its column with set_geometry"),
        (places(lat=[1, 2, 3]), "Got 'lat', which the frame already has"),
        (frame, "Got further ones in 'other'"),
    ):
        with pytest.raises(TableError, match=message):
            split_geometry(refused)
