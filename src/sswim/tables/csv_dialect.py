"""The dialect of a CSV file: its separator, its decimal mark and its encoding.

A user may give them; else they are found in the first rows. The text of a file, compressed or not,
is cut into records and cells as they are written, with their quotes and line ends.
"""

from __future__ import annotations

import codecs
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from pathlib import Path

import pyarrow as pa

from sswim.base.validation import UserError
from sswim.tables.table import CSV_SUFFIXES, table_suffix

BLANKS = " "
"""Separator that stands for one or more blanks or tabs."""

SEPARATORS = {",": "','", ";": "';'", "\t": "tab", "|": "'|'", BLANKS: "blanks"}
"""Separators that are found by themselves, and how they are called in messages."""


@dataclass(frozen=True)
class CsvOptions:
    """How CSV files are read. Anything that is None is found by reading the first rows."""

    separator: str | None = None
    """One character between the cells; a blank stands for one or more blanks or tabs."""
    decimal: str | None = None
    """Decimal mark of numbers: a point or a comma."""
    encoding: str | None = None
    """Name of the encoding, such as ``utf-8`` or ``cp1252``."""
    header: bool | None = None
    """Whether the first line has the names of the columns."""
    keep_index: bool = False
    """Whether an unnamed first column that counts the rows is a column as any other."""
    text: tuple[str, ...] = ()
    """Columns whose cells are text, even if all of them look like numbers."""
    has_model: bool = False
    """Whether a model says which columns are used, so that nothing is decided about columns."""

    def for_model(self, text: Iterable[str]) -> CsvOptions:
        """Return the options for rows that a model reads.

        Args:
            text: Columns that the model reads as text.
        """
        return replace(self, has_model=True, text=(*self.text, *text))

    def __post_init__(self) -> None:
        mark = self.separator
        if mark is not None and (
            len(mark) != 1 or not mark.isascii() or mark.isalnum() or mark in '"\r\n'
        ):
            raise UserError(
                "A separator must be one character, and no letter, digit or quote. "
                f"Got {mark!r}; for example ',', ';' or a tab."
            )
        if self.decimal not in (None, ".", ","):
            raise UserError(f"The decimal mark must be '.' or ','. Got {self.decimal!r}.")
        try:
            "a".encode(self.encoding or "utf-8")
        except LookupError as error:
            raise UserError(
                "An encoding must be the name of one that Python knows. "
                f"Got {self.encoding!r}; for example 'utf-8', 'cp1252' or 'utf-16'."
            ) from error


AS_FOUND = CsvOptions()
"""Options that leave everything to what the first rows show."""


GZIP_RATIO = 6
"""Approximate size of a decompressed file relative to the compressed one."""

BLOCK_BYTES = 2**20
"""Number of bytes that are read at once."""

BOMS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
"""Encodings by the byte-order marks that files begin with."""


def is_csv(path: str | Path) -> bool:
    """Return whether a file name has a suffix of a CSV file."""
    return Path(path).name.lower().endswith(CSV_SUFFIXES)


def is_gzip(path: str | Path) -> bool:
    """Return whether a file name is that of a compressed file."""
    return Path(path).name.lower().endswith(".gz")


def text_size(path: str | Path) -> int:
    """Return the size of a file's text, which is estimated if the file is compressed."""
    return os.path.getsize(path) * (GZIP_RATIO if is_gzip(path) else 1)


def open_bytes(path: str | Path) -> pa.NativeFile:
    """Open a file, compressed or not, as a stream of the bytes of its text."""
    return pa.input_stream(str(path), compression="gzip" if is_gzip(path) else None)


def open_text(path: str | Path, encoding: str, separator: str = ",") -> pa.NativeFile:
    """Open a file as a stream of UTF-8 text; runs of blanks that separate cells become tabs."""
    stream = open_bytes(path)
    if not is_utf8(encoding):
        stream = pa.transcoding_input_stream(stream, encoding, "utf-8")
    return pa.TransformInputStream(stream, _with_tabs()) if separator == BLANKS else stream


def is_utf8(encoding: str) -> bool:
    """Return whether text in an encoding can be read as UTF-8 as it is."""
    return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig", "ascii")


def blocks(stream: pa.NativeFile) -> Iterator[bytes]:
    """Read a stream to its end."""
    return iter(lambda: stream.read(BLOCK_BYTES), b"")


