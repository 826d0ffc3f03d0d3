"""The named data sets: where they come from, how they are prepared and split."""

from sswim.lab.datasets.catalogue import DATA_SETS
from sswim.lab.datasets.folders import find
from sswim.lab.datasets.named import Split, Table, load, split
from sswim.lab.datasets.synthetic import nonstationary_signal

__all__ = ["DATA_SETS", "Split", "Table", "find", "load", "nonstationary_signal", "split"]
