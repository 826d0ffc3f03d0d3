"""Types of the columns of CSV files, found by looking through all rows."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from sswim.tables import csv_file
from sswim.tables.csv_file import CsvFile
from sswim.tables.csv_options import CsvOptions
from sswim.tables.csv_text import text_size
from sswim.tables.table_errors import TableError


@dataclass
class CsvScan:
    """What is known of the columns of a table after some of its rows."""

    types: dict[str, pa.DataType] = field(default_factory=dict)
    """Type of each column that suits all rows."""
    n_rows: int = 0
    counts_rows: bool = True
    """Whether the index column counts the rows, of each file or of all files."""

    def add(self, file: CsvFile, parts: Iterable[pa.Table | pa.RecordBatch]) -> None:
        """Add the rows of a file, which are read in parts."""
        starts = {0, 1, self.n_rows, self.n_rows + 1}
        first = self.n_rows
        for part in parts:
            for each in part.schema:
                self.types[each.name] = merge_types(self.types.get(each.name, pa.null()), each.type)
            if part.num_rows:
                starts &= _starts(file, part, self.n_rows - first)
            self.n_rows += part.num_rows
        self.counts_rows &= bool(starts)

    def left_out(self, file: CsvFile, options: CsvOptions) -> dict[str, str]:
        """Return the columns that are not part of the table, and what to say about each of them."""
        if options.has_model:
            return {}
        found = {
            name: f"{_number(file, name)} has neither a name nor values: it is left out."
            for name in file.columns.unnamed
            if pa.types.is_null(self.types[name])
        }
        index = file.columns.index
        if index is not None and self.counts_rows and not options.keep_index:
            unnamed = " has no name and" if index in file.columns.unnamed else ""
            found[index] = (
                f"{_number(file, index)}{unnamed} only counts the rows: it is left out; give "
                "--keep-index to use it."
            )
        return found if len(found) < len(file.names) else {}

    def notes(self, file: CsvFile, options: CsvOptions) -> Iterator[str]:
        """Say what was decided about columns, one line each."""
        if options.has_model:
            return
        left_out = self.left_out(file, options)
        yield from left_out.values()
        for name in file.columns.unnamed:
            if name not in left_out:
                yield f"{_number(file, name)} has no name: it is called {name!r}."
        for name, code in file.codes.items():
            if pa.types.is_integer(self.types[name]):
                yield (
                    f"Column {name!r} has leading zeros, such as {code!r}: it is read as a number; "
                    f"give --text {shlex.quote(name)} if these are codes."
                )


def look_through(scan: CsvScan, file: CsvFile, options: CsvOptions) -> CsvScan:
    """Return a scan with all rows of a file added.

    The types of the first part mostly suit all rows, which is found out fast. If they do not, every
    part is read with types of its own.
    """
    types = file.text_types(options)
    if text_size(file.path) > csv_file.PASS_BYTES:
        first = next(file.parts(types)).schema
        found = replace(scan, types=dict(scan.types))
        with suppress(TableError):
            found.add(file, file.stream({each.name: each.type for each in first}, first.names))
            return found
    scan.add(file, file.parts(types))
    return scan


def merge_types(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the type of a column whose parts have two types; text if nothing else suits both."""
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    numbers = [pa.types.is_integer(each) or pa.types.is_floating(each) for each in (one, other)]
    if all(numbers):
        return pa.float64()
    if all(map(_is_local_time, (one, other))):
        units = [each.unit for each in (one, other) if pa.types.is_timestamp(each)]
        return pa.timestamp("ns" if "ns" in units else "s")
    return pa.string()


def _is_local_time(dtype: pa.DataType) -> bool:
    return pa.types.is_date(dtype) or (pa.types.is_timestamp(dtype) and dtype.tz is None)


def _starts(file: CsvFile, part: pa.Table | pa.RecordBatch, first: int) -> set[int]:
    """Return the number from which the index column counts the rows of a file, if it does so.

    Args:
        file: The file.
        part: Consecutive rows of the file.
        first: Number of the first of them, counted from 0.
    """
    if file.columns.index is None:
        return set()
    values = part.column(file.columns.index)
    if not pa.types.is_integer(values.type) or values.null_count:
        return set()
    starts = values.to_numpy() - np.arange(first, first + len(values))
    return {int(starts[0])} if (starts == starts[0]).all() else set()


def _number(file: CsvFile, name: str) -> str:
    """Return how a column is called that may have no name in its file."""
    is_unnamed = name in file.columns.unnamed
    return f"Column {file.names.index(name) + 1}" if is_unnamed else f"Column {name!r}"
