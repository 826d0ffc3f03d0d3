"""Small data sets under real names, and methods that take no time."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from sswim.lab.bench.accuracy import Job, Row
from sswim.lab.bench.methods import METHODS
from sswim.lab.paper.catalogue import MAIN_METHODS, OUTPUT_WARP_METHODS
from sswim.lab.paper.request import Request
from sswim.lab.peers.bayesian_warp import WarpPrior
from sswim.lab.peers.protocol import Fitted, Gaussian

Array = NDArray[np.float64]


def rows(n: int = 150, seed: int = 0) -> tuple[Array, Array]:
    """Inputs on scales of their own, one of them constant, and a small noisy target."""
    random = np.random.default_rng(seed)
    x = random.uniform(-2, 2, (n, 2))
    y = 1e-4 * (np.sin(2 * x[:, 0]) + x[:, 1] + 0.2 * random.normal(size=n)) + 0.01
    return np.column_stack([x * [1, 1000], np.ones(n)]), y


def write_set(folder: Path, name: str = "airfoil", n: int = 150) -> None:
    x, y = rows(n)
    columns = {f"x{number}": values for number, values in enumerate(x.T)}
    pq.write_table(pa.table({**columns, "y": y}), folder / f"{name}.parquet")


@dataclass(frozen=True)
class MeanOnly:
    """Predicts the moments of the training targets; fails where it is told to."""

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
        return Moments(float(y.mean()) + self.offset, float(y.var()))


@dataclass(frozen=True)
class Moments:
    mean: float
    variance: float

    def predict(self, x: Array) -> Gaussian:
        return Gaussian(np.full(len(x), self.mean), np.full(len(x), self.variance))


def killed(job: Job, device: str, folder: str | None) -> Row:
    """In the place of a fit for which memory does not suffice."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def row(set_: str, method: str, repeat: int = 0, failure: str = "", /, **scores: float) -> Row:
    """A result of which only some scores matter."""
    values: dict[str, Any] = {
        **{"rmse": 1.0, "mnlp": 1.0, "mse_original": 1.0, "mnlp_original": 1.0},
        **{"coverage_90": 0.9, "fit_seconds": 0.1, "predict_seconds": 0.1},
        **(
            dict.fromkeys(("rmse", "mnlp", "mse_original", "mnlp_original"), nan) if failure else {}
        ),
        **scores,
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


def number(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


def warp_prior(amplitude: float = 0.8, length: float = 0.9, noise: float = 0.3) -> WarpPrior:
    log_amplitude, log_length, log_noise, log_width = (
        number(value).log() for value in (amplitude, length, noise, 10.0)
    )
    return WarpPrior(log_amplitude, log_length, log_noise, number(-5.0), log_width)


def skewed(n: int = 60, seed: int = 0) -> tuple[Array, Array]:
    """Log-normal targets, and a column that never varies."""
    random = np.random.default_rng(seed)
    x = random.uniform(-2, 2, n)
    y = np.exp(np.sin(2 * x) + 0.4 * random.normal(size=n))
    return np.column_stack([x, np.ones(n)]), y


def fake_methods(patch: pytest.MonkeyPatch, **others: MeanOnly) -> None:
    """Every method of the tables, and its small version; underscores stand for hyphens."""
    for number, name in enumerate(dict.fromkeys((*MAIN_METHODS, *OUTPUT_WARP_METHODS))):
        for variant in (name, f"{name}-quick"):
            patch.setitem(METHODS, variant, MeanOnly(offset=1e-6 * number))
    for name, method in others.items():
        patch.setitem(METHODS, name.replace("_", "-"), method)


def write_sets(folder: Path, *names: str) -> None:
    for name in names:
        write_set(folder, name, 1100)


def ask(place: Path, **others: Any) -> tuple[Request, list[str]]:
    """A request, and what it comes to say."""
    said: list[str] = []
    settings: dict[str, Any] = {"out": place / "out", "folder": str(place), "repeats": 2}
    return Request(notify=said.append, **(settings | others)), said
