"""CSV files, one or many, read in chunks."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from sswim.distributed.share import ALL_ROWS, Share
from sswim.tables.chunked_table import TableChunk, chunk_rows, rechunk
from sswim.tables.file_listing import require_same_names, table_files
from sswim.tables.schema import KIND_WORDS, kind_of
from sswim.tables.table_io import (
    TableError,
    csv_options,
    csv_text,
    reading,
    require_shape,
    require_unique,
    table_suffix,
)

GZIP_RATIO = 6
"""Approximate size of a decompressed file relative to the compressed one."""

_CONVERSION = re.compile(r"In CSV column #(\d+): .*?CSV conversion error to [^:]*: (.*)", re.DOTALL)


@dataclass(frozen=True)
class CsvHeader:
    """Columns of a file, as its first rows show them."""

    schema: pa.Schema
    names: tuple[str, ...]
    has_rows: bool


@dataclass(frozen=True)
class CsvFile:
    """One file of the table."""

    path: str
    names: tuple[str, ...]
    """Names of the columns, in the order of the file."""


@dataclass(frozen=True)
class CsvTable:
    """A CSV file, or all CSV files in a folder.

    The first rows of the first file that has rows determine the type of each column. The number of
    rows is unknown, so with several processes each reads all rows and keeps one chunk in n.
    """

    name: str
    schema: pa.Schema
    nbytes: int
    files: tuple[CsvFile, ...]
    assumed_numeric: frozenset[str]
    """Columns without a value in the first rows, which are assumed to hold numbers."""

    @classmethod
    def open(cls, path: str | Path) -> CsvTable:
        """Read the first rows of every file; raise an error if the files do not fit together."""
        files: list[CsvFile] = []
        first: pa.Schema | None = None
        nbytes = 0
        for file in table_files(path):
            header = read_header(file)
            files.append(CsvFile(file, header.names))
            require_unique(header.names, file)
            require_same_names(header.names, file, files[0].names, files[0].path)
            first = header.schema if first is None and header.has_rows else first
            nbytes += text_size(file)
        require_shape(int(first is not None), len(files[0].names), path)
        assert first is not None
        wide = pa.schema([pa.field(field.name, _widened(field.type)) for field in first])
        empty = frozenset(field.name for field in first if pa.types.is_null(field.type))
        return cls(str(path), wide, nbytes, tuple(files), empty)

    @property
    def n_rows(self) -> None:
        """None: the number of rows is unknown."""

    def chunks(self, columns: Sequence[str], share: Share = ALL_ROWS) -> Iterator[TableChunk]:
        """Read some columns of a share's rows: every n-th chunk, for n shares."""
        number = first = 0
        for file in self.files:
            for table in rechunk(self._batches(file, columns), chunk_rows(len(columns))):
                if number % share.size == share.rank:
                    yield TableChunk(first, table, file.path)
                number += 1
                first += table.num_rows

    def _batches(self, file: CsvFile, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        types = {name: self.schema.field(name).type for name in columns}
        with reading(file.path, table_suffix(file.path)):
            try:
                yield from _stream(file.path, column_types=types, include_columns=list(columns))
            except pa.ArrowInvalid as error:
                if found := _CONVERSION.search(str(error)):
                    raise self._conversion_error(file, int(found[1]), found[2]) from error
                raise

    def _conversion_error(self, file: CsvFile, column: int, reason: str) -> TableError:
        name = file.names[column]
        dtype = self.schema.field(name).type
        kind = kind_of(dtype)
        expected = str(dtype) if kind is None else KIND_WORDS[kind]
        why = ", having no value there" if name in self.assumed_numeric else ""
        return TableError(
            "All values of a column must be of the kind of those in the first rows. Got column "
            f"{name!r} of {file.path!r}, which was taken for {expected}{why}: {reason}; correct "
            f"it, leave the column out with --drop {shlex.quote(name)}, or write the table as "
            "Parquet."
        )


def read_header(path: str) -> CsvHeader:
    """Read the columns of a file, with types that suit its first rows."""
    with reading(path, table_suffix(path)):
        reader = _stream(path)
        names = tuple(reader.schema.names)
        return CsvHeader(reader.schema, names, any(batch.num_rows for batch in reader))


def text_size(path: str) -> int:
    """Return the size of a file's text, which is estimated if the file is compressed."""
    return os.path.getsize(path) * (GZIP_RATIO if table_suffix(path) == ".csv.gz" else 1)


def _stream(path: str, **conversion: Any) -> pyarrow.csv.CSVStreamingReader:
    # The file is not closed here: a thread of Arrow's reads ahead in it, and closes it at its end.
    return pyarrow.csv.open_csv(csv_text(path, table_suffix(path)), **csv_options(**conversion))


def _widened(dtype: pa.DataType) -> pa.DataType:
    """Return a type of the same kind that also holds fractions, and times of day."""
    if pa.types.is_integer(dtype) or pa.types.is_null(dtype):
        return pa.float64()
    if pa.types.is_date(dtype):
        return pa.timestamp("us")
    if pa.types.is_timestamp(dtype) and dtype.unit == "s":
        return pa.timestamp("us", dtype.tz)
    return dtype
