"""CSV files as they are written: all columns, with types that keep all of the text."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from sswim.tables.csv_file import CsvFile

_NOT_INTEGER = r"^\s*(\+|[+-]?0[0-9xX])"
"""Start of texts that an integer does not keep: signs, leading zeros and hexadecimal digits."""

_NOT_NUMBER = _NOT_INTEGER + r"|^\s*-?[0-9]{16,}\s*$"
"""Texts that a floating-point number does not keep."""


def written_types(file: CsvFile, types: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
    """Return types of all columns that keep what is written, such as 00001 or a time zone.

    Columns of numbers are looked through once more.

    Args:
        file: The file.
        types: Types of some columns as they are read; the others are text.
    """
    found = {name: types.get(name, pa.string()) for name in file.names}
    found = {name: pa.string() if _has_zone(dtype) else dtype for name, dtype in found.items()}
    numbers = [name for name, dtype in found.items() if _is_number(dtype)]
    for batch in file.stream(dict.fromkeys(numbers, pa.string()), numbers) if numbers else ():
        for name in batch.schema.names:
            is_integer = pa.types.is_integer(types[name])
            pattern = _NOT_INTEGER if is_integer else _NOT_NUMBER
            if pc.any(pc.match_substring_regex(batch.column(name), pattern)).as_py():
                found[name] = pa.string()
    return found


def _is_number(dtype: pa.DataType) -> bool:
    return pa.types.is_integer(dtype) or pa.types.is_floating(dtype)


def _has_zone(dtype: pa.DataType) -> bool:
    return pa.types.is_timestamp(dtype) and dtype.tz is not None
