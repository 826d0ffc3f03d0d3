"""Small data sets, methods that take no time, and results for the tests of bench and paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.crps import Array
from sswim_lab.bench.accuracy import Row
from sswim_lab.bench.methods import METHODS
from sswim_lab.paper.command import MAIN_METHODS, OUTPUT_WARP_METHODS
from sswim_lab.paper.experiment import Request
from sswim_lab.paper.score_table import ScoreTable, make_table
from sswim_lab.peers.protocol import Fitted, Gaussian

from lab_builders.peers import rows


@dataclass(frozen=True)
class MeanOnly:
    """A method that predicts the moments of the training targets, and fails for some seeds."""

    fails_on: tuple[int, ...] = ()
    libraries: tuple[str, ...] = ("numpy",)
    max_rows: int | None = None
    offset: float = 0.0

    def settings(self) -> Mapping[str, Any]:
        return {"offset": self.offset}

    def device(self, wanted: str) -> str:
        return "cpu"

    def fit(self, x: Array, y: Array, seed: int, device: str) -> Fitted:
        if seed in self.fails_on:
            raise RuntimeError("no luck")
        return FittedMoments(float(y.mean()) + self.offset, float(y.var()))


@dataclass(frozen=True)
class FittedMoments:
    mean: float
    variance: float

    def predict(self, x: Array) -> Gaussian:
        return Gaussian(np.full(len(x), self.mean), np.full(len(x), self.variance))


def fake_methods(patch: pytest.MonkeyPatch, **others: MeanOnly) -> None:
    """Replace every method of the tables, and its quick version; underscores stand for hyphens."""
    for number, name in enumerate(dict.fromkeys((*MAIN_METHODS, *OUTPUT_WARP_METHODS))):
        for variant in (name, f"{name}-quick"):
            patch.setitem(METHODS, variant, MeanOnly(offset=1e-6 * number))
    for name, method in others.items():
        patch.setitem(METHODS, name.replace("_", "-"), method)


def write_set(folder: Path, name: str = "airfoil", n: int = 150) -> None:
    """Write a small data set under the name of a real one."""
    x, y = rows(n)
    columns = {f"x{number}": values for number, values in enumerate(x.T)}
    pq.write_table(pa.table({**columns, "y": y}), folder / f"{name}.parquet")


def write_sets(folder: Path, *names: str) -> None:
    for name in names:
        write_set(folder, name, 1100)


def experiment_folder(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    """Write two data sets, and replace the methods: dkl fails once, and svgp is left out."""
    fake_methods(patch, dkl=MeanOnly(fails_on=(1,)), svgp=MeanOnly(max_rows=700))
    write_sets(folder, "concrete", "supercond")
    return folder


def row(set_: str, method: str, repeat: int = 0, failure: str = "", /, **scores: float) -> Row:
    """A result with given scores; the others are one, or NaN for a failure, without a CRPS."""
    values: dict[str, Any] = {
        **dict.fromkeys(("rmse", "mnlp", "mse_original", "mnlp_original"), nan if failure else 1.0),
        **{"coverage_90": 0.9, "fit_seconds": 0.1, "predict_seconds": 0.1},
        **{name: float(value) for name, value in scores.items()},
    }
    return Row(
        set=set_,
        method=method,
        repeat=repeat,
        n_train=2,
        n_test=1,
        n_inputs=1,
        device="cpu",
        settings='{"text":"with, comma"}',
        version="sswim 0",
        failure=failure,
        **values,
    )


def make_request(place: Path, **others: Any) -> tuple[Request, list[str]]:
    """A request, and the list that its messages go to."""
    messages: list[str] = []
    settings: dict[str, Any] = {"out": place / "out", "folder": str(place), "repeats": 2}
    return Request(notify=messages.append, **(settings | others)), messages


SCORE_ROWS = (
    *(row("airfoil", "sswim1-paper", r, rmse=v, mnlp=0.2) for r, v in enumerate((0.2, 0.24))),
    row("airfoil", "sswim1-paper", 2, "RuntimeError: no luck"),
    row("airfoil", "dkl", 0, "OutOfMemoryError: too `much`"),
    row("airfoil", "svgp", 0, "left out: 1002 training rows are more than the 10 it is meant for"),
    row("airfoil", "sswim", rmse=0.21, mnlp=-0.5),
    row("bikeshare", "sswim1-paper", rmse=0.00042, mnlp=-9.0),
)
SCORE_SETS = ("airfoil", "bikeshare", "ct_slice")
SCORE_METHODS = ("sswim1-paper", "dkl", "svgp", "sswim")


def score_table() -> ScoreTable:
    """A table of means, failures and missing scores."""
    return make_table("A title", SCORE_ROWS, SCORE_SETS, SCORE_METHODS, ["A note."])


WIN_ROWS = (
    row("airfoil", "sswim", rmse=0.235, mnlp=0.2),  # reaches one cell, wins one
    row("airfoil", "lightgbm", rmse=0.24, mnlp=0.1),
    row("airfoil", "sswim-other", rmse=0.2, mnlp=0.05),  # reaches two, wins both
    row("ailerons", "sswim", mse_original=2.7e-8, mnlp_original=-7.5),  # reaches both, wins both
    row("ailerons", "lightgbm", mse_original=2.8e-8, mnlp_original=-7.4),
    row("ailerons", "exact-gp", mse_original=2.75e-8, mnlp_original=-7.45),
    row("creep", "sswim", mse_original=300.0, mnlp_original=4.0),  # no peer to compare with
)
"""Results on three data sets, with the wins that they make."""

CRPS_ROWS = (
    row("airfoil", "sswim", rmse=0.2, mnlp=0.1, crps=0.1, coverage_90=0.88),  # wins
    row("airfoil", "lightgbm", rmse=0.25, mnlp=0.2, crps=0.2),
    row("kin8nm", "sswim", rmse=0.302, mnlp=0.1, crps=0.004, coverage_90=0.95),  # near
    row("kin8nm", "lightgbm", rmse=0.3, mnlp=0.05, crps=0.005),
    row("kin8nm", "catboost", rmse=0.4, mnlp=0.3),  # by an older version, without a CRPS
    row("kin8nm", "ngboost", 0, "RuntimeError: no luck"),
    row("ailerons", "sswim", rmse=0.33, mnlp=0.3, crps=0.5, crps_original=5e-4),  # loses
    row("ailerons", "lightgbm", rmse=0.3, mnlp=0.2, crps=0.4, crps_original=4e-4),
    row("creep", "sswim", rmse=0.1, crps=0.1, crps_original=3.0),  # no peer with a CRPS
    row("creep", "lightgbm", rmse=0.01),
)
"""Results on four data sets, three of which have a CRPS to compare with."""
