"""Data sets."""

from sswim.data.named import DATA_SETS, Split, Table, find, load, split
from sswim.data.synthetic import nonstationary_signal

__all__ = ["DATA_SETS", "Split", "Table", "find", "load", "nonstationary_signal", "split"]
