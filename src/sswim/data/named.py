"""The named real data sets, split and prepared as every comparison does it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Float64

FOLDER_VARIABLE = "SSWIM_DATA"
"""The environment variable that says where the Parquet files are."""


@dataclass(frozen=True)
class Split:
    """Training and test rows of one repeat, in their own units."""

    train_x: Float64[np.ndarray, "N D"]
    train_y: Float64[np.ndarray, " N"]
    test_x: Float64[np.ndarray, "M D"]
    test_y: Float64[np.ndarray, " M"]


def split(name: str, repeat: int, folder: str | os.PathLike[str] | None = None) -> Split:
    """The rows of a repeat: the first of a random permutation are for training.

    Args:
        name: One of ``DATA_SETS``.
        repeat: The seed of the permutation.
        folder: Where ``name.parquet`` is; by default what the variable SSWIM_DATA says.
    """
    if name not in DATA_SETS:
        raise ValueError(f"A data set must be one of {', '.join(DATA_SETS)}. Got {name!r}.")
    if folder is None:
        folder = os.environ.get(FOLDER_VARIABLE, ".")
    path = Path(folder) / f"{name}.parquet"
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is not there. Give the folder of the data sets, or name it in the "
            f"environment variable {FOLDER_VARIABLE}."
        )
    prepare, n_train = DATA_SETS[name]
    table = prepare(pq.read_table(path))
    values = np.column_stack(
        [column.to_numpy(zero_copy_only=False).astype(np.float64) for column in table.columns]
    )
    order = np.random.RandomState(repeat).permutation(len(values))
    train, test = np.split(values[order], [n_train or round(2 * len(values) / 3)])
    return Split(train[:, :-1], train[:, -1], test[:, :-1], test[:, -1])


def _as_it_is(table: pa.Table) -> pa.Table:
    return table


def _train_part(table: pa.Table) -> pa.Table:
    return table.filter(pc.equal(table["part"], "train")).drop_columns(["part"])


def _parkinsons(table: pa.Table) -> pa.Table:
    return table.drop_columns(["subject#", "age", "sex", "test_time", "motor_UPDRS"])


def _bikeshare(table: pa.Table) -> pa.Table:
    """Its inputs hold casual and registered, whose sum is the target."""
    days = pc.strptime(table["dteday"], format="%Y-%m-%d", unit="s").cast(pa.int64())
    position = table.column_names.index("dteday")
    return table.set_column(position, "dteday", days).drop_columns(["instant"])


def _abalone(table: pa.Table) -> pa.Table:
    """Sex as two columns of zeros and ones."""
    position = table.column_names.index("Sex")
    for level in ("M", "I"):
        column = pc.equal(table["Sex"], level).cast(pa.int8())
        table = table.add_column(position, f"Sex_{level}", column)
    return table.drop_columns(["Sex"])


def _protein(table: pa.Table) -> pa.Table:
    return table.set_column(
        table.num_columns - 1, "log(1 + RMSD)", pc.log1p(table[table.num_columns - 1])
    )


DATA_SETS: dict[str, tuple[Callable[[pa.Table], pa.Table], int | None]] = {
    "elevators": (_train_part, None),
    "airfoil": (_as_it_is, None),
    "concrete": (_as_it_is, None),
    "parkinsons": (_parkinsons, None),
    "bikeshare": (_bikeshare, None),
    "supercond": (_as_it_is, None),
    "protein": (_protein, None),
    "abalone": (_abalone, 1000),
    "creep": (_as_it_is, 800),
    "ailerons": (_train_part, 1003),
}
"""How the columns are prepared, the target last; and how many rows train, if not two thirds."""
