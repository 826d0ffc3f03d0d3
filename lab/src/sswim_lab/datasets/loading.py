"""Loading named data sets, whole or split into training and test rows."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from jaxtyping import Float64

from sswim.base.validation import UserError
from sswim.tables import TableError, quote_names, read_table
from sswim_lab.datasets.catalogue import DataSet, data_set
from sswim_lab.datasets.download import FOLDER_VARIABLE, download, find

PROTOCOLS = ("paper",)


@dataclass(frozen=True)
class Table:
    """All rows of a data set after its preparation, not standardised."""

    x: Float64[np.ndarray, "N D"]
    y: Float64[np.ndarray, " N"]
    inputs: tuple[str, ...]
    target: str


@dataclass(frozen=True)
class Split:
    """Training and test rows of one repeat, not standardised."""

    train_x: Float64[np.ndarray, "N D"]
    train_y: Float64[np.ndarray, " N"]
    test_x: Float64[np.ndarray, "M D"]
    test_y: Float64[np.ndarray, " M"]


def load(name: str, folder: str | os.PathLike[str] | None = None) -> Table:
    """Return all rows of a data set.

    Args:
        name: One of ``DATA_SETS``.
        folder: The folder of ``name.parquet``; by default the folders listed in
            ``docs/data.md`` are searched, and the file is downloaded if it is in none.
    """
    values, names = _read(_find_or_download(name, folder), data_set(name))
    return Table(values[:, :-1], values[:, -1], tuple(names[:-1]), names[-1])


def split(
    name: str,
    repeat: int,
    folder: str | os.PathLike[str] | None = None,
    protocol: str = "paper",
) -> Split:
    """Return the rows of a repeat: the first of a random permutation train, the rest test.

    Args:
        name: One of ``DATA_SETS``.
        repeat: The seed of the permutation.
        folder: The folder of ``name.parquet``, as for ``load``.
        protocol: ``"paper"``: two thirds of the rows train, or the number in ``DATA_SETS``.
    """
    if protocol not in PROTOCOLS:
        raise UserError(f"A protocol must be one of {', '.join(PROTOCOLS)}. Got {protocol!r}.")
    path = _find_or_download(name, folder)
    values, _ = _read(path, data_set(name))
    n_train = data_set(name).n_train or round(2 * len(values) / 3)
    if not 0 < n_train < len(values):
        raise TableError(
            f"{str(path)!r} must have training and test rows. Got {len(values)} rows, of which "
            f"{n_train} would train."
        )
    order = np.random.RandomState(repeat).permutation(len(values))
    train, test = np.split(values[order], [n_train])
    return Split(train[:, :-1], train[:, -1], test[:, :-1], test[:, -1])


def _find_or_download(name: str, folder: str | os.PathLike[str] | None) -> Path:
    path = find(name, folder)
    if path is None and folder is not None:
        raise FileNotFoundError(
            f"{Path(folder) / name}.parquet does not exist. Give the folder of the data sets, or "
            f"set the environment variable {FOLDER_VARIABLE} to it."
        )
    return download(name) if path is None else path


def _read(path: Path, wanted: DataSet) -> tuple[Float64[np.ndarray, "N C"], list[str]]:
    """Return the prepared columns, the target last, and their names."""
    table = read_table(path)
    try:
        if incomplete := [name for name in table.column_names if table[name].null_count]:
            raise TableError(
                f"No value may be missing. Got missing values in {quote_names(incomplete)}."
            )
        table = wanted.prepare(table)
        return _to_array(table), table.column_names
    except (ValueError, pa.ArrowException) as error:
        raise TableError(f"{str(path)!r} is not a table of {wanted.name}: {error}") from error


def _to_array(table: pa.Table) -> Float64[np.ndarray, "N C"]:
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
