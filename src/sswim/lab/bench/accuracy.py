"""One fit of the bench: a method, a data set and a repeat make a row of scores."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sswim.lab.bench.methods import require_method, versions
from sswim.lab.bench.stand_in import split_of
from sswim.lab.datasets.named import Split
from sswim.lab.peers.protocol import Predictive

COVERAGE = 0.9


@dataclass(frozen=True)
class Job:
    """A fit to do."""

    set: str
    method: str
    repeat: int

    def __str__(self) -> str:
        return f"{self.method} on {self.set}, repeat {self.repeat}"


@dataclass(frozen=True)
class Row:
    """What came of a fit. "Standardised" is by the training rows' mean and population spread."""

    set: str
    method: str
    repeat: int
    rmse: float
    """Root mean square error of the standardised target."""
    mnlp: float
    """Mean negative log probability of the standardised target, in nats."""
    mse_original: float
    mnlp_original: float
    coverage_90: float
    """The share of test targets within the central intervals of nominally 90 %."""
    fit_seconds: float
    predict_seconds: float
    """Of means and variances of the test rows."""
    n_train: int
    n_test: int
    n_inputs: int
    device: str
    settings: str
    """As JSON; what the method's page does not take for granted."""
    version: str
    failure: str = ""
    """What went wrong, if the fit came to nothing; the scores are not numbers then."""

    @property
    def job(self) -> Job:
        """The fit that it came of."""
        return Job(self.set, self.method, self.repeat)


def run_fit(job: Job, device: str, folder: str | None) -> Row:
    """Fit, predict and score."""
    method = require_method(job.method, job.set)  # imports before the clock starts
    rows = split_of(job.set, job.repeat, folder)
    device = method.device(device)
    torch.zeros(1, device=device)  # as does the device
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


def failed(job: Job, device: str, failure: str) -> Row:
    """The row of a fit that came to nothing; of its data nothing is known."""
    method = require_method(job.method, job.set)
    scores = ("rmse", "mnlp", "mse_original", "mnlp_original", "coverage_90")
    unknown: dict[str, Any] = dict.fromkeys(
        (*scores, "fit_seconds", "predict_seconds"), math.nan
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
    """The scores of a row, by their columns."""
    spread = float(rows.train_y.std())
    mse = float(np.mean(np.square(predictive.mean - rows.test_y)))
    mnlp = -float(np.mean(predictive.log_density(rows.test_y)))
    lower, upper = predictive.interval(COVERAGE)
    return {
        "rmse": mse**0.5 / spread,
        "mnlp": mnlp - float(np.log(spread)),
        "mse_original": mse,
        "mnlp_original": mnlp,
        "coverage_90": float(np.mean((lower <= rows.test_y) & (rows.test_y <= upper))),
    }


def _json(settings: Mapping[str, Any]) -> str:
    return json.dumps(dict(settings), separators=(",", ":"))
