"""Shared by the scripts: synthetic rows in Parquet files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def write_file(
    path: Path, random: np.random.Generator, n_rows: int, n_inputs: int, group_rows: int
) -> None:
    """Write rows of a smooth function with noise: inputs x0, x1, … and target y."""
    x = random.normal(size=(n_rows, n_inputs))
    y = np.sin(3 * x[:, 0]) * np.exp(x[:, 1] / 2) + 0.1 * random.normal(size=n_rows)
    columns = {f"x{column}": x[:, column] for column in range(n_inputs)} | {"y": y}
    pq.write_table(pa.table(columns), path, row_group_size=group_rows)
