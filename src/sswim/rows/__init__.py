"""Rows of data: where they come from, and how they are checked, standardised and summarised."""

from sswim.rows.array_source import ArraySource
from sswim.rows.iterable_source import IterableSource
from sswim.rows.measure import Measure
from sswim.rows.rows import Rows, as_measure, as_rows
from sswim.rows.source import Chunk, Source

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
