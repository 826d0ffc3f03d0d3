"""The dialect of a CSV file: its separator, its decimal mark and its encoding."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path

from sswim.tables.csv_options import BLANKS, SEPARATORS, CsvOptions, separator_words
from sswim.tables.csv_records import is_empty, line_end, split_cells, split_records
from sswim.tables.csv_text import csv_suffix, exact_encoding, find_encoding, is_utf8, open_text

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
        separator = separator_words(self.separator)
        return f"separator {separator}, decimal {decimal}, encoding {self.encoding}"


@dataclass(frozen=True)
class Sniffed:
    """What the first rows of a file show."""

    dialect: CsvDialect
    records: tuple[tuple[str, ...], ...]
    """Cells of the first records, of which the first may be a header."""
    n_empty: int
    """Number of empty lines before the first record."""
    is_whole: bool
    """Whether all of the file was read."""
    notes: tuple[str, ...]
    """What the user should know, one line each."""


def sniff(path: str | Path, options: CsvOptions) -> Sniffed:
    """Find the dialect of a file as far as the options do not say it.

    A comma and a decimal point are kept unless the first rows speak against them.
    """
    given = options.encoding
    encoding = find_encoding(path) if given is None else exact_encoding(path, given)
    head, whole = _head(path, encoding)
    usual = "\t" if csv_suffix(path).startswith(".tsv") else ","
    n_names = 0 if options.header is False else 1
    separator = options.separator or _find_separator(head, whole, usual, n_names)
    records = _records(head, whole, separator)
    decimal, doubt = _find_decimal(records[n_names:])
    dialect = CsvDialect(separator, options.decimal or decimal, encoding)
    notes = [*_notes(dialect, options, usual)]
    if doubt and options.decimal is None:
        notes.append(doubt)
    lines = split_records([head], separator)
    n_empty = sum(1 for _ in takewhile(lambda line: is_empty(line, separator), lines))
    return Sniffed(dialect, tuple(records), n_empty, whole, tuple(notes))


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
    complete = (record for record in split_records([head], separator) if whole or line_end(record))
    filled = (record for record in complete if not is_empty(record, separator))
    return [tuple(split_cells(record, separator)) for record in islice(filled, HEAD_RECORDS)]


def _find_separator(head: bytes, whole: bool, usual: str, n_names: int) -> str:
    """Return the separator that gives all records the same number of cells, at least two.

    If there are several such separators, the one with most numbers is taken, and the usual one if
    this does not decide. If there is none, the file has one column, or it is broken.
    """
    candidates = [usual, *(each for each in SEPARATORS if each not in (usual, BLANKS))]
    found = {each: _records(head, whole, each) for each in candidates}
    if regular := [each for each in candidates if _is_regular(found[each], n_names)]:
        return max(regular, key=lambda each: _share_of_numbers(found[each][n_names:]))
    if broken := [each for each in candidates if found[each] and len(found[each][0]) > 1]:
        return broken[0]
    blanks = _records(head, whole, BLANKS)
    if _is_regular(blanks, n_names) and (
        has_short_header(blanks) or _share_of_numbers(blanks[n_names:]) == 1.0
    ):
        return BLANKS
    single = (each for each in candidates if {len(cells) for cells in found[each]} == {1})
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


def _notes(dialect: CsvDialect, options: CsvOptions, usual: str) -> Iterator[str]:
    """Say what was found and is not usual."""
    found = []
    if options.separator is None and dialect.separator != usual:
        found.append(("separator", separator_words(dialect.separator)))
    if options.decimal is None and dialect.decimal != ".":
        found.append(("decimal", "comma"))
    if options.encoding is None and not is_utf8(dialect.encoding):
        found.append(("encoding", dialect.encoding))
    if found:
        words = _join([f"{name} {value}" for name, value in found], "and")
        names = _join([f"--{name}" for name, _ in found], "or")
        yield f"Read with {words}; give {names} if this is wrong."


def _join(words: Sequence[str], last: str) -> str:
    """Return words with commas and, before the last one, a word."""
    *others, end = words
    return f"{', '.join(others)} {last} {end}" if others else end
