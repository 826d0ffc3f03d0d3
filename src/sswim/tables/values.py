"""The values of a column: their Arrow types, gaps, and numbers and times written as text."""

from __future__ import annotations

import re
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float64

from sswim.tables.table import TableError

Kind = Literal["number", "time", "category"]

KIND_WORDS: dict[Kind, str] = {"number": "numbers", "time": "dates or times", "category": "text"}


def kind_of(dtype: pa.DataType) -> Kind | None:
    """Return the kind of column that an Arrow type makes, or None if it cannot be an input.

    Text may turn out to be of another kind when its values are read.
    """
    types = pa.types
    if types.is_integer(dtype) or types.is_floating(dtype) or types.is_boolean(dtype):
        return "number"
    if types.is_decimal(dtype) or types.is_duration(dtype):
        return "number"
    if types.is_date(dtype) or types.is_timestamp(dtype) or types.is_time(dtype):
        return "time"
    if types.is_dictionary(dtype):
        values = dtype.value_type
        return "category" if types.is_null(values) or kind_of(values) else None
    return "category" if is_text(dtype) else None


def require_kind(name: str, dtype: pa.DataType, kind: Kind) -> None:
    """Raise unless a type is of a kind; any kind with an order of values can be a category."""
    actual = kind_of(dtype)
    if pa.types.is_timestamp(dtype) and dtype.tz is not None and not is_known_zone(dtype.tz):
        raise TableError(
            f"The time zone of column {name!r} must be known. Got {dtype.tz!r}; convert the column "
            "to another zone, or to UTC."
        )
    if pa.types.is_null(dtype) or actual == kind or (kind == "category" and actual is not None):
        return
    raise TableError(f"Column {name!r} must hold {KIND_WORDS[kind]}. Got type {dtype}.")


def is_known_zone(zone: str) -> bool:
    """Return whether Arrow knows a time zone."""
    try:
        pc.local_timestamp(pa.array([0], pa.timestamp("s", zone)))
    except (pa.ArrowException, ValueError):
        return False
    return True


def is_text(dtype: pa.DataType) -> bool:
    """Return whether a column holds plain text, which may turn out to be numbers or times."""
    return dtype in (pa.string(), pa.large_string(), pa.string_view())


def without_string_view(dtype: pa.DataType) -> pa.DataType:
    """Return ``large_string`` for a string view, and any other type as it is."""
    if pa.types.is_dictionary(dtype):
        return pa.dictionary(dtype.index_type, without_string_view(dtype.value_type), dtype.ordered)
    return pa.large_string() if pa.types.is_string_view(dtype) else dtype


def without_string_views(table: pa.Table) -> pa.Table:
    """Convert string views, Polars's text type, which Arrow can neither filter nor write as CSV."""
    fields = [field.with_type(without_string_view(field.type)) for field in table.schema]
    return table.cast(pa.schema(fields, table.schema.metadata))


