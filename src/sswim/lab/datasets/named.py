"""The named real data sets, split and prepared as every comparison does it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from jaxtyping import Float64

from sswim.lab.datasets.catalogue import DATA_SETS, DataSet, data_set
from sswim.lab.datasets.download import download
from sswim.lab.datasets.folders import FOLDER_VARIABLE, find
from sswim.tables.table_io import TableError, quote_names, read_table

__all__ = ["DATA_SETS", "FOLDER_VARIABLE", "DataSet", "Split", "Table", "find", "load", "split"]

PROTOCOLS = ("paper",)


@dataclass(frozen=True)
class Table:
    """All rows of a data set after its preparation, in their own units."""

    x: Float64[np.ndarray, "N D"]
    y: Float64[np.ndarray, " N"]
    inputs: tuple[str, ...]
    target: str


@dataclass(frozen=True)
class Split:
    """Training and test rows of one repeat, in their own units."""

    train_x: Float64[np.ndarray, "N D"]
    train_y: Float64[np.ndarray, " N"]
    test_x: Float64[np.ndarray, "M D"]
    test_y: Float64[np.ndarray, " M"]


def load(name: str, folder: str | os.PathLike[str] | None = None) -> Table:
    """All rows of a data set.

    Args:
        name: One of ``DATA_SETS``.
        folder: Where ``name.parquet`` is; by default it is looked for in the folders that
            ``docs/data.md`` tells, and downloaded if it is in none.
    """
    values, names = _read(_path(name, folder), data_set(name))
    return Table(values[:, :-1], values[:, -1], tuple(names[:-1]), names[-1])


def split(
    name: str,
    repeat: int,
    folder: str | os.PathLike[str] | None = None,
    protocol: str = "paper",
) -> Split:
    """The rows of a repeat: the first of a random permutation are for training.

    Args:
        name: One of ``DATA_SETS``.
        repeat: The seed of the permutation.
        folder: As in ``load``.
        protocol: ``"paper"``: two thirds of the rows train, or as many as ``DATA_SETS`` says.
    """
    if protocol not in PROTOCOLS:
        raise ValueError(f"A protocol must be one of {', '.join(PROTOCOLS)}. Got {protocol!r}.")
    path = _path(name, folder)
    values, _ = _read(path, data_set(name))
    n_train = data_set(name).n_train or round(2 * len(values) / 3)
    if not 0 < n_train < len(values):
        raise TableError(
            f"{str(path)!r} must have rows to train and to test. Got {len(values)} rows, of which "
            f"{n_train} would train."
        )
    order = np.random.RandomState(repeat).permutation(len(values))
    train, test = np.split(values[order], [n_train])
    return Split(train[:, :-1], train[:, -1], test[:, :-1], test[:, -1])


def _path(name: str, folder: str | os.PathLike[str] | None) -> Path:
    path = find(name, folder)
    if path is None and folder is not None:
        raise FileNotFoundError(
            f"{Path(folder) / name}.parquet is not there. Give the folder of the data sets, or "
            f"name it in the environment variable {FOLDER_VARIABLE}."
        )
    return download(name) if path is None else path


def _read(path: Path, wanted: DataSet) -> tuple[Float64[np.ndarray, "N C"], list[str]]:
    """The prepared columns, the target last, and their names."""
    table = read_table(path)
    try:
        if gaps := [name for name in table.column_names if table[name].null_count]:
            raise TableError(f"No value may be missing. Got missing ones in {quote_names(gaps)}.")
        table = wanted.prepare(table)
        return _numbers(table), table.column_names
    except (ValueError, pa.ArrowException) as error:
        raise TableError(f"{str(path)!r} is not a table of {wanted.name}: {error}") from error


def _numbers(table: pa.Table) -> Float64[np.ndarray, "N C"]:
    if table.num_columns < 2:
        raise TableError(
            f"There must be an input and a target. Got columns {quote_names(table.column_names)}."
        )
    values = np.empty(table.shape)
    for position, name in enumerate(table.column_names):
        dtype = table.schema.field(name).type
        if not (pa.types.is_integer(dtype) or pa.types.is_floating(dtype)):
            raise TableError(f"Column {name!r} must hold numbers. Got type {dtype}.")
        values[:, position] = table[name].to_numpy()
        if n_infinite := int((~np.isfinite(values[:, position])).sum()):
            raise TableError(
                f"Numbers must be finite. Got {n_infinite} in column {name!r} that are not."
            )
    return values
