"""Test scores at every step of training: does the published method overfit?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from sswim_lab.bench.accuracy import Job, failed_row, load_split, score
from sswim_lab.bench.methods import QUICK_SUFFIX, require_method
from sswim_lab.bench.results import append_rows, read_rows
from sswim_lab.bench.runner import count_jobs, failure_message, missing_jobs
from sswim_lab.bench.workers import run_jobs
from sswim_lab.paper.experiment import Request, sets_to_run
from sswim_lab.paper.figures.curves import (
    LABELS,
    Curve,
    Metric,
    require_methods,
    small_multiples,
    write_figure,
)
from sswim_lab.peers.published_sswim import FittedPublished, PublishedSSWIM

NAME = "figure-overfitting"
SETS = ("airfoil", "concrete", "elevators", "parkinsons")
"""Default data sets."""
METHOD = "paper-k1280"
REPEATS = 10


@dataclass(frozen=True)
class StepScores:
    """Test scores after a training step, or the failure of a fit."""

    set: str
    method: str
    repeat: int
    step: int
    """Number of the step, from one; zero for a failed fit."""
    rmse: float
    mnlp: float
    coverage_90: float
    failure: str = ""

    @property
    def job(self) -> Job:
        """The job of the fit."""
        return Job(self.set, self.method, self.repeat)


def run(request: Request) -> list[Path]:
    """Run the fits that are missing, draw all results and return the paths."""
    method = f"{METHOD}{QUICK_SUFFIX}" if request.quick else METHOD
    require_methods(request, NAME, [method])
    sets = sets_to_run(request, SETS, SETS[:1])
    path = request.out / f"{NAME}.csv"
    run_steps(request, path, sets, method)
    shown = list(dict.fromkeys((*SETS, *sets)))
    scores = [
        each
        for each in read_rows(path, StepScores)
        if each.method == method and each.set in shown and not each.failure
    ]
    if not scores:
        request.notify(f"{NAME} is not drawn, because no fit worked.")
        return [path]
    scores.sort(key=lambda each: shown.index(each.set))
    return [path, *write_figure(draw(scores), request.out, NAME)]


def run_steps(request: Request, path: Path, sets: Sequence[str], method: str) -> None:
    """Run the fits that the file lacks; the scores of each are added as it ends."""
    before = {each.job: each for each in read_rows(path, StepScores)}
    repeats = request.repeats or (1 if request.quick else REPEATS)
    wanted = [Job(name, method, repeat) for repeat in range(repeats) for name in sets]
    jobs = missing_jobs(wanted, before, retry=request.retry)
    request.notify(count_jobs(len(jobs), len(wanted) - len(jobs)))
    request.out.mkdir(parents=True, exist_ok=True)
    do = partial(score_steps, device=request.device, folder=request.folder)
    with closing(run_jobs(do, jobs, request.workers, _failed_scores)) as fits:
        for number, scores in enumerate(fits, start=1):
            append_rows(path, scores, StepScores)
            last = scores[-1]
            if last.failure:
                request.failures.append(failed_row(last.job, request.device, last.failure))
            end = "failed" if last.failure else f"RMSE {last.rmse:.4f}, MNLP {last.mnlp:.4f}"
            request.notify(f"{number} of {len(jobs)}: {last.job}, {end}")


def score_steps(job: Job, device: str, folder: str | None) -> list[StepScores]:
    """Run a fit and score it at every step; if it raises an error, return the failure."""
    steps: list[StepScores] = []
    try:
        method = require_method(job.method, job.set)
        assert isinstance(method, PublishedSSWIM)
        rows = load_split(job.set, job.repeat, folder)

        def add(step: int, fitted: FittedPublished) -> None:
            scores = score(fitted.predict(rows.test_x), rows)
            if not np.isfinite(list(scores.values())).all():
                raise ArithmeticError(f"The scores must be finite. Got {scores} at step {step}.")
            columns = (scores["rmse"], scores["mnlp"], scores["coverage_90"])
            steps.append(StepScores(job.set, job.method, job.repeat, step, *columns))

        method.fit(rows.train_x, rows.train_y, job.repeat, method.device(device), add)
    except Exception as error:  # the other fits go on
        return _failed_scores(job, failure_message(error))
    return steps


def draw(scores: Sequence[StepScores]) -> Figure:
    """Draw means and standard deviations over the repeats; of a repeated fit the later counts."""
    fits: dict[str, dict[int, dict[int, StepScores]]] = {}
    for each in scores:
        fits.setdefault(each.set, {}).setdefault(each.repeat, {})[each.step] = each
    curves: dict[str, dict[Metric, Curve]] = {}
    for name, repeats in fits.items():
        curves[name] = {}
        for metric in LABELS:
            values = np.array(
                [[getattr(each, metric) for each in fit.values()] for fit in repeats.values()]
            )
            x = np.arange(1.0, values.shape[1] + 1)
            std = values.std(0, ddof=1) if len(values) > 1 else np.full_like(x, math.nan)
            curves[name][metric] = Curve(x, values.mean(0), std)
    last = max(each.step for each in scores)
    return small_multiples(curves, "training step", (1, last // 3, 2 * last // 3, last))


def _failed_scores(job: Job, failure: str) -> list[StepScores]:
    unknown = math.nan
    return [StepScores(job.set, job.method, job.repeat, 0, unknown, unknown, unknown, failure)]
