"""CSV files, one or many, read a part at a time."""

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

from sswim.distributed.share import WHOLE, Share
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
from sswim.tables.table_parts import Part, gathered, part_rows

GZIP_RATIO = 6
"""About how much larger a compressed file becomes."""

_CONVERSION = re.compile(r"In CSV column #(\d+): .*?CSV conversion error to [^:]*: (.*)", re.DOTALL)


@dataclass(frozen=True)
class CsvFile:
    """What is known of a file from its first rows."""

    path: str
    names: tuple[str, ...]
    """Of the columns, in the order of the file."""


@dataclass(frozen=True)
class CsvTables:
    """A CSV file, or all in a folder.

    What a column holds is told by the first rows of the first file that has any. Nothing tells how
    many rows there are, and so every process reads all of them, and keeps one part in so many.
    """

    name: str
    schema: pa.Schema
    nbytes: int
    files: tuple[CsvFile, ...]
    guessed: frozenset[str]
    """The columns without a value in the first rows, which are taken for numbers."""

    @classmethod
    def open(cls, path: str | Path) -> CsvTables:
        """Read the first rows of every file, and refuse those that do not fit together."""
        files: list[CsvFile] = []
        first: pa.Schema | None = None
        nbytes = 0
        for file in table_files(path):
            schema, names, has_rows = first_rows(file)
            files.append(CsvFile(file, names))
            require_unique(names, file)
            require_same_names(names, file, files[0].names, files[0].path)
            first = schema if first is None and has_rows else first
            nbytes += os.path.getsize(file) * (GZIP_RATIO if table_suffix(file) == ".csv.gz" else 1)
        require_shape(int(first is not None), len(files[0].names), path)
        assert first is not None
        wide = pa.schema([pa.field(field.name, _widened(field.type)) for field in first])
        guessed = frozenset(field.name for field in first if pa.types.is_null(field.type))
        return cls(str(path), wide, nbytes, tuple(files), guessed)

    @property
    def n_rows(self) -> None:
        """Nobody knows."""

    def parts(self, columns: Sequence[str], share: Share = WHOLE) -> Iterator[Part]:
        """Some columns of the rows of a share, which is every so manyth part."""
        number = first = 0
        for file in self.files:
            for table in gathered(self._batches(file, columns), part_rows(len(columns))):
                if number % share.size == share.rank:
                    yield Part(first, table, file.path)
                number += 1
                first += table.num_rows

    def _batches(self, file: CsvFile, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        types = {name: self.schema.field(name).type for name in columns}
        with reading(file.path, table_suffix(file.path)):
            try:
                yield from _stream(file.path, column_types=types, include_columns=list(columns))
            except pa.ArrowInvalid as error:
                if found := _CONVERSION.search(str(error)):
                    raise self._refusal(file, int(found[1]), found[2]) from error
                raise

    def _refusal(self, file: CsvFile, column: int, reason: str) -> TableError:
        name = file.names[column]
        dtype = self.schema.field(name).type
        kind = kind_of(dtype)
        taken = str(dtype) if kind is None else KIND_WORDS[kind]
        why = ", having no value there" if name in self.guessed else ""
        return TableError(
            "All values of a column must be of the kind of those in the first rows. Got column "
            f"{name!r} of {file.path!r}, which was taken for {taken}{why}: {reason}; mend it, "
            f"leave the column out with --drop {shlex.quote(name)}, or write the table as Parquet."
        )


def first_rows(path: str) -> tuple[pa.Schema, tuple[str, ...], bool]:
    """The columns, of types that suit the first rows, their names, and whether there are rows."""
    with reading(path, table_suffix(path)):
        reader = _stream(path)
        return reader.schema, tuple(reader.schema.names), any(batch.num_rows for batch in reader)


def _stream(path: str, **conversion: Any) -> pyarrow.csv.CSVStreamingReader:
    # The file is not closed here: a thread of Arrow's reads ahead in it, and closes it at its end.
    return pyarrow.csv.open_csv(csv_text(path, table_suffix(path)), **csv_options(**conversion))


def _widened(dtype: pa.DataType) -> pa.DataType:
    """A type of the same kind that later rows may need: whole numbers and days may be special."""
    if pa.types.is_integer(dtype) or pa.types.is_null(dtype):
        return pa.float64()
    if pa.types.is_date(dtype):
        return pa.timestamp("us")
    if pa.types.is_timestamp(dtype) and dtype.unit == "s":
        return pa.timestamp("us", dtype.tz)
    return dtype
