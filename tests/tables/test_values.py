from __future__ import annotations

import datetime
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sswim.tables import as_levels
from sswim.tables.values import NUMBER_FORMATS, TIME_FORMATS, parse_texts


def texts(*values: str | None) -> pa.Array:
    return pa.array(values, pa.large_string())


@pytest.mark.parametrize("marks", NUMBER_FORMATS)
@given(number=st.floats(-1e9, 1e9), digits=st.integers(0, 4))
def test_what_a_format_writes_it_reads(marks: str, number: float, digits: int) -> None:
    """Python writes the number with groups of thousands, and the marks replace its own."""
    written = f"{number:,.{digits}f}"
    expected = float(written.replace(",", ""))
    written = written.replace(",", "T").replace(".", "D")
    written = written.replace("T", marks[1:]).replace("D", marks[0])
    (found,) = parse_texts(texts(written), marks).to_pylist()
    assert found == expected


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", 7.0),
        (" 7 ", 7.0),
        ("+4.5", 4.5),
        ("-.5", -0.5),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("-1.5E-3", -0.0015),
        ("0", 0.0),
        ("0.5", 0.5),
        ("1e400", math.inf),
        *((text, None) for text in ("00123", "007.5", "-01", "1,5", "1,234", "1 234", "12e")),
        *((text, None) for text in ("", "-", ".", "e3", "1.2.3", "--1", "0x10", "1_000", "nan")),
        *((text, None) for text in ("inf", "?", "n/a", "١", "1\n2")),
        (None, None),
    ],
)
def test_plain_numbers_have_a_point_and_no_leading_zero(
    text: str | None, number: float | None
) -> None:
    assert parse_texts(texts(text), ".").to_pylist() == [number]


def test_groups_of_thousands_have_three_digits() -> None:
    wrong = ("1,23", "12,34", ",123", "1,2345", "1234,567", "01,234", "1,,234")
    assert parse_texts(texts(*wrong), ".,").null_count == len(wrong)


@given(time=st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31)))
def test_iso_times_are_those_of_python(time: datetime.datetime) -> None:
    written = [time.isoformat(), time.isoformat(" "), time.isoformat(timespec="microseconds")]
    found = parse_texts(texts(*written), "ISO 8601")
    assert found.type == pa.timestamp("us")
    assert found.to_pylist() == [time] * 3
    parts = texts(written[0][:10], written[0][:16])
    day, minute = parse_texts(parts, "ISO 8601").to_pylist()
    assert day == datetime.datetime(time.year, time.month, time.day)
    assert minute == time.replace(second=0, microsecond=0)


@given(
    time=st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 12, 31)),
    minutes=st.integers(-14 * 60, 14 * 60),
)
def test_times_with_an_offset_are_returned_in_utc(time: datetime.datetime, minutes: int) -> None:
    zone = datetime.timezone(datetime.timedelta(minutes=minutes))
    local = time.replace(tzinfo=zone)
    written = texts(
        local.isoformat(),
        local.strftime("%Y-%m-%dT%H:%M:%S.%f%z"),
        local.astimezone(datetime.UTC).replace(tzinfo=None).isoformat() + "Z",
    )
    assert parse_texts(written, "ISO 8601 with offset").to_pylist() == [local] * 3


@pytest.mark.parametrize(
    "pattern", [pattern for pattern in TIME_FORMATS if pattern.startswith("%")]
)
@given(time=st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 12, 31)))
def test_other_times_are_those_of_python(pattern: str, time: datetime.datetime) -> None:
    written = time.strftime(pattern)
    short = written.replace("/0", "/").replace(".0", ".").removeprefix("0")
    expected = datetime.datetime.strptime(written, pattern)
    assert parse_texts(texts(written, short), pattern).to_pylist() == [expected] * 2


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("ISO 8601", "2020-02-31"),
        ("ISO 8601", "2020-01-01 24:01"),
        ("ISO 8601", "20200101"),
        ("ISO 8601", "2020-1-1"),
        ("ISO 8601", "2020-01-01T00:00:00Z"),
        ("ISO 8601 with offset", "2020-01-01T00:00:00"),
        ("ISO 8601 with offset", "2020-02-31T00:00:00Z"),
        ("%d.%m.%Y", "31.02.2020"),
        ("%d.%m.%Y", "1.2.3"),
        ("%d.%m.%Y", "1.2.20"),
        ("%d.%m.%Y", "1.2.2020 10:00"),
        ("%d/%m/%Y", "12/31/2020"),
        ("%m/%d/%Y", "31/12/2020"),
        ("%d/%m/%Y %H:%M", "1/2/2020 25:00"),
    ],
)
def test_what_is_no_time_is_null_beside_others(pattern: str, text: str) -> None:
    good = datetime.datetime(2020, 3, 4, tzinfo=datetime.UTC)
    written = good.strftime(pattern) if pattern.startswith("%") else good.strftime("%Y-%m-%d %H:%M")
    written += "Z" if pattern.endswith("offset") else ""
    found = parse_texts(texts(text, None, written), pattern)
    assert found.null_count == 2
    assert found[2].is_valid
    assert parse_texts(texts(text), pattern).type == found.type


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
def test_a_whole_number_has_the_same_text_whatever_its_type(values: pa.Array) -> None:
    assert as_levels(pa.chunked_array([values])).to_pylist() == ["1", None, "20"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([1.5, 2.0]), ["1.5", "2"]),
        (pa.array([2.0**60, 1.0]), ["1.152921504606847e+18", "1"]),
        (pa.array([True, False]), ["true", "false"]),
        (pa.array([True, None]).dictionary_encode(), ["true", None]),
        (pa.array([datetime.date(2020, 2, 29), None]), ["2020-02-29", None]),
        (pa.nulls(2), [None, None]),
        (pa.nulls(2).dictionary_encode(), [None, None]),
        (pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None])), ["a", None]),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)
def test_other_values_have_the_text_that_one_would_write(
    values: pa.Array, expected: list[str | None]
) -> None:
    assert as_levels(pa.chunked_array([values])).to_pylist() == expected
