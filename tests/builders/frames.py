"""Columns of every type that pandas, polars and Arrow have, with 60 rows each."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

N_ROWS = 60
QUARTER = N_ROWS // 4
PLACES = list(range(N_ROWS))
NUMBERS = [place % 7 for place in PLACES]
FRACTIONS = [place / 4 for place in PLACES]
TRUTHS = [place % 3 == 0 for place in PLACES]
LEVELS = ["a", "b", "c", "dé"]
TEXTS = [LEVELS[place % 4] for place in PLACES]
DECIMALS = [Decimal(place) / 4 for place in PLACES]
HOURS = [datetime.timedelta(hours=7 * place) for place in PLACES]
TIMES = [datetime.datetime(2020, 3, 28) + each for each in HOURS]  # the clock changes on the 29th
DAYS = [datetime.date(2020, 1, 1) + datetime.timedelta(days=place) for place in PLACES]
CLOCK = [datetime.time(place % 24, 5) for place in PLACES]
ZONE = "Europe/Berlin"
UNITS = ("s", "ms", "us", "ns")

IS_MISSING = np.arange(N_ROWS) % 3 == 2
"""Rows without a value, in columns that have some."""


def _pandas_numbers() -> dict[str, Any]:
    integers = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
    nullable = ["Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64"]
    floats = ["float16", "float32", "float64", "Float32", "Float64"]
    found = {name: pd.Series(NUMBERS).astype(name) for name in integers + nullable + floats}
    found |= {name: pd.Series(TRUTHS).astype(name) for name in ("bool", "boolean")}
    found["Sparse[int64]"] = pd.Series(pd.arrays.SparseArray(NUMBERS))
    found["Sparse[float64]"] = pd.Series(pd.arrays.SparseArray(FRACTIONS, fill_value=0.0))
    found["longdouble"] = pd.Series(np.array(FRACTIONS, np.longdouble))
    found["decimal"] = pd.Series(DECIMALS, dtype=object)
    found["object of numbers"] = pd.Series([1, 2.5, True, np.float32(4)] * QUARTER, dtype=object)
    return found


def _pandas_texts() -> dict[str, Any]:
    names = ("str", "string[pyarrow]", "string[python]", "object")
    found: dict[str, Any] = {name: pd.Series(TEXTS, dtype=name) for name in names}
    found["object mixed"] = pd.Series([1, "a", 2.5, True] * QUARTER, dtype=object)
    found["numbers as text"] = pd.Series([repr(each) for each in FRACTIONS])
    found["dates as text"] = pd.Series([f"{each:%d.%m.%Y}" for each in DAYS])
    return found


def _pandas_categories() -> dict[str, Any]:
    times = pd.Series(pd.to_datetime(TIMES[:4] * QUARTER))
    values: dict[str, Any] = {
        "text": TEXTS,
        "int": NUMBERS,
        "float": [each / 2 for each in NUMBERS],
        "bool": TRUTHS,
        "datetime": times,
        "datetime with zone": times.dt.tz_localize("UTC"),
        "date": DAYS[:4] * QUARTER,
        "decimal": DECIMALS[:4] * QUARTER,
        "period": times.dt.to_period("D"),
        "mixed": [1, "a"] * 2 * QUARTER,
    }
    found: dict[str, Any] = {
        f"category of {name}": pd.Series(pd.Categorical(each)) for name, each in values.items()
    }
    found["category of timedelta"] = pd.Series(pd.Categorical(pd.to_timedelta(HOURS[:4] * QUARTER)))
    found["category of intervals"] = pd.Series(pd.cut(PLACES, 4))
    ordered = pd.CategoricalDtype(["dé", "c", "b", "a", "unused"], ordered=True)
    found["category in order"] = pd.Series(TEXTS).astype(ordered)
    found["interval"] = pd.Series(pd.IntervalIndex.from_tuples([(0, 1), (1, 2)] * 2 * QUARTER))
    return found


def _pandas_times() -> dict[str, Any]:
    times = pd.Series(pd.to_datetime(TIMES))
    found: dict[str, Any] = {}
    for unit in UNITS:
        naive = found[f"datetime64[{unit}]"] = times.dt.as_unit(unit)
        found[f"datetime64[{unit}, {ZONE}]"] = naive.dt.tz_localize("UTC").dt.tz_convert(ZONE)
        found[f"timedelta64[{unit}]"] = pd.Series(pd.to_timedelta(HOURS)).dt.as_unit(unit)
    offset = datetime.timezone(datetime.timedelta(hours=5, minutes=30))
    found["datetime64 with offset"] = times.dt.tz_localize(offset)
    found["nanoseconds"] = pd.Series(
        pd.to_datetime([1 + 10**15 * place for place in PLACES], utc=True).tz_convert(ZONE)
    )
    found["period"] = pd.Series(pd.period_range("2020-01", periods=N_ROWS, freq="M"))
    objects = {"datetime": TIMES, "date": DAYS, "time": CLOCK, "timedelta": HOURS}
    found |= {f"object {name}": pd.Series(each, dtype=object) for name, each in objects.items()}
    return found


def _pandas_arrow() -> dict[str, Any]:
    arrays = [
        *(pa.array(NUMBERS, dtype) for dtype in (pa.int8(), pa.uint64(), pa.float16())),
        *(pa.array(TRUTHS), pa.array(DECIMALS), pa.array(TEXTS)),
        *(_dictionary(pa.array(LEVELS)), _dictionary(pa.array(range(4)))),
        *(pa.array(DAYS), pa.array(CLOCK), pa.array(HOURS)),
        *(pa.array(TIMES, pa.timestamp(unit, zone)) for unit, zone in (("s", None), ("ns", ZONE))),
    ]
    extensions = map(pd.arrays.ArrowExtensionArray, arrays)
    return {f"{each.dtype}": pd.Series(each) for each in extensions}


def pandas_columns() -> dict[str, Any]:
    """Return a series of every type."""
    objects = _pandas_numbers() | _pandas_texts() | _pandas_categories() | _pandas_times()
    return objects | _pandas_arrow()


def polars_columns() -> dict[str, Any]:
    """Return a series of every type."""
    integers = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)
    found: dict[str, Any] = {
        str(dtype): pl.Series(NUMBERS, dtype=dtype) for dtype in (*integers, pl.Float32, pl.Float64)
    }
    found |= {
        "Boolean": pl.Series(TRUTHS),
        "String": pl.Series(TEXTS),
        "Categorical": pl.Series(TEXTS, dtype=pl.Categorical),
        "Enum": pl.Series(TEXTS, dtype=pl.Enum(["dé", "c", "b", "a", "unused"])),
        "Date": pl.Series(DAYS),
        "Time": pl.Series(CLOCK),
        "Decimal": pl.Series(DECIMALS),
    }
    for unit in UNITS[1:]:
        times = pl.Series(TIMES).dt.cast_time_unit(unit)  # type: ignore[arg-type]
        found[f"Datetime {unit}"] = times
        found[f"Datetime {unit} {ZONE}"] = times.dt.replace_time_zone("UTC").dt.convert_time_zone(
            ZONE
        )
        found[f"Duration {unit}"] = pl.Series(HOURS).dt.cast_time_unit(unit)  # type: ignore[arg-type]
    return found


def arrow_columns() -> dict[str, Any]:
    """Return an array of every type."""
    integers = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
    unsigned = (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
    floats = (pa.float16(), pa.float32(), pa.float64())
    decimals = (pa.decimal32(5, 2), pa.decimal64(9, 2), pa.decimal128(9, 2), pa.decimal256(50, 2))
    texts = (pa.string(), pa.large_string(), pa.string_view())
    moments = (pa.date32(), pa.date64())
    clocks = (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))
    arrays = [
        pa.array(TRUTHS),
        *(pa.array(NUMBERS, dtype) for dtype in (*integers, *unsigned, *floats)),
        *(pa.array(DECIMALS, dtype) for dtype in decimals),
        *(pa.array(TEXTS, dtype) for dtype in texts),
        *(_dictionary(pa.array(LEVELS, dtype)) for dtype in texts),
        *(_dictionary(pa.array(range(4), dtype)) for dtype in (pa.int64(), pa.float16())),
        *(_dictionary(pa.array(TIMES[:4], pa.timestamp(unit))) for unit in UNITS),
        _dictionary(pa.array(HOURS[:4])),
        *(pa.array(DAYS, dtype) for dtype in moments),
        *(pa.array(CLOCK, dtype) for dtype in clocks),
        *(
            pa.array(TIMES, pa.timestamp(unit, zone))
            for unit in UNITS
            for zone in (None, "UTC", ZONE, "+05:30")
        ),
        *(pa.array(HOURS, pa.duration(unit)) for unit in UNITS),
    ]
    return {str(array.type): array for array in arrays}


def _dictionary(values: Any) -> Any:
    codes = pa.array([place % len(values) for place in PLACES], pa.int32())
    return pa.DictionaryArray.from_arrays(codes, values)


def with_missing(column: Any) -> Any:
    """Return a series or an array with missing values; the type of a series may change."""
    places = [None if hole else place for hole, place in zip(IS_MISSING, PLACES, strict=True)]
    if isinstance(column, pd.Series):
        labels = [-1 if place is None else place for place in places]
        return column.reindex(labels).reset_index(drop=True)  # labels that do not exist are missing
    if isinstance(column, pl.Series):
        holes = pl.when(pl.Series(IS_MISSING)).then(None).otherwise(pl.col("c"))
        return pl.DataFrame({"c": column}).select(holes.alias("c"))["c"]
    if pa.types.is_string_view(column.type):  # whose elements Arrow cannot take
        return with_missing(column.cast(pa.string())).cast(column.type)
    return column.take(pa.array(places, pa.int64()))


Make = Callable[[Any], Any]
FRAMES: dict[str, tuple[dict[str, Any], Make]] = {
    "pandas": (pandas_columns(), pd.DataFrame),
    "polars": (polars_columns(), pl.DataFrame),
    "arrow": (arrow_columns(), pa.table),
}
"""Columns of each library, and what makes a frame of columns."""
