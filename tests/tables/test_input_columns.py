from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest
from builders.estimators import small

from sswim.estimator import BaseRegressor
from sswim.insight.effect import InputColumn
from sswim.tables import TableError, input_columns

N = 90


def frame() -> pd.DataFrame:
    random = np.random.default_rng(0)
    times = pd.date_range("2021-03-01 05:00", periods=N, freq="5h")
    return pd.DataFrame(
        {
            "lon": random.uniform(-180, 180, N),
            "number": random.normal(size=N),
            "gaps": np.where(random.uniform(size=N) < 0.3, np.nan, random.normal(size=N)),
            "binary": random.choice(["no", "yes"], N),
            "levels": random.choice(["a", "b", "c"], N),
            "missing": random.choice(np.array(["u", "v", None], dtype=object), N),
            "many": random.choice([f"town {number}" for number in range(25)], N),
            "lat": random.uniform(-80, 80, N),
            "time": times,
            "zoned": times.tz_localize("UTC").tz_convert("Europe/Berlin"),
            "clock": [datetime.time(number % 24, 7 * number % 60) for number in range(N)],
        }
    )


@pytest.fixture(scope="module")
def model() -> BaseRegressor:
    rows = frame()
    target = np.sin(rows["number"]) + rows["many"].str[5:].astype(int)
    return small(depth=0, coordinates=("lon", "lat")).fit(rows, target)


@pytest.fixture(scope="module")
def columns(model: BaseRegressor) -> dict[str, InputColumn]:
    reader: Any = model._reader
    return {column.name: column for column in input_columns(reader.schema)}


def encode(model: BaseRegressor, rows: pd.DataFrame) -> np.ndarray:
    return model._reader.read(model, rows).mean.numpy()


def test_columns_are_in_the_order_of_the_table(
    model: BaseRegressor, columns: dict[str, InputColumn]
) -> None:
    assert list(columns) == list(frame().columns)
    reader: Any = model._reader
    for name, column in columns.items():
        if name not in ("lon", "lat"):
            assert all(name in reader.inputs[place] for place in column.places)
    places = {place for column in columns.values() for place in column.places}
    assert places == set(range(reader.n_inputs))


VALUES: dict[str, Any] = {
    "lon": 100.0,
    "number": 0.3,
    "gaps": -1.0,
    "binary": "no",
    "levels": "b",
    "missing": "u",
    "many": "town 7",
    "lat": -30.0,
    "time": np.datetime64("2021-03-05T11:30"),
    "zoned": np.datetime64("2021-07-05T11:30"),  # UTC
    "clock": np.timedelta64(13 * 60 + 5, "m"),
}


@pytest.mark.parametrize("name", VALUES)
def test_setting_a_column_is_encoding_a_table_with_that_value(
    model: BaseRegressor, columns: dict[str, InputColumn], name: str
) -> None:
    rows, value = frame().ffill().bfill(), VALUES[name]
    in_table = value
    if name == "zoned":
        in_table = pd.Timestamp(value).tz_localize("UTC").tz_convert("Europe/Berlin")
    elif name == "time":
        in_table = pd.Timestamp(value)
    elif name == "clock":
        in_table = datetime.time(13, 5)
    expected = encode(model, rows.assign(**{name: in_table}))
    column = columns[name]
    [checked] = column.check([value])
    np.testing.assert_allclose(column.put(encode(model, rows), checked), expected, atol=1e-9)


@pytest.mark.parametrize("name", VALUES)
def test_values_are_found_from_inputs(
    model: BaseRegressor, columns: dict[str, InputColumn], name: str
) -> None:
    rows = frame()
    found = columns[name].values(encode(model, rows))
    expected = rows[name]
    if name == "gaps":
        known = expected.notna().to_numpy()
        np.testing.assert_allclose(found[known], expected[known])
    elif name in ("lon", "lat", "number"):
        np.testing.assert_allclose(found, expected)
    elif name == "time":
        np.testing.assert_array_equal(found, expected.to_numpy())
    elif name == "zoned":
        np.testing.assert_array_equal(found, expected.dt.tz_convert("UTC").dt.tz_localize(None))
    elif name == "clock":
        minutes = [each.hour * 60 + each.minute for each in expected]
        np.testing.assert_allclose(found / np.timedelta64(1, "m"), minutes, atol=1e-6)
    else:
        assert found.tolist() == expected.fillna("missing").tolist()


def test_grids(columns: dict[str, InputColumn], model: BaseRegressor) -> None:
    inputs = encode(model, frame())
    for name, column in columns.items():
        grid = column.grid(column.values(inputs), 5)
        assert 2 <= len(grid) <= 5
        np.testing.assert_array_equal(column.check(grid), grid)
        assert len(column.put(inputs, grid[0])) == N, name


@pytest.mark.parametrize(
    ("name", "grid", "message"),
    [
        ("levels", ["a", "z"], "levels of the fit. Got 'z'"),
        ("time", ["never"], "must hold times"),
        ("clock", [np.timedelta64("NaT")], "Got NaT"),
        ("time", [], "one or more values"),
    ],
)
def test_grids_that_cannot_be(
    columns: dict[str, InputColumn], name: str, grid: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        columns[name].check(grid)


def test_latitudes_beyond_the_poles(columns: dict[str, InputColumn], model: BaseRegressor) -> None:
    with pytest.raises(TableError, match="from −90 to 90"):
        columns["lat"].put(encode(model, frame()), 95.0)
