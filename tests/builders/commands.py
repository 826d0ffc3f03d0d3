"""Running the command ``sswim`` in this process or in one of its own; a table and its model."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from typer.testing import CliRunner, Result

from sswim.cli.app import app

FAST = (
    *("--depth", "1", "--max-iter", "3", "--n-components", "16", "--n-pseudo", "4"),
    *("--random-state", "0", "--no-verbose"),
)
"""Options of a fit that takes no time."""

TINY = ("--depth=0", "--n-components=16", "--max-iter=2", "--random-state=0", "--no-verbose")
"""Options of one without warps, which is faster yet."""


def invoke(*arguments: str | Path) -> Result:
    """Run a command; an error that would show a traceback is raised."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def succeed(*arguments: str | Path) -> Result:
    """Run a command that must end well."""
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    return result


def refuse(*arguments: str | Path) -> str:
    """Run a command that must be refused; return what it says, as one line."""
    result = invoke(*arguments)
    assert result.exit_code == 1, result.output
    assert "Traceback" not in result.stderr
    return " ".join(result.stderr.split())


def run_command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own."""
    return run_python("-m", "sswim", *map(str, arguments))


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with some arguments, on one core."""
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def prices(n: int = 60) -> pa.Table:
    """Return a table with an identifier, a number, a category and a target."""
    random = np.random.default_rng(0)
    x = random.uniform(-2, 2, n)
    colour = random.choice(["red", "green", "blue"], n)
    return pa.table(
        {
            "id": np.arange(n),
            "x": x,
            "colour": colour,
            "price": np.sin(2 * x) + (colour == "red") + 0.1 * random.normal(size=n),
        }
    )


def write_prices(folder: Path) -> Path:
    """Write the table of prices into a folder."""
    path = folder / "table.parquet"
    pq.write_table(prices(), path)
    return path


def fit_prices(table: Path, out: Path, *options: str) -> Result:
    """Run ``sswim fit`` on a table of prices."""
    places: list[str | Path] = [table, "--out", out]
    return invoke("fit", *places, "--target", "price", "--drop", "id", *FAST, *options)


@functools.cache
def _price_model() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "model.sswim"
        result = fit_prices(write_prices(Path(folder)), out)
        assert result.exit_code == 0, result.output
        return out.read_bytes()


def write_price_model(folder: Path) -> Path:
    """Write a model of prices into a folder; it is fitted once."""
    path = folder / "model.sswim"
    path.write_bytes(_price_model())
    return path
