"""Numbers and times that are written as text."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float64


@dataclass(frozen=True)
class NumberFormat:
    """A way to write numbers.

    A whole number with a leading zero, such as 00123, is a code and not a number.
    """

    decimal: str = "."
    thousands: str = ""

    def parse(self, texts: pa.Array) -> pa.Array:
        """Return the numbers of texts; null where a text is not a number of this format."""
        texts = pc.utf8_trim_whitespace(texts)
        fits = pc.match_substring_regex(texts, self._pattern)
        plain = pc.if_else(fits, texts, pa.scalar(None, pa.large_string()))
        if self.thousands:
            plain = pc.replace_substring(plain, self.thousands, "")
        if self.decimal != ".":
            plain = pc.replace_substring(plain, self.decimal, ".")
        plain = pc.replace_substring_regex(plain, r"^\+", "")
        return plain.cast(pa.float64())

    @property
    def _pattern(self) -> str:
        whole = "(0|[1-9][0-9]*)"
        if self.thousands:
            whole = f"([1-9][0-9]{{0,2}}({re.escape(self.thousands)}[0-9]{{3}})+|{whole})"
        point = re.escape(self.decimal)
        return rf"^[+-]?({whole}({point}[0-9]*)?|{point}[0-9]+)([eE][+-]?[0-9]+)?$"


@dataclass(frozen=True)
class TimeFormat:
    """A way to write dates or times: ISO 8601, or a pattern of ``strptime``."""

    pattern: str = "ISO 8601"

    def parse(self, texts: pa.Array) -> pa.Array:
        """Return times in microseconds; null where a text is not a time of this format.

        Times with an offset from UTC are returned in UTC.
        """
        texts = pc.utf8_trim_whitespace(texts)
        if self.pattern == "ISO 8601":
            return _parse_iso(texts, "us")
        if self.pattern == "ISO 8601 with offset":
            return _parse_iso(texts, "us", "UTC")
        found = pc.strptime(texts, format=self.pattern, unit="us", error_is_null=True)
        # strptime takes 1.2.3 for a day of the year 3, and 31.02.2020 for one in March.
        day = pc.struct_field(pc.extract_regex(texts, self._regex), "day").cast(pa.int64())
        nothing = pa.scalar(None, found.type)
        return pc.if_else(pc.fill_null(pc.equal(pc.day(found), day), False), found, nothing)

    @property
    def _regex(self) -> str:
        regex = re.escape(self.pattern).replace("%d", "(?P<day>[0-9]{1,2})")
        return "^" + re.sub("%[mHMS]", "[0-9]{1,2}", regex.replace("%Y", "[0-9]{4}")) + "$"


NUMBER_FORMATS = {
    format_.decimal + format_.thousands: format_
    for format_ in (
        NumberFormat(),
        NumberFormat(".", ","),
        NumberFormat(",", ""),
        NumberFormat(",", "."),
        NumberFormat(",", " "),
        NumberFormat(".", " "),
        NumberFormat(".", "'"),
        NumberFormat(",", "\u00a0"),
        NumberFormat(".", "\u00a0"),
        NumberFormat(",", "\u202f"),
        NumberFormat(".", "\u2019"),
    )
}
"""Formats by their marks, the likeliest first."""

TIME_FORMATS = {
    pattern: TimeFormat(pattern)
    for pattern in (
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
}
"""Formats by their patterns."""

_ISO = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?)?"
_OFFSET = r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)"


def _parse_iso(texts: pa.Array, unit: str, zone: str | None = None) -> pa.Array:
    """Return the times of texts by ISO 8601, null where a text is none."""
    fits = pc.match_substring_regex(texts, _ISO + (_OFFSET if zone else "") + "$")
    some = pc.if_else(fits, texts, pa.scalar(None, pa.large_string()))
    # More digits than microseconds are cut off.
    some = pc.replace_substring_regex(some, r"(\.[0-9]{6})[0-9]+", r"\1")
    try:
        return some.cast(pa.timestamp(unit, zone))
    except pa.ArrowInvalid:  # a date such as 2020-02-31
        dtype = pa.timestamp(unit, zone)
        return pa.array([_parse_one(text, dtype) for text in some.to_pylist()], dtype)


def _parse_one(text: str | None, dtype: pa.DataType) -> pa.Scalar:
    if text is None:
        return pa.scalar(None, dtype)
    try:
        return pa.scalar(text, pa.large_string()).cast(dtype)
    except pa.ArrowInvalid:
        return pa.scalar(None, dtype)


def as_numbers(values: pa.Array | pa.ChunkedArray) -> Float64[np.ndarray, " N"]:
    """Return Arrow numbers as floats, NaN where they are null."""
    # safe=False rounds integers beyond 2**53. The copy is writable; Arrow's memory is not.
    return np.array(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
