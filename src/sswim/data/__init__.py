"""Data sets, and sources of rows that need not fit into memory."""

from sswim.data.array_source import ArraySource
from sswim.data.iterable_source import IterableSource
from sswim.data.named import DATA_SETS, Split, Table, find, load, split
from sswim.data.source import Chunk, Share, Source
from sswim.data.synthetic import nonstationary_signal

__all__ = [
    "DATA_SETS",
    "ArraySource",
    "Chunk",
    "IterableSource",
    "Share",
    "Source",
    "Split",
    "Table",
    "find",
    "load",
    "nonstationary_signal",
    "split",
]
