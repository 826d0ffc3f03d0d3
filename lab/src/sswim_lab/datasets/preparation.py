"""Preparation of stored data sets: numeric columns, the target last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int64

from sswim.tables import TableError, quote_names

ORIGINS = ("EWR", "JFK", "LGA")
CARRIERS = (
    *("9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN"),
    "YV",
)


def unchanged(table: pa.Table) -> pa.Table:
    """Return the table unchanged."""
    return table


def train_part(table: pa.Table) -> pa.Table:
    """Keep the rows of the training file."""
    _require_columns(table, ["part"])
    return table.filter(pc.equal(table["part"], "train")).drop_columns(["part"])


def parkinsons(table: pa.Table) -> pa.Table:
    """Keep only measurements of the voice as inputs."""
    return _drop_columns(table, ["subject#", "age", "sex", "test_time", "motor_UPDRS"])


def bikeshare(table: pa.Table) -> pa.Table:
    """Convert days to seconds and drop the row number.

    The inputs casual and registered stay, although their sum is the target.
    """
    table = _drop_columns(table, ["instant"])
    _require_columns(table, ["dteday"])
    days = pc.strptime(table["dteday"], format="%Y-%m-%d", unit="s").cast(pa.int64())
    return _replace_column(table, "dteday", days)


def abalone(table: pa.Table) -> pa.Table:
    """Encode the sex as two columns of zeros and ones."""
    return _replace_by_indicators(table, "Sex", ("F", "I", "M"))


def log_target(table: pa.Table) -> pa.Table:
    """Replace the target y by log(1 + y)."""
    target = table.column_names[-1]
    return table.set_column(table.num_columns - 1, f"log(1 + {target})", pc.log1p(table[target]))


def ct_slice(table: pa.Table) -> pa.Table:
    """Drop the patient's number and columns with a single value."""
    *inputs, target = table.column_names
    varying = [name for name in inputs if name != "patientId" and _has_several_values(table[name])]
    return table.select([*varying, target])


def maunaloa_co2(table: pa.Table) -> pa.Table:
    """Drop the date, which is text; the decimal year says the same."""
    return _drop_columns(table, ["date"])


def nycflights13(table: pa.Table) -> pa.Table:
    """Keep what is known before a flight's day: date, schedule, distance, airports, carrier."""
    known = ["sched_dep_time", "sched_arr_time", "distance", "dest", "origin", "carrier"]
    _require_columns(table, ["year", "month", "day", *known, "arr_delay"])
    months = 12 * (_integers(table, "year") - 1970) + _integers(table, "month") - 1
    first = months.astype("datetime64[M]").astype("datetime64[D]")
    days = pa.array(first + (_integers(table, "day") - 1))
    for name in ("sched_dep_time", "sched_arr_time"):
        clock = _integers(table, name)  # 1345 is a quarter to two
        table = _replace_column(table, name, pa.array(60 * (clock // 100) + clock % 100))
    table = _replace_column(table, "dest", _rank_by_frequency(table["dest"]))
    table = table.select([*known, "arr_delay"])
    table = table.add_column(0, "weekday", pc.day_of_week(days))
    table = table.add_column(0, "day_of_year", pc.day_of_year(days))
    table = _replace_by_indicators(table, "origin", ORIGINS)
    return _replace_by_indicators(table, "carrier", CARRIERS)


def _drop_columns(table: pa.Table, names: Sequence[str]) -> pa.Table:
    _require_columns(table, names)
    return table.drop_columns(names)


def _replace_column(table: pa.Table, name: str, values: pa.ChunkedArray | pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, values)


def _replace_by_indicators(table: pa.Table, name: str, levels: Sequence[str]) -> pa.Table:
    """Replace a text column by a column of zeros and ones for every level but the first."""
    _require_columns(table, [name])
    if unknown := set(table[name].unique().to_pylist()) - set(levels):
        raise TableError(
            f"Column {name!r} must hold {', '.join(levels)}. "
            f"Got {quote_names(sorted(map(str, unknown)))}."
        )
    position = table.column_names.index(name)
    for level in reversed(levels[1:]):
        column = pc.equal(table[name], level).cast(pa.int8())
        table = table.add_column(position, f"{name}_{level}", column)
    return table.drop_columns([name])


def _rank_by_frequency(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Replace values by ranks: 0 for the most frequent; ties are in alphabetical order."""
    counts = values.value_counts().to_pylist()
    counts.sort(key=lambda count: (-count["counts"], count["values"]))
    order = pa.array([count["values"] for count in counts], values.type)
    return pc.index_in(values, value_set=order)


def _has_several_values(values: pa.ChunkedArray) -> bool:
    extremes = pc.min_max(values).as_py()
    return bool(extremes["min"] != extremes["max"])


def _integers(table: pa.Table, name: str) -> Int64[np.ndarray, " N"]:
    return table[name].cast(pa.int64()).to_numpy()


def _require_columns(table: pa.Table, names: Sequence[str]) -> None:
    if absent := [name for name in names if name not in table.column_names]:
        raise TableError(
            f"The table must have columns {quote_names(absent)}. "
            f"Got {quote_names(table.column_names)}."
        )