def exact_encoding(path: str | Path, given: str) -> str:
    """Return the name of a given encoding that neither reads nor writes a byte-order mark."""
    name = codecs.lookup(given).name
    if name == "utf-8-sig":
        return "utf-8"
    if name not in ("utf-16", "utf-32"):
        return name
    with open_bytes(path) as stream:
        start = stream.read(4)
    big = {"utf-16": codecs.BOM_UTF16_BE, "utf-32": codecs.BOM_UTF32_BE}[name]
    return f"{name}-be" if start.startswith(big) else f"{name}-le"


def find_encoding(path: str | Path) -> str:
    """Return the encoding of a file.

    It is that of its byte-order mark if there is one, UTF-8 if the whole file is valid, and that of
    Windows in Western Europe otherwise. All of the file is read: one accent far down decides.
    """
    with open_bytes(path) as stream:
        start = stream.read(BLOCK_BYTES)
    for mark, encoding in BOMS.items():
        if start.startswith(mark):
            return encoding
    if b"\0" in start:  # UTF-16 of Western text, without a mark
        return "utf-16-le" if start[1::2].count(0) > start[::2].count(0) else "utf-16-be"
    valid = (encoding for encoding in ("utf-8", "cp1252") if _decodes(path, encoding))
    return next(valid, "latin-1")


def _decodes(path: str | Path, encoding: str) -> bool:
    """Return whether a file is valid in an encoding."""
    try:
        with open_bytes(path) as stream:
            deque(codecs.iterdecode(blocks(stream), encoding), maxlen=0)
    except UnicodeDecodeError:
        return False
    return True


def _with_tabs() -> Callable[[pa.Buffer], bytes]:
    """Return what puts one tab in the place of each run of blanks, in block after block of a text.

    The last block is empty.
    """
    rest = b""

    def transform(block: pa.Buffer) -> bytes:
        nonlocal rest
        lines = (rest + block.to_pybytes()).splitlines(keepends=True)
        rest = lines.pop() if lines and block.size else b""
        return b"".join(map(_tabbed_line, lines))

    return transform


def _tabbed_line(line: bytes) -> bytes:
    return b"\t".join(line.split()) + (b"\n" if line.endswith((b"\n", b"\r")) else b"")


_QUOTED = re.compile(rb'"((?:[^"]|"")*+)"(.*)', re.DOTALL)
"""A cell that begins with a quote: what is inside, and what follows."""


def split_records(blocks: Iterable[bytes], separator: str) -> Iterator[bytes]:
    """Cut text into records with their line ends, by the rules of Arrow's reader.

    A quote counts at the start of a cell only. Quoted cells may have line ends, which are part of
    the record. Empty lines are records of their own.

    Args:
        blocks: The text, in any encoding that has ASCII characters as single bytes.
        separator: Character between cells.
    """
    match = re.compile(_record(separator)).match
    rest = b""
    for block in blocks:
        rest += block
        start = 0
        while record := match(rest, start):
            if record.end() == len(rest) and rest.endswith(b"\r"):
                break  # the next block may begin with the other half of the line end
            yield record[0]
            start = record.end()
        rest = rest[start:]
    if rest:
        yield rest


def record_blocks(blocks: Iterable[bytes], separator: str, size: int) -> Iterator[bytes]:
    """Join text into blocks of whole records, of at least ``size`` bytes except the last."""
    many = re.compile(rb"(?:%s)*+" % _record(separator)).match
    rest = b""
    for block in blocks:
        rest += block
        if len(rest) < size or rest.endswith(b"\r"):  # the line end may be cut
            continue
        end = max(rest.rfind(b"\n"), rest.rfind(b"\r")) + 1
        if b'"' in rest:
            records = many(rest)
            assert records is not None  # it may be empty
            end = records.end()
        if end:
            yield rest[:end]
            rest = rest[end:]
    if rest:
        yield rest


def split_cells(record: bytes, separator: str) -> list[str]:
    """Return the cells of a record of UTF-8 text, without their quotes."""
    if separator == BLANKS:
        return [_unquoted(cell).decode() for cell in record.split()]
    text = without_line_end(record)
    return [_unquoted(text[start:end]).decode() for start, end in cell_spans(text, separator)]


def cell_spans(text: bytes, separator: str) -> Iterator[tuple[int, int]]:
    """Yield where each cell of a record without line end begins and ends, with its quotes."""
    match = re.compile(_cell(separator)).match
    start = 0
    while start <= len(text):
        cell = match(text, start)
        end = cell.end() if cell else len(text)  # the last quote may be open
        yield start, end
        start = end + len(separator)


def is_empty(record: bytes, separator: str) -> bool:
    """Return whether a record is an empty line, which is no row."""
    return not (record.strip() if separator == BLANKS else without_line_end(record))