def missing_values(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return whether each value is null or NaN."""
    return pc.is_null(values, nan_is_null=True)


def as_numbers(values: pa.Array | pa.ChunkedArray) -> Float64[np.ndarray, " N"]:
    """Return Arrow numbers as floats, NaN where they are null."""
    # safe=False rounds integers beyond 2**53. The copy is writable; Arrow's memory is not.
    return np.array(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))


def finite_numbers(name: str, values: pa.Array | pa.ChunkedArray) -> Float64[np.ndarray, " N"]:
    """Return the numbers of a column, NaN where they are null; raise if some are infinite."""
    numbers = as_numbers(values)
    if n_infinite := int(np.isinf(numbers).sum()):
        raise TableError(
            f"Numbers must be finite. Got {n_infinite} infinite values in column {name!r}; "
            "correct or remove these rows first."
        )
    return numbers


def as_levels(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values of a column as text, null where they are missing.

    A whole number has the same text whatever its type.
    """
    values = values.cast(without_string_view(values.type))
    dtype = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    values = values.cast(pa.float32() if pa.types.is_float16(dtype) else dtype)
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
        whole = pc.equal(pc.floor(values), values)
        small = pc.less(pc.abs(values), 2.0**53)
        if pc.all(pc.and_(whole, small)).as_py():
            values = values.cast(pa.int64())
    return values.cast(pa.large_string())


NUMBER_FORMATS = (
    *(".", ".,", ",", ",.", ", ", ". ", ".'"),
    *(",\u00a0", ".\u00a0", ",\u202f", ".\u2019"),
)
"""Ways to write numbers, by their marks before fractions and between thousands, likeliest first.

A whole number with a leading zero, such as 00123, is a code and not a number.
"""

TIME_FORMATS = (
    "ISO 8601",
    "ISO 8601 with offset",
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d.%m.%Y %H:%M",
    "%d.%m.%Y %H:%M:%S",
    "%d/%m/%Y %H:%M",
    "%m/%d/%Y %H:%M",
    "%d/%m/%Y %H:%M:%S",
    "%m/%d/%Y %H:%M:%S",
    "%Y/%m/%d %H:%M:%S",
)
"""Ways to write dates or times: ISO 8601, and patterns of ``strptime``."""


def parse_texts(texts: pa.Array, text_format: str) -> pa.Array:
    """Return the numbers or times of texts; null where a text does not have the format.

    Times are in microseconds; those with an offset from UTC are returned in UTC.
    """
    texts = pc.utf8_trim_whitespace(texts)
    if text_format in NUMBER_FORMATS:
        return _parse_numbers(texts, text_format[0], text_format[1:])
    if text_format == "ISO 8601":
        return _parse_iso(texts, pa.timestamp("us"))
    if text_format == "ISO 8601 with offset":
        return _parse_iso(texts, pa.timestamp("us", "UTC"))
    times = pc.strptime(texts, format=text_format, unit="us", error_is_null=True)
    # strptime takes 1.2.3 for a day of the year 3, and 31.02.2020 for one in March.
    regex = re.escape(text_format).replace("%d", "(?P<day>[0-9]{1,2})").replace("%Y", "[0-9]{4}")
    regex = "^" + re.sub("%[mHMS]", "[0-9]{1,2}", regex) + "$"
    day = pc.struct_field(pc.extract_regex(texts, regex), "day").cast(pa.int64())
    nothing = pa.scalar(None, times.type)
    return pc.if_else(pc.fill_null(pc.equal(pc.day(times), day), False), times, nothing)


def _parse_numbers(texts: pa.Array, decimal: str, thousands: str) -> pa.Array:
    whole, point = "(0|[1-9][0-9]*)", re.escape(decimal)
    if thousands:
        whole = f"([1-9][0-9]{{0,2}}({re.escape(thousands)}[0-9]{{3}})+|{whole})"
    pattern = rf"^[+-]?({whole}({point}[0-9]*)?|{point}[0-9]+)([eE][+-]?[0-9]+)?$"
    fits = pc.match_substring_regex(texts, pattern)
    plain = pc.if_else(fits, texts, pa.scalar(None, pa.large_string()))
    if thousands:
        plain = pc.replace_substring(plain, thousands, "")
    plain = pc.replace_substring(plain, decimal, ".")
    return pc.replace_substring_regex(plain, r"^\+", "").cast(pa.float64())


_ISO = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?)?"

_OFFSET = r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)"


def _parse_iso(texts: pa.Array, dtype: pa.DataType) -> pa.Array:
    """Return the times of texts by ISO 8601, null where a text is none."""
    fits = pc.match_substring_regex(texts, _ISO + (_OFFSET if dtype.tz else "") + "$")
    some = pc.if_else(fits, texts, pa.scalar(None, pa.large_string()))
    # More digits than microseconds are cut off.
    some = pc.replace_substring_regex(some, r"(\.[0-9]{6})[0-9]+", r"\1")
    try:
        return some.cast(dtype)
    except pa.ArrowInvalid:  # a date such as 2020-02-31
        return pa.array([_parse_one(text, dtype) for text in some], dtype)


def _parse_one(text: pa.Scalar, dtype: pa.DataType) -> pa.Scalar:
    try:
        return text.cast(dtype)
    except pa.ArrowInvalid:
        return pa.scalar(None, dtype)
