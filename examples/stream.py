"""Fit tables that are larger than memory, and rows that are generated while they are read.

Run ``python examples/stream.py``. It takes a few seconds and leaves no files: the table is a small
folder of Parquet files in a temporary folder. See docs/large-data.md.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float64
from rich.console import Console
from rich.table import Table

from sswim import Checkpoints, WarpedGPRegressor
from sswim.rows import IterableSource

Inputs = Float64[np.ndarray, "n 2"]
Targets = Float64[np.ndarray, " n"]

N_SHARDS, SHARD_ROWS = 7, 9_000
"""More rows than the 60,000 of a sample: a smaller table would be held whatever the memory."""

NAMES = ("east", "north")
NOISE = 0.1
SETTINGS: dict[str, Any] = {
    "depth": 0,
    "n_components": 64,
    "length_scale": 0.5,
    "max_iter": 10,
    "random_state": 0,
}
"""Settings of a small model, to keep the example short."""


def draw(seed: int) -> tuple[Inputs, Targets]:
    """Return the rows of a shard, always the same: waves that get shorter away from the middle."""
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, (SHARD_ROWS, 2))
    waves = np.sin(4 * x[:, 0] + 3 * x[:, 1] ** 2)
    return x, waves + NOISE * random.normal(size=SHARD_ROWS)


def as_table(x: Inputs) -> pa.Table:
    """Return inputs as a table with named columns."""
    return pa.table(dict(zip(NAMES, x.T, strict=True)))


def write_shards(folder: Path) -> None:
    """Write a table in several files."""
    folder.mkdir()
    for seed in range(N_SHARDS):
        x, y = draw(seed)
        table = as_table(x).append_column("height", pa.array(y))
        pq.write_table(table, folder / f"part-{seed:03}.parquet")


class Shards:
    """The rows of the table without files: every pass generates them again."""

    def __iter__(self) -> Iterator[tuple[Inputs, Targets]]:
        """Start a new pass over the shards."""
        return (draw(seed) for seed in range(N_SHARDS))


def fit_all(folder: Path) -> dict[str, WarpedGPRegressor]:
    """Fit the same model to the same rows, read in several ways."""
    table, checkpoint_folder = folder / "table", folder / "checkpoints"
    write_shards(table)
    source = IterableSource(Shards())
    source.names = NAMES  # without this the inputs have no names
    # A training that ends early, and is resumed by another fit.
    checkpoints = Checkpoints(checkpoint_folder, every=2)
    stopped = WarpedGPRegressor(**SETTINGS, callback=lambda member, step: step.index == 7)
    stopped.fit(table, "height", memory=0, checkpoints=checkpoints)
    resume = Checkpoints(checkpoint_folder, every=2, resume=True)
    models = {
        "a folder, held in memory": WarpedGPRegressor(**SETTINGS).fit(table, "height"),
        "a folder, streamed": WarpedGPRegressor(**SETTINGS).fit(table, "height", memory=0),
        "the same, resumed": WarpedGPRegressor(**SETTINGS).fit(
            table, "height", memory=0, checkpoints=resume
        ),
        "an iterable, streamed": WarpedGPRegressor(**SETTINGS).fit(source, memory="1MiB"),
    }
    resume.remove()
    return models


def main() -> None:
    """Fit the models and compare their predictions."""
    with tempfile.TemporaryDirectory() as folder:
        models = fit_all(Path(folder))
    x, y = draw(N_SHARDS)
    means = {name: np.asarray(model.predict(as_table(x))) for name, model in models.items()}
    first = next(iter(means.values()))
    title = f"{N_SHARDS * SHARD_ROWS:,} rows with noise of {NOISE}: errors and differences"
    table = Table(title=title, title_justify="left")
    for column in ("rows", "steps", "test RMSE", "difference"):
        table.add_column(column, justify="left" if column == "rows" else "right")
    for name, mean in means.items():
        error, difference = np.sqrt(np.mean((mean - y) ** 2)), np.abs(mean - first).max()
        table.add_row(name, str(models[name].n_iter_), f"{error:.4f}", f"{difference:.1e}")
    Console().print(table)


if __name__ == "__main__":
    main()
