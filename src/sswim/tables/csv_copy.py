"""Copies of CSV files with further cells at the end of each record.

All that a file has is copied byte for byte: quotes, line ends, encoding and byte-order mark. Cells
that a spreadsheet would run are changed on request only.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float64

from sswim.base.files import atomic_write
from sswim.tables.csv_dialect import CsvDialect
from sswim.tables.csv_file import CsvFile
from sswim.tables.csv_options import BLANKS
from sswim.tables.csv_records import is_empty, line_end, split_records
from sswim.tables.csv_text import blocks, is_gzip, open_bytes
from sswim.tables.formulas import plain_name, plain_record
from sswim.tables.table_errors import TableError


@contextmanager
def copy_csv(
    file: CsvFile, out: str | Path, names: Sequence[str], *, no_formulas: bool = False
) -> Iterator[CsvCopy]:
    """Write a copy of a CSV file with new columns; on failure an older file is kept.

    Args:
        file: The file to copy.
        out: The file to write. It is compressed if its name ends in ``.gz``.
        names: Names of the new columns.
        no_formulas: Whether cells that a spreadsheet would run become plain text; else all that the
            file has stays byte for byte.
    """
    compression = "gzip" if is_gzip(out) else None
    try:
        with (
            open_bytes(file.path) as source,
            atomic_write(out) as temporary,
            pa.output_stream(str(temporary), compression=compression) as target,
        ):
            copy = CsvCopy(file, _raw_text(source, file.dialect), target, names, no_formulas)
            yield copy
            copy.finish()
    except (OSError, pa.ArrowException) as error:
        raise TableError(f"The table cannot be written to {str(out)!r}: {error}") from error


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
        self._write(self._with_cells([next(cells) if each else None for each in kept.tolist()]))

    def finish(self) -> None:
        """Copy what follows the last row: nothing but empty lines."""
        rest = list(self._records)
        if not all(is_empty(record, self._file.dialect.separator) for record in rest):
            raise self._changed("more")
        self._write(rest)

    def _with_cells(self, cells: Iterable[bytes | None]) -> Iterator[bytes]:
        """Return the next records with new cells; those whose cells are None are left out."""
        separator = self._file.dialect.separator
        for each in cells:
            for record in self._records:
                end = line_end(record)
                body = record[: len(record) - len(end)]
                if body.strip() if separator == BLANKS else body:
                    break
                yield record
            else:
                raise self._changed("fewer")
            if each is not None:
                yield (plain_record(body, separator) if self._no_formulas else body) + each + end

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
    texts = [pc.replace_substring(each, ".", dialect.decimal) for each in texts]
    quote = '"' if dialect.separator in (dialect.decimal, "-", "+") else ""
    joined = pc.binary_join_element_wise(*texts, f"{quote}{dialect.separator}{quote}")
    start = f"{dialect.separator}{quote}".encode()
    return (start + row.encode() + quote.encode() for row in joined.to_pylist())


def _quoted(cell: str, dialect: CsvDialect) -> str:
    """Return a cell in quotes if it needs them."""
    if not any(mark in cell for mark in (dialect.separator, '"', "\n", "\r")):
        return cell
    return '"' + cell.replace('"', '""') + '"'
