"""One CSV file: its dialect, the names of its columns and how Arrow reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from sswim.tables.csv_dialect import CsvDialect, has_short_header, sniff
from sswim.tables.csv_names import CsvNames, read_names
from sswim.tables.csv_options import BLANKS, CsvOptions
from sswim.tables.csv_records import record_blocks
from sswim.tables.csv_text import blocks, csv_suffix, open_text
from sswim.tables.table_errors import reading

PASS_BYTES = 2**24
"""Number of bytes whose columns are read at once when a file is looked through."""

_CODE = re.compile("0[0-9]+")


@dataclass(frozen=True)
class CsvFile:
    """A CSV file of which only the first rows have been read."""

    path: str
    dialect: CsvDialect
    columns: CsvNames
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
        with _csv_errors(path):
            found = sniff(path, options)
            if not found.records:
                raise ValueError("Empty CSV file")
        has_header = options.header is not False
        names = found.records[0]
        if has_header and has_short_header(found.records):
            names = ("", *names)
        columns = read_names(names, path, options.header)
        return cls(
            str(path),
            found.dialect,
            columns,
            found.n_empty + 1 if has_header else 0,
            len(found.records) > has_header or not found.is_whole,
            _codes(columns.names, found.records[int(has_header) :]),
            (*found.notes, *columns.notes),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in the order of the file."""
        return self.columns.names

    def read(self, types: Mapping[str, pa.DataType]) -> pa.Table:
        """Read the whole file; columns without a given type have the one that suits all rows."""
        if not self.has_rows:
            return pa.table({name: pa.nulls(0) for name in self.names})
        with _csv_errors(self.path), self._text() as text:
            options = self._options(types, self.n_skipped)
            return self._checked(pyarrow.csv.read_csv(text, **options))

    def stream(
        self, types: Mapping[str, pa.DataType], names: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Read some columns, a block at a time."""
        if not self.has_rows:
            return
        with _csv_errors(self.path):
            # The file is not closed here: a thread of Arrow's reads ahead in it, and closes it.
            options = self._options(types, self.n_skipped, include_columns=list(names))
            yield from pyarrow.csv.open_csv(self._text(), **options)

    def parts(
        self, types: Mapping[str, pa.DataType], names: Sequence[str] = ()
    ) -> Iterator[pa.Table]:
        """Read some columns, or all, in large parts; a column's type may differ between them."""
        if not self.has_rows:
            return
        with _csv_errors(self.path), self._text() as text:
            n_skipped = self.n_skipped
            for part in record_blocks(blocks(text), self.dialect.separator, PASS_BYTES):
                options = self._options(types, n_skipped, include_columns=list(names))
                yield self._checked(pyarrow.csv.read_csv(pa.BufferReader(part), **options))
                n_skipped = 0

    def text_types(self, options: CsvOptions) -> dict[str, pa.DataType]:
        """Return the types of the columns that are text by request."""
        return {name: pa.string() for name in options.text if name in self.names}

    @property
    def _separator(self) -> str:
        """Separator of the text that Arrow reads."""
        return "\t" if self.dialect.separator == BLANKS else self.dialect.separator

    def _text(self) -> pa.NativeFile:
        return open_text(self.path, self.dialect.encoding, self.dialect.separator)

    def _options(
        self, types: Mapping[str, pa.DataType], n_skipped: int, **conversion: Any
    ) -> dict[str, Any]:
        return {
            "read_options": pyarrow.csv.ReadOptions(
                column_names=list(self.names), skip_rows_after_names=n_skipped
            ),
            "parse_options": pyarrow.csv.ParseOptions(
                delimiter=self._separator, newlines_in_values=True
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


@contextmanager
def _csv_errors(path: str | Path) -> Iterator[None]:
    """Turn errors of the body into a TableError that names the file."""
    with reading(path, csv_suffix(path)):
        try:
            yield
        except UnicodeDecodeError as error:
            raise ValueError(f"{error}; give another --encoding, or none") from error


def _codes(names: Sequence[str], records: Sequence[Sequence[str]]) -> dict[str, str]:
    """Return the columns with numbers that have leading zeros, and the first such number."""
    found: dict[str, str] = {}
    for record in records:
        for name, cell in zip(names, record, strict=False):  # a record may be broken
            if _CODE.fullmatch(cell):
                found.setdefault(name, cell)
    return found
