"""Python and the command line fit the same model, whatever form a table has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from builders.commands import FAST, succeed

from sswim import load
from sswim.estimator import make_estimator
from sswim.estimator.model_file import MODEL
from sswim.tables import read_table, write_table

N_ROWS = 300
SETTINGS = {"depth": 1, "max_iter": 3, "n_components": 16, "n_pseudo": 4, "random_state": 0}
"""The settings of ``FAST``."""


def rows() -> pa.Table:
    """Return a table with missing values, and every kind of column that CSV can hold."""
    random = np.random.default_rng(0)
    number = np.arange(N_ROWS)
    x = random.normal(size=N_ROWS)
    codes = random.integers(90, size=N_ROWS)

    def column(values: Any, every: int, dtype: pa.DataType | None = None) -> pa.Array:
        return pa.array(values, dtype, mask=number % every == 1)

    return pa.table(
        {
            "y": np.sin(x) + codes / 30 + 0.1 * random.normal(size=N_ROWS),
            "x": column(x, 5),
            "n": column(random.integers(100, size=N_ROWS), 7),
            "truth": pa.array(random.random(N_ROWS) < 0.3),
            "colour": column(random.choice(["red", "green", "blue"], N_ROWS), 11),
            "street": column([f"street {code}" for code in codes], 13),
            "day": column(18_000 + number, 17, pa.int32()).cast(pa.date32()),
            "when": pa.array(1_500_000_000 + 7000 * number, pa.timestamp("s")),
            "height": column([f"{each:.2f}" for each in x], 19),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the same table as Parquet, CSV and Arrow file."""
    folder: Path = tmp_path_factory.mktemp("tables")
    for suffix in ("parquet", "csv", "arrow"):
        write_table(rows(), folder / f"t.{suffix}")
    return folder


def fit_command(path: Path, out: Path) -> Path:
    succeed("fit", path, "--target", "y", "--out", out, *FAST)
    return out


@pytest.fixture(scope="module")
def model(folder: Path) -> Path:
    """The model that the command line fits to the Parquet file."""
    return fit_command(folder / "t.parquet", folder / "command.sswim")


FORMS: dict[str, Callable[[Path], Any]] = {
    "path of CSV": lambda folder: str(folder / "t.csv"),
    "pandas of Parquet": lambda folder: pd.read_parquet(folder / "t.parquet"),
    "pandas with Arrow types": lambda folder: pd.read_parquet(
        folder / "t.parquet", dtype_backend="pyarrow"
    ),
    "pandas of CSV with dates": lambda folder: pd.read_csv(
        folder / "t.csv", parse_dates=["day", "when"]
    ),
    "polars of CSV": lambda folder: pl.read_csv(folder / "t.csv", try_parse_dates=True),
}
"""The table in every form that Python takes."""


def assert_same(ours: Path, theirs: Path) -> None:
    """Compare two model files: all tensors to the last bit, and the names of columns and inputs."""
    (mine, content), (yours, other) = MODEL.read(ours), MODEL.read(theirs)
    assert mine.keys() == yours.keys()
    different = [name for name in mine if not torch.equal(mine[name], yours[name])]
    assert different == []
    for part in ("columns", "inputs", "history"):
        assert content[part] == other[part]


@pytest.mark.filterwarnings("ignore::sswim.tables.table_source.TableNote")
@pytest.mark.parametrize("form", FORMS)
def test_python_fits_the_model_of_the_command_line(
    form: str, folder: Path, model: Path, tmp_path: Path
) -> None:
    X = FORMS[form](folder)
    regressor = make_estimator(**SETTINGS).fit(X, "y")
    regressor.save(tmp_path / "python.sswim")
    assert_same(tmp_path / "python.sswim", model)
    expected = load(model).predict(read_table(folder / "t.parquet"))
    assert np.array_equal(regressor.predict(X), expected)


@pytest.mark.parametrize("suffix", ["parquet", "csv", "arrow"])
def test_the_command_line_fits_and_predicts_the_same_in_every_format(
    suffix: str, folder: Path, model: Path, tmp_path: Path
) -> None:
    source, out = folder / f"t.{suffix}", tmp_path / "out.parquet"
    assert_same(fit_command(source, tmp_path / "m.sswim"), model)
    succeed("predict", model, source, "--out", out)
    found = [read_table(out)[name].to_numpy() for name in ("mean", "std")]
    assert np.array_equal(found, load(model).predict(source, return_std=True))
