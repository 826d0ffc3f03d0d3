"""Formulas in CSV files: text that a spreadsheet would run, made plain text by an apostrophe."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from sswim.tables.arrow_types import is_text
from sswim.tables.csv_options import BLANKS
from sswim.tables.csv_records import cell_spans

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
        return re.sub(rb"\S+", lambda found: plain_cell(found[0]), record)
    cells = [plain_cell(record[start:end]) for start, end in cell_spans(record, separator)]
    return separator.encode().join(cells)


def plain_cell(cell: bytes) -> bytes:
    """Return a cell, with its quotes if it has any, that is no formula."""
    found = _FORMULA.fullmatch(cell)
    if found is None or _PLAIN.fullmatch(found[2]):
        return cell
    start = found[1].find(b'"') + 1  # inside the quotes
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
