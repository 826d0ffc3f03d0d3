"""Copies of the files of a table, with further columns of numbers.

A CSV file is copied byte for byte: quotes, line ends, encoding and byte-order mark stay, and new
cells stand at the end of each record. Cells that a spreadsheet would run, formulas, become plain
text by an apostrophe, on request only.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

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
    open_bytes,
    open_text,
    split_records,
    without_line_end,
)
from sswim.tables.csv_table import CsvFile, CsvTable
from sswim.tables.table import TableError, table_suffix
from sswim.tables.table_io import ChunkedTable, append_columns, writing
from sswim.tables.table_source import keep_rows
from sswim.tables.values import is_text

NewCells = tuple[Bool[np.ndarray, " _"], Mapping[str, Float64[np.ndarray, " _"]]]
"""Which rows are kept, and the values of new columns in these."""

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


def copy_file(
    table: ChunkedTable,
    out: str | Path,
    names: Sequence[str],
    rows: Iterable[NewCells],
    *,
    no_formulas: bool = False,
) -> Iterator[None]:
    """Write a copy of a file; an older file is replaced when the copy is complete.

    Args:
        table: The file to copy.
        out: The file to write. If both are CSV files, the bytes of the first are kept.
        names: Names of the new columns.
        rows: For rows of the file, in order: which of them are kept, and the new cells of these.
        no_formulas: Whether cells of a CSV file that a spreadsheet would run become plain text.

    Yields:
        Nothing, after each run of rows.
    """
    with writing(out) as temporary:
        if isinstance(table, CsvTable) and is_csv(out):
            compression = "gzip" if is_gzip(out) else None
            with pa.output_stream(temporary, compression=compression) as stream:
                for text in _csv_copy(table.files[0], names, rows, no_formulas):
                    stream.write(text)
                    yield
            return
        table = table.as_written()
        empty = append_columns(table.schema.empty_table(), {name: np.empty(0) for name in names})
        open_writer = pq.ParquetWriter if table_suffix(out) == ".parquet" else pa.ipc.new_file
        chunks = table.chunks(table.schema.names)
        rest = table.schema.empty_table()
        with pa.OSFile(temporary, "wb") as stream, open_writer(stream, empty.schema) as writer:
            for kept, columns in rows:
                while rest.num_rows < len(kept):  # chunks of all columns may be smaller
                    rest = pa.concat_tables([rest, next(chunks).table.cast(table.schema)])
                more = append_columns(keep_rows(rest.slice(0, len(kept)), kept), columns)
                rest = rest.slice(len(kept))
                if more.num_rows:
                    writer.write_table(more.cast(empty.schema))
                yield


def _csv_copy(
    file: CsvFile, names: Sequence[str], rows: Iterable[NewCells], no_formulas: bool
) -> Iterator[bytes]:
    """Return the text of a CSV file, with new cells at the end of its records."""
    dialect, separator = file.dialect, file.dialect.separator
    encoding = "utf-8" if (keeps_ascii := _keeps_ascii(dialect.encoding)) else dialect.encoding

    def with_cells(cells: Iterable[bytes | None]) -> Iterator[bytes]:
        """Return the next records with new cells; those whose cells are None are left out."""
        for more in cells:
            for record in records:
                if not is_empty(record, separator):
                    break
                yield record
            else:
                raise _changed(file, "fewer")
            if more is not None:
                body = without_line_end(record)
                end = record[len(body) :]
                yield (plain_record(body, separator) if no_formulas else body) + more + end

    def joined(records: Iterable[bytes]) -> bytes:
        text = b"".join(records)
        return text if keeps_ascii else text.decode().encode(encoding)

    with open_bytes(file.path) if keeps_ascii else open_text(file.path, encoding) as source:
        text = blocks(source)
        start = next(text, b"")
        mark = codecs.BOM_UTF8 if start.startswith(codecs.BOM_UTF8) else b""
        records = split_records(chain([start.removeprefix(mark)], text), separator)
        head = [mark]
        if file.n_skipped:
            shown = [plain_name(name) for name in names] if no_formulas else names
            head += with_cells([_header_cells(shown, dialect)])
        yield joined(head)
        for kept, columns in rows:
            cells = _number_cells([columns[name] for name in names], dialect)
            yield joined(with_cells(next(cells) if is_kept else None for is_kept in kept.tolist()))
        rest = list(records)
        if not all(is_empty(record, separator) for record in rest):
            raise _changed(file, "more")
        yield joined(rest)


def _changed(file: CsvFile, how: str) -> TableError:
    return TableError(
        "A file must not change while its rows are copied. "
        f"Got {how} rows than before in {file.path!r}; try again."
    )


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


def require_copy(source: str | Path, out: str | Path) -> None:
    """Raise unless a file can be copied in chunks: CSV to any format, others to Parquet."""
    if table_suffix(out) != ".parquet" and not is_csv(source):
        raise TableError(
            "Predictions of a table that is read in chunks must be written to a .parquet file, "
            f"unless it is a CSV file. Got {str(out)!r}."
        )