def without_line_end(record: bytes) -> bytes:
    """Return a record without its line end; a file may end without one."""
    return re.sub(rb"(\r\n|\n|\r)\Z", b"", record)


def _unquoted(cell: bytes) -> bytes:
    if not (quoted := _QUOTED.fullmatch(cell)):
        return cell
    return quoted[1].replace(b'""', b'"') + quoted[2]


def _record(separator: str) -> bytes:
    if separator == BLANKS:
        return rb"[^\r\n]*+(?:\r\n|\n|\r)"
    cell = _cell(separator)
    return rb"%s(?:%s%s)*+(?:\r\n|\n|\r)" % (cell, re.escape(separator.encode()), cell)


def _cell(separator: str) -> bytes:
    plain = rb"[^%s\r\n]*+" % re.escape(separator.encode())
    return rb'(?:"[^"]*+(?:""[^"]*+)*+"%s|(?!")%s)' % (plain, plain)


HEAD_BYTES = 2**17
"""Number of bytes in which the dialect is looked for."""

HEAD_RECORDS = 1000
"""Maximum number of records in which the dialect is looked for."""

MIN_LINES = 10
"""Number of lines that are read even if they are long."""

MAX_HEAD_BYTES = 2**24
"""Number of bytes after which no more is read, however few lines these are."""

_EXPONENT = r"([eE][+-]?[0-9]+)?"

NUMBER = re.compile(rf"[+-]?([0-9]+[.,]?[0-9]*|[.,][0-9]+){_EXPONENT}")
"""A number with either decimal mark."""

_COMMA = re.compile(rf"[+-]?([0-9]*,[0-9]+|[1-9][0-9]{{0,2}}(\.[0-9]{{3}})+,[0-9]+){_EXPONENT}")
"""A number whose decimal mark is a comma, unless it groups thousands."""

_POINT = re.compile(rf"[+-]?([0-9]*\.[0-9]+|[1-9][0-9]{{0,2}}(,[0-9]{{3}})+\.[0-9]+){_EXPONENT}")
"""A number whose decimal mark is a point, unless it groups thousands."""

_EITHER = re.compile(r"[+-]?[1-9][0-9]{0,2}[.,][0-9]{3}")
"""A number whose mark may be a decimal mark or group thousands."""

_GROUPED = re.compile(r"[+-]?[1-9][0-9]{0,2}(,[0-9]{3}){2,}")
"""A whole number with groups of thousands."""


@dataclass(frozen=True)
class CsvDialect:
    """How the cells of a CSV file are separated and written."""

    separator: str = ","
    """Character between cells; a blank stands for one or more blanks or tabs."""
    decimal: str = "."
    encoding: str = "utf-8"

    def describe(self) -> str:
        """Return the dialect in words."""
        decimal = "comma" if self.decimal == "," else "point"
        separator = SEPARATORS.get(self.separator, repr(self.separator))
        return f"separator {separator}, decimal {decimal}, encoding {self.encoding}"


def sniff(
    path: str | Path, options: CsvOptions
) -> tuple[CsvDialect, list[tuple[str, ...]], int, bool, list[str]]:
    """Find the dialect of a file as far as the options do not say it.

    A comma and a decimal point are kept unless the first rows speak against them.

    Returns:
        The dialect, the cells of the first records, the number of empty lines before them, whether
        these are all records, and what the user should know, one line each.
    """
    given = options.encoding
    encoding = find_encoding(path) if given is None else exact_encoding(path, given)
    head, whole = _head(path, encoding)
    usual = "\t" if table_suffix(path).startswith(".tsv") else ","
    n_names = 0 if options.header is False else 1
    separator = options.separator or _find_separator(head, whole, usual, n_names)
    records = _records(head, whole, separator)
    decimal, doubt = _find_decimal(records[n_names:])
    dialect = CsvDialect(separator, options.decimal or decimal, encoding)
    notes = _notes(dialect, options, usual)
    if doubt and options.decimal is None:
        notes.append(doubt)
    lines = split_records([head], separator)
    n_empty = sum(1 for _ in takewhile(lambda line: is_empty(line, separator), lines))
    return dialect, records, n_empty, whole, notes


def _head(path: str | Path, encoding: str) -> tuple[bytes, bool]:
    """Return the start of a file as UTF-8 text, and whether it is all of the file."""
    with open_text(path, encoding) as stream:
        head = stream.read(HEAD_BYTES)
        while len(head) < MAX_HEAD_BYTES and head.count(b"\n") + head.count(b"\r") < MIN_LINES:
            if not (more := stream.read(HEAD_BYTES)):
                break
            head += more
        return head.removeprefix(codecs.BOM_UTF8), not stream.read(1)


