"""One fit of the benchmark: a method, a data set and a repeat make one row of results."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from sswim_lab.bench.methods import require_method, versions
from sswim_lab.datasets import Split, split
from sswim_lab.peers.protocol import Predictive

COVERAGE = 0.9


@dataclass(frozen=True)
class Job:
    """A fit to run."""

    set: str
    method: str
    repeat: int

    def __str__(self) -> str:
        return f"{self.method} on {self.set}, repeat {self.repeat}"


@dataclass(frozen=True)
class Row:
    """The result of a fit, one row of the results file.

    A standardised target is centred by the mean of the training targets and divided by their
    population standard deviation.
    """

    set: str
    method: str
    repeat: int
    rmse: float
    """Root mean square error of the standardised target."""
    mnlp: float
    """Mean negative log probability of the standardised target, in nats."""
    mse_original: float
    """Mean square error of the target in its own unit."""
    mnlp_original: float
    """Mean negative log probability of the target in its own unit."""
    crps: float = field(default=math.nan, kw_only=True)
    """Mean continuous ranked probability score of the standardised target; NaN in old files."""
    crps_original: float = field(default=math.nan, kw_only=True)
    """Mean continuous ranked probability score of the target in its own unit."""
    coverage_90: float
    """Fraction of the test targets inside the central 90 % intervals."""
    fit_seconds: float
    predict_seconds: float
    """Seconds to predict means and variances of the test rows."""
    n_train: int
    n_test: int
    n_inputs: int
    device: str
    settings: str
    """JSON of the method's settings."""
    version: str
    failure: str = ""
    """Why the fit failed, empty if it did not; the scores of a failed fit are NaN."""

    @property
    def job(self) -> Job:
        """The job whose result this is."""
        return Job(self.set, self.method, self.repeat)


def run_fit(job: Job, device: str, folder: str | None) -> Row:
    """Fit, predict and score."""
    method = require_method(job.method, job.set)  # imports before the clock starts
    rows = load_split(job.set, job.repeat, folder)
    device = method.device(device)
    torch.zeros(1, device=device)  # starts the device before the clock starts
    began = time.perf_counter()
    fitted = method.fit(rows.train_x, rows.train_y, job.repeat, device)
    ended = time.perf_counter()
    predictive = fitted.predict(rows.test_x)
    predicted = time.perf_counter()
    scores: dict[str, Any] = {**score(predictive, rows)}
    if not np.isfinite(list(scores.values())).all():
        raise ArithmeticError(f"The scores must be finite. Got {scores}.")
    return Row(
        **vars(job),
        **scores,
        fit_seconds=round(ended - began, 4),
        predict_seconds=round(predicted - ended, 4),
        n_train=len(rows.train_y),
        n_test=len(rows.test_y),
        n_inputs=rows.train_x.shape[1],
        device=device,
        settings=_json(method.settings()),
        version=versions(method),
    )


def failed_row(job: Job, device: str, failure: str) -> Row:
    """Return the row of a fit that failed: no scores, and zero for the sizes of its data."""
    method = require_method(job.method, job.set)
    scores = ("rmse", "mnlp", "mse_original", "mnlp_original", "crps", "crps_original")
    unknown: dict[str, Any] = dict.fromkeys(
        (*scores, "coverage_90", "fit_seconds", "predict_seconds"), math.nan
    ) | dict.fromkeys(("n_train", "n_test", "n_inputs"), 0)
    return Row(
        **vars(job),
        **unknown,
        device=device,
        settings=_json(method.settings()),
        version=versions(method),
        failure=failure,
    )


def score(predictive: Predictive, rows: Split) -> dict[str, float]:
    """Return the scores of a row by the names of their columns."""
    spread = float(rows.train_y.std())
    mse = float(np.mean(np.square(predictive.mean - rows.test_y)))
    mnlp = -float(np.mean(predictive.log_density(rows.test_y)))
    crps = float(np.mean(predictive.crps(rows.test_y)))
    lower, upper = predictive.interval(COVERAGE)
    return {
        "rmse": mse**0.5 / spread,
        "mnlp": mnlp - float(np.log(spread)),
        "mse_original": mse,
        "mnlp_original": mnlp,
        "crps": crps / spread,
        "crps_original": crps,
        "coverage_90": float(np.mean((lower <= rows.test_y) & (rows.test_y <= upper))),
    }


def _json(settings: Mapping[str, Any]) -> str:
    return json.dumps(dict(settings), separators=(",", ":"))


SYNTHETIC = "synthetic"
"""Name of the synthetic data set."""
N_ROWS, N_TRAIN = 450, 300


def load_split(name: str, repeat: int, folder: str | None = None) -> Split:
    """Return the rows of one repeat of a named data set, or of the synthetic one."""
    return _synthetic_split(repeat) if name == SYNTHETIC else split(name, repeat, folder)


def _synthetic_split(repeat: int) -> Split:
    """Draw a wave that gets faster along one input and a slope along another, with noise."""
    random = np.random.default_rng(repeat)
    x = random.uniform(-2, 2, (N_ROWS, 3))
    y = np.sin(np.exp(x[:, 0])) + 0.5 * x[:, 1] + 0.1 * random.normal(size=N_ROWS)
    return Split(x[:N_TRAIN], y[:N_TRAIN], x[N_TRAIN:], y[N_TRAIN:])
