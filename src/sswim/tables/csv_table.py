"""CSV files, one or many, read in chunks.

CSV files as they are written: all columns, with types that keep all of the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from sswim.distributed.processes import ALL_ROWS, Share
from sswim.tables.arrow_types import require_shape
from sswim.tables.csv_dialect import AS_FOUND, CsvOptions, text_size
from sswim.tables.csv_file import CsvFile, CsvScan, look_through, merge_types
from sswim.tables.table import TableChunk, chunk_rows, rechunk, require_same_names, table_files

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


@dataclass(frozen=True)
class CsvTable:
    """A CSV file, or all CSV files in a folder.

    All rows are looked through once, so that the type of each column suits them all. With several
    processes each reads all rows and keeps one chunk in n.
    """

    name: str
    schema: pa.Schema
    nbytes: int
    files: tuple[CsvFile, ...]
    file_rows: tuple[int, ...]
    """Number of rows of each file."""
    notes: tuple[str, ...] = ()
    """What the user should know about how the files are read, one line each."""

    @classmethod
    def open(cls, path: str | Path, options: CsvOptions = AS_FOUND) -> CsvTable:
        """Find the columns of all files; raise an error if the files do not fit together."""
        files = [CsvFile.open(file, options) for file in table_files(path)]
        scan, n_rows = CsvScan(), [0]
        for file in files:
            require_same_names(file.names, file.path, files[0].names, files[0].path)
            scan = look_through(scan, file, options)
            n_rows.append(scan.n_rows)
        require_shape(scan.n_rows, len(files[0].names), path)
        left_out = scan.left_out(files[0], options)
        names = [name for name in files[0].names if name not in left_out]
        notes = [note for file in files for note in (*file.notes, *scan.notes(file, options))]
        return cls(
            str(path),
            pa.schema([pa.field(name, scan.types[name]) for name in names]),
            sum(text_size(file.path) for file in files),
            tuple(files),
            tuple(last - first for first, last in pairwise(n_rows)),
            tuple(dict.fromkeys(notes)),
        )

    @property
    def n_rows(self) -> int:
        """Number of rows in all files."""
        return sum(self.file_rows)

    @cached_property
    def written_types(self) -> dict[str, pa.DataType]:
        """Types of all columns that keep what is written in the files, such as leading zeros."""
        types = {field.name: field.type for field in self.schema}
        found = [written_types(file, types) for file in self.files]
        return {name: reduce(merge_types, (each[name] for each in found)) for name in found[0]}

    def chunks(self, columns: Sequence[str], share: Share = ALL_ROWS) -> Iterator[TableChunk]:
        """Read some columns of a share's rows: every n-th chunk, for n shares."""
        number = first = 0
        types = {name: self.schema.field(name).type for name in columns}
        for file in self.files:
            for table in rechunk(file.stream(types, columns), chunk_rows(len(columns))):
                if number % share.size == share.rank:
                    yield TableChunk(first, table, file.path)
                number += 1
                first += table.num_rows
