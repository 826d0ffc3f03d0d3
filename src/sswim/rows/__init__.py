"""Rows of data: where they come from, and how they are checked, standardised and summarised."""

from sswim.rows.rows import Measure, Rows, as_measure, as_rows
from sswim.rows.source import ArraySource, Chunk, IterableSource, Source

__all__ = [
    "ArraySource",
    "Chunk",
    "IterableSource",
    "Measure",
    "Rows",
    "Source",
    "as_measure",
    "as_rows",
]
