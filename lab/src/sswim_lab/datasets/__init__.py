"""The named data sets: their sources, their preparation, and how they are split."""

from sswim_lab.datasets.catalogue import DATA_SETS, DataSet
from sswim_lab.datasets.download import FOLDER_VARIABLE, find
from sswim_lab.datasets.loading import Split, Table, load, split

__all__ = [
    "DATA_SETS",
    "FOLDER_VARIABLE",
    "DataSet",
    "Split",
    "Table",
    "find",
    "load",
    "split",
]