def _records(head: bytes, whole: bool, separator: str) -> list[tuple[str, ...]]:
    """Return the cells of the first records, without empty lines and without one that is cut."""
    complete = (
        record
        for record in split_records([head], separator)
        if whole or record.endswith((b"\n", b"\r"))
    )
    filled = (record for record in complete if not is_empty(record, separator))
    return [tuple(split_cells(record, separator)) for record in islice(filled, HEAD_RECORDS)]


def _find_separator(head: bytes, whole: bool, usual: str, n_names: int) -> str:
    """Return the separator that gives all records the same number of cells, at least two.

    If there are several such separators, the one with most numbers is taken, and the usual one if
    this does not decide. If there is none, the file has one column, or it is broken.
    """
    others = (mark for mark in SEPARATORS if mark not in (usual, BLANKS))
    records = {mark: _records(head, whole, mark) for mark in (usual, *others)}
    if regular := [mark for mark, cells in records.items() if _is_regular(cells, n_names)]:
        return max(regular, key=lambda mark: _share_of_numbers(records[mark][n_names:]))
    if broken := [mark for mark, cells in records.items() if cells and len(cells[0]) > 1]:
        return broken[0]
    blanks = _records(head, whole, BLANKS)
    if _is_regular(blanks, n_names) and (
        has_short_header(blanks) or _share_of_numbers(blanks[n_names:]) == 1.0
    ):
        return BLANKS
    single = (mark for mark, cells in records.items() if {*map(len, cells)} == {1})
    return next(single, usual)


def has_short_header(records: Sequence[Sequence[str]]) -> bool:
    """Return whether the names lack one for the first column, as R writes the numbers of rows."""
    widths = {len(cells) for cells in records[1:]}
    return len(records) > 1 and len(records[0]) > 1 and widths == {len(records[0]) + 1}


def _is_regular(records: Sequence[Sequence[str]], n_names: int) -> bool:
    """Return whether all records have the same number of cells, at least two.

    The names may be one short.
    """
    if n_names and has_short_header(records):
        return True
    return len({len(cells) for cells in records}) == 1 and len(records[0]) > 1


def _share_of_numbers(records: Sequence[Sequence[str]]) -> float:
    """Return the share of cells that are numbers, 0 if there are no cells."""
    cells = [cell for record in records for cell in record]
    return sum(NUMBER.fullmatch(cell.strip()) is not None for cell in cells) / max(1, len(cells))


def _find_decimal(records: Sequence[Sequence[str]]) -> tuple[str, str]:
    """Return the decimal mark, and a note if it is in doubt.

    It is a comma only if some cells are numbers with one and none is a number with a point.
    """
    marked = [cell.strip() for record in records for cell in record if "," in cell or "." in cell]
    either = [cell for cell in marked if _EITHER.fullmatch(cell)]
    clear = [cell for cell in marked if not _EITHER.fullmatch(cell)]
    comma = next((cell for cell in clear if _COMMA.fullmatch(cell)), None)
    point = next(
        (cell for cell in clear if _POINT.fullmatch(cell) or _GROUPED.fullmatch(cell)), None
    )
    grouped = next((cell for cell in either if "," in cell), None)
    if comma and point:
        return ".", (
            f"Some numbers have a decimal comma, such as {comma!r}, and some a decimal point, such "
            f"as {point!r}. The point is taken; give --decimal if this is wrong."
        )
    if grouped and not comma and not point:
        return ".", (
            f"Commas in numbers such as {grouped!r} are taken to group thousands; give --decimal , "
            "if they are decimal commas."
        )
    return ("," if comma else "."), ""


def _notes(dialect: CsvDialect, options: CsvOptions, usual: str) -> list[str]:
    """Say what was found and is not usual."""
    unusual = {}
    if options.separator is None and dialect.separator != usual:
        unusual["separator"] = SEPARATORS[dialect.separator]
    if options.decimal is None and dialect.decimal != ".":
        unusual["decimal"] = "comma"
    if options.encoding is None and not is_utf8(dialect.encoding):
        unusual["encoding"] = dialect.encoding
    if not unusual:
        return []
    words = _join([f"{name} {value}" for name, value in unusual.items()], "and")
    names = _join([f"--{name}" for name in unusual], "or")
    return [f"Read with {words}; give {names} if this is wrong."]


def _join(words: Sequence[str], last: str) -> str:
    """Return words with commas and, before the last one, a word."""
    *others, end = words
    return f"{', '.join(others)} {last} {end}" if others else end
