"""CSV files: the names and types of their columns, and their rows, whole or in chunks."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from sswim.distributed.processes import ALL_ROWS, Share
from sswim.tables.csv_dialect import (
    AS_FOUND,
    BLANKS,
    NUMBER,
    CsvDialect,
    CsvOptions,
    blocks,
    has_short_header,
    open_text,
    record_blocks,
    sniff,
    text_size,
)
from sswim.tables.table import (
    MemoryTable,
    TableChunk,
    TableError,
    quote_names,
    reading,
    rechunk,
    require_same_names,
    require_shape,
    rows_per_chunk,
    table_files,
)

PANDAS_INDEX = "Unnamed: 0"
"""Name that pandas gives to an unnamed first column when it reads one."""


def read_names(
    header: Sequence[str], path: str | Path, is_header: bool | None
) -> tuple[dict[str, str], list[str]]:
    """Return what each column is called in the file, and what the user should know.

    Args:
        header: Cells of the first record.
        path: The file, for messages.
        is_header: Whether the first record has the names; None if nobody said so. Numbers that do
            not increase are then an error, because they look like a row.

    Returns:
        The names in the file by those of the columns, which are unique; and notes, one line each.
    """
    if is_header is False:
        return {(name := f"column {number}"): name for number in range(1, len(header) + 1)}, []
    notes = [] if is_header else _doubts(header, path)
    given = [name.strip() for name in header]
    if padded := [name for name, short in zip(header, given, strict=True) if name != short != ""]:
        notes.append(f"Blanks around the names {quote_names(padded)} are left out.")
    names: dict[str, str] = {}
    taken = {*given}
    for number, name in enumerate(given, start=1):
        new = _unique(name, names, taken) if name else _unique(f"column {number}", taken, names)
        names[new] = name
        if name and new != name:
            notes.append(f"Column {number} is {name!r} too, as another one: it is called {new!r}.")
    return names, notes


def _unique(name: str, names: Collection[str], others: Collection[str]) -> str:
    """Return a name that is not among ``names``; if it must change, not among others either."""
    if name not in names:
        return name
    return next(new for n in count(1) if (new := f"{name}.{n}") not in names and new not in others)


def _doubts(header: Sequence[str], path: str | Path) -> list[str]:
    """Return a note if all names are numbers; raise an error if they can hardly be names."""
    if not all(NUMBER.fullmatch(name.strip()) for name in header):
        return []
    numbers = [float(name.replace(",", ".")) for name in header]
    if len(numbers) > 1 and all(low < high for low, high in pairwise(numbers)):
        return [
            f"The names of all columns are numbers: {quote_names(header)}; give --no-header if the "
            "first line is a row."
        ]
    raise TableError(
        f"The first line must have the names of the columns. Got {quote_names(header)} in "
        f"{str(path)!r}; if this is a row, give --no-header, and if these are names, --header."
    )


PASS_BYTES = 2**24
"""Number of bytes whose columns are read at once when a file is looked through."""

_CODE = re.compile("0[0-9]+")


@dataclass(frozen=True)
class CsvFile:
    """A CSV file of which only the first rows have been read."""

    path: str
    dialect: CsvDialect
    given: Mapping[str, str]
    """What each column is called in the file, in its order; empty if it has no name there."""
    n_skipped: int
    """Number of lines up to the first row, among them empty ones."""
    has_rows: bool
    """Whether anything follows the names."""
    codes: Mapping[str, str]
    """Columns with numbers that have leading zeros in the first rows, and the first of them."""
    notes: tuple[str, ...]
    """What the user should know, one line each."""

    @classmethod
    def open(cls, path: str | Path, options: CsvOptions) -> CsvFile:
        """Find the dialect and the names of a file."""
        with reading(path):
            dialect, records, n_empty, is_whole, notes = sniff(path, options)
            if not records:
                raise ValueError("Empty CSV file")
        n_names = int(options.header is not False)
        header = ("", *records[0]) if n_names and has_short_header(records) else records[0]
        given, more = read_names(header, path, options.header)
        codes: dict[str, str] = {}
        for record in records[n_names:]:
            for name, cell in zip(given, record, strict=False):  # a record may be broken
                if _CODE.fullmatch(cell):
                    codes.setdefault(name, cell)
        return cls(
            str(path),
            dialect,
            given,
            n_empty + 1 if n_names else 0,
            len(records) > n_names or not is_whole,
            codes,
            (*notes, *more),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in the order of the file."""
        return tuple(self.given)

    @property
    def unnamed(self) -> list[str]:
        """New names of columns that have none in the file."""
        return [name for name, given in self.given.items() if not given]

    @property
    def index(self) -> str | None:
        """The first column if its name lets one expect that it counts the rows."""
        first = self.names[0]
        return first if self.given[first] in ("", PANDAS_INDEX) else None

    def label(self, name: str) -> str:
        """Return how a column is called in messages, which may have no name in the file."""
        return f"Column {name!r}" if self.given[name] else f"Column {self.names.index(name) + 1}"

    def read(self, types: Mapping[str, pa.DataType]) -> pa.Table:
        """Read the whole file; columns without a given type have the one that suits all rows."""
        if not self.has_rows:
            return pa.table({name: pa.nulls(0) for name in self.names})
        with reading(self.path), self._text() as text:
            options = self._options(types, self.n_skipped)
            return self._checked(pyarrow.csv.read_csv(text, **options))

    def stream(
        self, types: Mapping[str, pa.DataType], names: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Read some columns, a block at a time."""
        if not self.has_rows:
            return
        with reading(self.path):
            # The file is not closed here: a thread of Arrow's reads ahead in it, and closes it.
            options = self._options(types, self.n_skipped, include_columns=list(names))
            yield from pyarrow.csv.open_csv(self._text(), **options)

    def parts(
        self, types: Mapping[str, pa.DataType], names: Sequence[str] = ()
    ) -> Iterator[pa.Table]:
        """Read some columns, or all, in large parts; a column's type may differ between them."""
        if not self.has_rows:
            return
        with reading(self.path), self._text() as text:
            n_skipped = self.n_skipped
            for part in record_blocks(blocks(text), self.dialect.separator, PASS_BYTES):
                options = self._options(types, n_skipped, include_columns=list(names))
                yield self._checked(pyarrow.csv.read_csv(pa.BufferReader(part), **options))
                n_skipped = 0

    def text_types(self, options: CsvOptions) -> dict[str, pa.DataType]:
        """Return the types of the columns that are text by request."""
        return {name: pa.string() for name in options.text if name in self.names}

    def _text(self) -> pa.NativeFile:
        return open_text(self.path, self.dialect.encoding, self.dialect.separator)

    def _options(
        self, types: Mapping[str, pa.DataType], n_skipped: int, **conversion: Any
    ) -> dict[str, Any]:
        blanks = self.dialect.separator == BLANKS
        return {
            "read_options": pyarrow.csv.ReadOptions(
                column_names=list(self.names), skip_rows_after_names=n_skipped
            ),
            "parse_options": pyarrow.csv.ParseOptions(
                delimiter="\t" if blanks else self.dialect.separator, newlines_in_values=True
            ),
            "convert_options": pyarrow.csv.ConvertOptions(
                strings_can_be_null=True,
                decimal_point=self.dialect.decimal,
                column_types=dict(types),
                **conversion,
            ),
        }

    def _checked(self, table: pa.Table) -> pa.Table:
        """Return a table; raise an error if its text is not in the encoding that was given."""
        if any(pa.types.is_binary(dtype) for dtype in table.schema.types):
            encoding = self.dialect.encoding
            raise ValueError(f"some text is not {encoding}; give another --encoding, or none")
        return table


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
            for column in part.schema:
                known = self.types.get(column.name, pa.null())
                self.types[column.name] = merge_types(known, column.type)
            if part.num_rows:
                starts &= _starts(file, part, self.n_rows - first)
            self.n_rows += part.num_rows
        self.counts_rows &= bool(starts)

    def decide(self, file: CsvFile, options: CsvOptions) -> tuple[list[str], list[str]]:
        """Return the columns that are left out, and what was decided, one line each."""
        if options.has_model:
            return [], []
        left_out = {
            name: f"{file.label(name)} has neither a name nor values: it is left out."
            for name in file.unnamed
            if pa.types.is_null(self.types[name])
        }
        index = file.index
        if index is not None and self.counts_rows and not options.keep_index:
            unnamed = " has no name and" if index in file.unnamed else ""
            left_out[index] = (
                f"{file.label(index)}{unnamed} only counts the rows: it is left out; give "
                "--keep-index to use it."
            )
        if len(left_out) == len(file.names):
            left_out = {}
        notes = [*left_out.values()]
        for name in file.unnamed:
            if name not in left_out:
                notes.append(f"{file.label(name)} has no name: it is called {name!r}.")
        for name, code in file.codes.items():
            if pa.types.is_integer(self.types[name]):
                notes.append(
                    f"Column {name!r} has leading zeros, such as {code!r}: it is read as a number; "
                    f"give --text {shlex.quote(name)} if these are codes."
                )
        return [*left_out], notes


def look_through(scan: CsvScan, file: CsvFile, options: CsvOptions) -> CsvScan:
    """Return a scan with all rows of a file added.

    The types of the first part mostly suit all rows, which is found out fast. If they do not, every
    part is read with types of its own.
    """
    types = file.text_types(options)
    if text_size(file.path) > PASS_BYTES:
        first = next(file.parts(types)).schema
        fast = replace(scan, types=dict(scan.types))
        with suppress(TableError):
            fast.add(file, file.stream({column.name: column.type for column in first}, first.names))
            return fast
    scan.add(file, file.parts(types))
    return scan


def merge_types(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the type of a column whose parts have two types; text if nothing else suits both."""
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if _is_number(one) and _is_number(other):
        return pa.float64()
    if all(map(_is_local_time, (one, other))):
        units = [dtype.unit for dtype in (one, other) if pa.types.is_timestamp(dtype)]
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
    if file.index is None:
        return set()
    values = part.column(file.index)
    if not pa.types.is_integer(values.type) or values.null_count:
        return set()
    starts = values.to_numpy() - np.arange(first, first + len(values))
    return {int(starts[0])} if (starts == starts[0]).all() else set()


def read_csv(path: str | Path, options: CsvOptions = AS_FOUND) -> MemoryTable:
    """Read a CSV file whole."""
    file = CsvFile.open(path, options)
    table = file.read(file.text_types(options))
    require_shape(table.num_rows, table.num_columns, path)
    scan = CsvScan()
    scan.add(file, [table])
    left_out, notes = scan.decide(file, options)
    return MemoryTable(table.drop_columns(left_out), str(path), (*file.notes, *notes))


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
    whole: CsvTable | None = None
    """The table that these files are a part of."""

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
        left_out, _ = scan.decide(files[0], options)
        names = [name for name in files[0].names if name not in left_out]
        notes = [note for file in files for note in (*file.notes, *scan.decide(file, options)[1])]
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

    def split(self) -> list[CsvTable]:
        """Return a table for each file."""
        whole = self.whole or self
        return [
            replace(self, name=file.path, files=(file,), file_rows=(n_rows,), whole=whole)
            for file, n_rows in zip(self.files, self.file_rows, strict=True)
        ]

    def as_written(self) -> CsvTable:
        """Return the columns of the first file, with types that lose nothing of any file."""
        types = (self.whole or self)._written_types
        schema = pa.schema([(name, types[name]) for name in self.files[0].names])
        return replace(self, schema=schema)

    @cached_property
    def _written_types(self) -> dict[str, pa.DataType]:
        """Types of all columns that keep what is written, such as 00001 or a time zone.

        Columns of numbers are looked through once more.
        """
        written = {name: pa.string() for name in self.files[0].names}
        written |= {field.name: field.type for field in self.schema if not _has_zone(field.type)}
        patterns = {
            name: _NOT_INTEGER if pa.types.is_integer(dtype) else _NOT_NUMBER
            for name, dtype in written.items()
            if _is_number(dtype)
        }
        for file in self.files if patterns else ():
            for batch in file.stream(dict.fromkeys(patterns, pa.string()), [*patterns]):
                for name, pattern in patterns.items():
                    if pc.any(pc.match_substring_regex(batch.column(name), pattern)).as_py():
                        written[name] = pa.string()
        return written

    def chunks(self, columns: Sequence[str], share: Share = ALL_ROWS) -> Iterator[TableChunk]:
        """Read some columns of a share's rows: every n-th chunk, for n shares."""
        number = first = 0
        types = {name: self.schema.field(name).type for name in columns}
        for file in self.files:
            for table in rechunk(file.stream(types, columns), rows_per_chunk(len(columns))):
                if number % share.size == share.rank:
                    yield TableChunk(first, table, file.path)
                number += 1
                first += table.num_rows


_NOT_INTEGER = r"^\s*(\+|[+-]?0[0-9xX])"
"""Start of texts that an integer does not keep: signs, leading zeros and hexadecimal digits."""

_NOT_NUMBER = _NOT_INTEGER + r"|^\s*-?[0-9]{16,}\s*$"
"""Texts that a floating-point number does not keep."""


def _is_number(dtype: pa.DataType) -> bool:
    return pa.types.is_integer(dtype) or pa.types.is_floating(dtype)


def _has_zone(dtype: pa.DataType) -> bool:
    return pa.types.is_timestamp(dtype) and dtype.tz is not None
