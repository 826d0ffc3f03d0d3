"""Copies of the files of a table, with further columns of numbers.

A CSV file is copied byte for byte: quotes, line ends, encoding and byte-order mark stay, and new
cells stand at the end of each record. Cells that a spreadsheet would run, formulas, become plain
text by an apostrophe, on request only.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Bool, Float64

from sswim.tables.csv_dialect import (
    BLANKS,
    CsvDialect,
    blocks,
    cell_spans,
    is_csv,
    is_empty,
    is_gzip,
    line_end,
    open_bytes,
    split_records,
)
from sswim.tables.csv_table import CsvFile, CsvTable
from sswim.tables.parquet_table import ParquetTable
from sswim.tables.table import ChunkedTable, TableError, reading
from sswim.tables.table_io import append_columns, table_suffix, writing
from sswim.tables.table_rows import keep_rows
from sswim.tables.values import is_text, without_string_view

_NUMBER = r"[+-]?(?:[0-9][0-9.,_ ]*|[.,][0-9]+)(?:[eE][+-]?[0-9]+)?%?"
"""A number as CSV files write it, which is no formula though it may begin with a sign."""

_FORMULA = re.compile(rb"(\s*\"?\s*)([=+\-@\t\r].*)", re.DOTALL)
"""A cell that a spreadsheet may take for a formula: what comes before, and the formula."""

_PLAIN = re.compile(rb"%s\"?\s*" % _NUMBER.encode())


def plain_record(record: bytes, separator: str) -> bytes:
    """Return a record of a CSV file whose text cells are no formulas; numbers stay.

    Args:
        record: The record, without its line end.
        separator: Character between its cells.
    """
    if separator == BLANKS:
        return re.sub(rb"\S+", lambda cell: plain_cell(cell[0]), record)
    cells = [plain_cell(record[start:end]) for start, end in cell_spans(record, separator)]
    return separator.encode().join(cells)


def plain_cell(cell: bytes) -> bytes:
    """Return a cell, with its quotes if it has any, that is no formula."""
    formula = _FORMULA.fullmatch(cell)
    if formula is None or _PLAIN.fullmatch(formula[2]):
        return cell
    start = formula[1].find(b'"') + 1  # inside the quotes
    return cell[:start] + b"'" + cell[start:]


def plain_name(name: str) -> str:
    """Return the name of a column that is no formula."""
    return plain_cell(name.encode()).decode()


def plain_table(table: pa.Table) -> pa.Table:
    """Return a table whose names and texts are no formulas."""
    for number, field in enumerate(table.schema):
        column = table.column(number)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if is_text(column.type):
            formula = pc.and_not(
                pc.match_substring_regex(column, r"^\s*[=+\-@\t\r]"),
                pc.match_substring_regex(column, f"^{_NUMBER}$"),
            )
            texts = column.cast(pa.large_string())
            mark, end = (pa.scalar(part, pa.large_string()) for part in ("'", ""))
            column = pc.if_else(formula, pc.binary_join_element_wise(mark, texts, end), texts)
        table = table.set_column(number, plain_name(field.name), column)
    return table


class CsvCopy:
    """A copy of a CSV file that is being written.

    Args:
        file: The file to copy.
        text: Its text in bytes, in which ASCII characters are single bytes.
        out: Where the copy is written.
        names: Names of the new columns.
        no_formulas: Whether cells that a spreadsheet would run become plain text.
    """

    def __init__(
        self,
        file: CsvFile,
        text: Iterator[bytes],
        out: pa.NativeFile,
        names: Sequence[str],
        no_formulas: bool = False,
    ) -> None:
        self._no_formulas = no_formulas
        self._file = file
        self._out = out
        self._names = names
        start = next(text, b"")
        mark = codecs.BOM_UTF8 if start.startswith(codecs.BOM_UTF8) else b""
        text = chain([start.removeprefix(mark)], text)
        self._records = split_records(text, file.dialect.separator)
        self._write([mark])
        if file.n_skipped:
            shown = [plain_name(name) for name in names] if no_formulas else names
            self._write(self._with_cells([_header_cells(shown, file.dialect)]))

    def append(
        self, kept: Bool[np.ndarray, " N"], columns: Mapping[str, Float64[np.ndarray, " n"]]
    ) -> None:
        """Copy the next rows.

        Args:
            kept: Whether each row becomes part of the copy.
            columns: Values of the new columns in the rows that do.
        """
        cells = _number_cells([columns[name] for name in self._names], self._file.dialect)
        more = [next(cells) if is_kept else None for is_kept in kept.tolist()]
        self._write(self._with_cells(more))

    def finish(self) -> None:
        """Copy what follows the last row: nothing but empty lines."""
        rest = list(self._records)
        if not all(is_empty(record, self._file.dialect.separator) for record in rest):
            raise self._changed("more")
        self._write(rest)

    def _with_cells(self, cells: Iterable[bytes | None]) -> Iterator[bytes]:
        """Return the next records with new cells; those whose cells are None are left out."""
        separator = self._file.dialect.separator
        for more in cells:
            for record in self._records:
                end = line_end(record)
                body = record[: len(record) - len(end)]
                if body.strip() if separator == BLANKS else body:
                    break
                yield record
            else:
                raise self._changed("fewer")
            if more is not None:
                yield (plain_record(body, separator) if self._no_formulas else body) + more + end

    def _changed(self, how: str) -> TableError:
        return TableError(
            "A file must not change while its rows are copied. "
            f"Got {how} rows than before in {self._file.path!r}; try again."
        )

    def _write(self, records: Iterable[bytes]) -> None:
        text = b"".join(records)
        encoding = self._file.dialect.encoding
        self._out.write(text if _keeps_ascii(encoding) else text.decode().encode(encoding))


def _raw_text(source: pa.NativeFile, dialect: CsvDialect) -> Iterator[bytes]:
    """Return the bytes of a file if its ASCII characters are single bytes; otherwise UTF-8."""
    if _keeps_ascii(dialect.encoding):
        yield from blocks(source)
        return
    decoder = codecs.getincrementaldecoder(dialect.encoding)()
    for block in blocks(source):
        yield decoder.decode(block).encode()


def _keeps_ascii(encoding: str) -> bool:
    """Return whether ASCII characters are single bytes, as everywhere except in UTF-16 and -32."""
    ascii_bytes = bytes(range(128))
    return ascii_bytes.decode(encoding, "replace") == ascii_bytes.decode("ascii")


def _header_cells(names: Sequence[str], dialect: CsvDialect) -> bytes:
    """Return names as cells, each after a separator."""
    try:
        encoding = dialect.encoding if _keeps_ascii(dialect.encoding) else "utf-8"
        return "".join(dialect.separator + _quoted(name, dialect) for name in names).encode(
            encoding
        )
    except UnicodeEncodeError as error:
        raise TableError(
            f"Names must have letters of the encoding {dialect.encoding} of the file only. "
            f"Got {error.object[error.start : error.end]!r}; choose other names with --prefix."
        ) from error


def _number_cells(
    columns: Sequence[Float64[np.ndarray, " n"]], dialect: CsvDialect
) -> Iterator[bytes]:
    """Return the numbers of each row as cells, each after a separator."""
    texts = [pa.array(column).cast(pa.string()) for column in columns]
    texts = [pc.replace_substring(text, ".", dialect.decimal) for text in texts]
    quote = '"' if dialect.separator in (dialect.decimal, "-", "+") else ""
    joined = pc.binary_join_element_wise(*texts, f"{quote}{dialect.separator}{quote}")
    start = f"{dialect.separator}{quote}".encode()
    return (start + row.encode() + quote.encode() for row in joined.to_pylist())


def _quoted(cell: str, dialect: CsvDialect) -> str:
    """Return a cell in quotes if it needs them."""
    if not any(mark in cell for mark in (dialect.separator, '"', "\n", "\r")):
        return cell
    return '"' + cell.replace('"', '""') + '"'


@dataclass(frozen=True)
class FileTable:
    """One file of a table."""

    path: str
    table: ChunkedTable
    """Rows of the file."""
    whole: ChunkedTable
    """The table that the file is a part of."""

    def as_written(self) -> ChunkedTable:
        """Return the columns that the file itself has, with types that lose nothing of them.

        Hive partition columns, which are in the names of folders, are not among them.
        """
        if isinstance(self.table, CsvTable) and isinstance(self.whole, CsvTable):
            (file,) = self.table.files
            types = self.whole.written_types  # the same for all files
            return replace(
                self.table, schema=pa.schema([(name, types[name]) for name in file.names])
            )
        if isinstance(self.table, ParquetTable):
            with reading(self.path, table_suffix(self.path)):
                schema = pq.read_schema(self.path)
            fields = [field.with_type(without_string_view(field.type)) for field in schema]
            return replace(self.table, schema=pa.schema(fields, schema.metadata))
        return self.table


def split_by_file(table: ChunkedTable) -> list[FileTable]:
    """Return all files of a table, in order."""
    if isinstance(table, ParquetTable):
        return [
            FileTable(file.path, replace(table, files=(replace(file, first=0),)), table)
            for file in table.files
        ]
    if isinstance(table, CsvTable):
        return [
            FileTable(file.path, replace(table, files=(file,), file_rows=(n_rows,)), table)
            for file, n_rows in zip(table.files, table.file_rows, strict=True)
        ]
    return [FileTable(table.name, table, table)]


def require_copy(source: str | Path, out: str | Path) -> None:
    """Raise unless a file can be copied in chunks: CSV to any format, others to Parquet."""
    if table_suffix(out) != ".parquet" and not is_csv(source):
        raise TableError(
            "Predictions of a table that is read in chunks must be written to a .parquet file, "
            f"unless it is a CSV file. Got {str(out)!r}."
        )


@contextmanager
def copy_file(
    file: FileTable, out: str | Path, names: Sequence[str], *, no_formulas: bool = False
) -> Iterator[CsvCopy | TypedCopy]:
    """Write a copy of a file; an older file is replaced when the copy is complete.

    Args:
        file: The file to copy.
        out: The file to write. If both are CSV files, the bytes of the first are kept.
        names: Names of the new columns.
        no_formulas: Whether cells of a CSV file that a spreadsheet would run become plain text.
    """
    with writing(out) as temporary, ExitStack() as stack:
        if isinstance(file.table, CsvTable) and is_csv(out):
            (source,) = file.table.files
            text = stack.enter_context(open_bytes(source.path))
            compression = "gzip" if is_gzip(out) else None
            target = stack.enter_context(pa.output_stream(temporary, compression=compression))
            copy = CsvCopy(source, _raw_text(text, source.dialect), target, names, no_formulas)
            yield copy
            copy.finish()
            return
        table = file.as_written()
        empty = append_columns(table.schema.empty_table(), {name: np.empty(0) for name in names})
        stream = stack.enter_context(pa.OSFile(temporary, "wb"))
        open_writer = pq.ParquetWriter if table_suffix(out) == ".parquet" else pa.ipc.new_file
        yield TypedCopy(table, empty.schema, stack.enter_context(open_writer(stream, empty.schema)))


class TypedCopy:
    """A copy in a file whose columns have types.

    Args:
        table: The table to copy.
        schema: Columns of the copy.
        writer: Writer of a Parquet or Arrow file.
    """

    def __init__(self, table: ChunkedTable, schema: pa.Schema, writer: Any) -> None:
        self._chunks = (chunk.table for chunk in table.chunks(table.schema.names))
        self._rest: pa.Table | None = None
        self._schema = schema
        self._writer = writer

    def append(
        self, kept: Bool[np.ndarray, " N"], columns: Mapping[str, Float64[np.ndarray, " n"]]
    ) -> None:
        """Copy the next rows."""
        table = append_columns(keep_rows(self._take(len(kept)), kept), columns)
        if table.num_rows:
            self._writer.write_table(table.cast(self._schema))

    def _take(self, n_rows: int) -> pa.Table:
        """Return the next rows, whose chunks may have other sizes."""
        parts: list[pa.Table] = []
        while n_rows > 0:
            rest = next(self._chunks) if self._rest is None else self._rest
            parts.append(rest.slice(0, n_rows))
            n_rows -= parts[-1].num_rows
            rest = rest.slice(parts[-1].num_rows)
            self._rest = rest if rest.num_rows else None
        return pa.concat_tables(parts)
