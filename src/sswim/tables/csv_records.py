"""The records of a CSV file as they are written: cells, quotes and line ends."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator

from sswim.tables.csv_options import BLANKS

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
    match = _pattern(separator).match
    rest = b""
    for block in blocks:
        rest += block
        start = 0
        while found := match(rest, start):
            if found.end() == len(rest) and rest.endswith(b"\r"):
                break  # the next block may begin with the other half of the line end
            yield found[0]
            start = found.end()
        rest = rest[start:]
    if rest:
        yield rest


def record_blocks(blocks: Iterable[bytes], separator: str, size: int) -> Iterator[bytes]:
    """Join text into blocks of whole records, of at least ``size`` bytes except the last."""
    many = _many(separator).match
    rest = b""
    for block in blocks:
        rest += block
        if len(rest) < size or rest.endswith(b"\r"):  # the line end may be cut
            continue
        end = max(rest.rfind(b"\n"), rest.rfind(b"\r")) + 1
        if b'"' in rest:
            found = many(rest)
            assert found is not None  # it may be empty
            end = found.end()
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
    start = 0
    while start <= len(text):
        found = _cell(separator).match(text, start)
        end = found.end() if found else len(text)  # the last quote may be open
        yield start, end
        start = end + len(separator)


def is_empty(record: bytes, separator: str) -> bool:
    """Return whether a record is an empty line, which is no row."""
    return not (record.strip() if separator == BLANKS else without_line_end(record))


def line_end(record: bytes) -> bytes:
    """Return the line end of a record, which is empty if the file ends without one."""
    if record.endswith(b"\n"):
        return b"\r\n" if record.endswith(b"\r\n") else b"\n"
    return b"\r" if record.endswith(b"\r") else b""


def without_line_end(record: bytes) -> bytes:
    """Return a record without its line end."""
    return record[: len(record) - len(line_end(record))]


def _unquoted(cell: bytes) -> bytes:
    if not (found := _QUOTED.fullmatch(cell)):
        return cell
    return found[1].replace(b'""', b'"') + found[2]


@functools.cache
def _pattern(separator: str) -> re.Pattern[bytes]:
    """Return the pattern of a record with its line end."""
    return re.compile(_record(separator))


@functools.cache
def _many(separator: str) -> re.Pattern[bytes]:
    """Return the pattern of as many records as there are."""
    return re.compile(rb"(?:%s)*+" % _record(separator))


@functools.cache
def _cell(separator: str) -> re.Pattern[bytes]:
    """Return the pattern of a cell."""
    return re.compile(_cell_text(separator))


def _record(separator: str) -> bytes:
    if separator == BLANKS:
        return rb"[^\r\n]*+(?:\r\n|\n|\r)"
    cell = _cell_text(separator)
    return rb"%s(?:%s%s)*+(?:\r\n|\n|\r)" % (cell, re.escape(separator.encode()), cell)


def _cell_text(separator: str) -> bytes:
    plain = rb"[^%s\r\n]*+" % re.escape(separator.encode())
    return rb'(?:"[^"]*+(?:""[^"]*+)*+"%s|(?!")%s)' % (plain, plain)
