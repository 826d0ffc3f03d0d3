"""Test scores at every step of training: does the published method go on for too long?"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from sswim.lab.bench.accuracy import Job, failed, score
from sswim.lab.bench.dataclass_csv import append_rows, read_rows
from sswim.lab.bench.methods import require_method
from sswim.lab.bench.runner import reason
from sswim.lab.bench.stand_in import split_of
from sswim.lab.bench.workers import run_in_processes
from sswim.lab.paper.figures.choices import require_methods
from sswim.lab.paper.figures.curves import LABELS, Curve, Metric, small_multiples
from sswim.lab.paper.figures.pictures import write_picture
from sswim.lab.paper.request import Request
from sswim.lab.paper.sets import sets_to_run
from sswim.lab.paper.tables import QUICK
from sswim.lab.peers.published import FittedPublished, PublishedSSWIM

NAME = "figure-overfitting"
SETS = ("airfoil", "concrete", "elevators", "parkinsons")
"""Drawn by default."""
METHOD = "paper-k1280"
REPEATS = 10


@dataclass(frozen=True)
class StepScores:
    """Of the test rows after so many steps; or of a fit that failed."""

    set: str
    method: str
    repeat: int
    step: int
    """From one; zero of a fit that failed."""
    rmse: float
    mnlp: float
    coverage_90: float
    failure: str = ""

    @property
    def job(self) -> Job:
        """The fit that they are of."""
        return Job(self.set, self.method, self.repeat)


def run(request: Request) -> list[Path]:
    """Do the fits that are missing, and draw all that are there."""
    method = f"{METHOD}{QUICK}" if request.quick else METHOD
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
    return [path, *write_picture(draw(scores), request.out, NAME)]


def run_steps(request: Request, path: Path, sets: Sequence[str], method: str) -> None:
    """Do the fits that the file does not have yet; what comes of each is added at once."""
    before = {each.job: each for each in read_rows(path, StepScores)}
    done = {job for job, last in before.items() if not (request.retry and last.failure)}
    repeats = request.repeats or (1 if request.quick else REPEATS)
    wanted = [Job(name, method, repeat) for repeat in range(repeats) for name in sets]
    jobs = [job for job in wanted if job not in done]
    request.notify(f"{len(jobs)} fits to do, {len(wanted) - len(jobs)} done before.")
    request.out.mkdir(parents=True, exist_ok=True)
    with closing(_fits(request, jobs)) as fits:
        for number, scores in enumerate(fits, start=1):
            append_rows(path, scores, StepScores)
            last = scores[-1]
            if last.failure:
                request.failures.append(failed(last.job, request.device, last.failure))
            end = "failed" if last.failure else f"RMSE {last.rmse:.4f}, MNLP {last.mnlp:.4f}"
            request.notify(f"{number} of {len(jobs)}: {last.job}, {end}")


def score_steps(job: Job, device: str, folder: str | None) -> list[StepScores]:
    """Do a fit, and score it at every step; whatever comes of it."""
    steps: list[StepScores] = []
    try:
        method = require_method(job.method, job.set)
        assert isinstance(method, PublishedSSWIM)
        rows = split_of(job.set, job.repeat, folder)

        def add(step: int, fitted: FittedPublished) -> None:
            scores = score(fitted.predict(rows.test_x), rows)
            if not np.isfinite(list(scores.values())).all():
                raise ArithmeticError(f"The scores must be finite. Got {scores} at step {step}.")
            columns = (scores["rmse"], scores["mnlp"], scores["coverage_90"])
            steps.append(StepScores(job.set, job.method, job.repeat, step, *columns))

        method.fit(rows.train_x, rows.train_y, job.repeat, method.device(device), add)
    except Exception as error:  # the others go on
        return _failure(job, reason(error))
    return steps


def draw(scores: Sequence[StepScores]) -> Figure:
    """Means and spreads over the repeats at every step; of a fit that is there twice, the later."""
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


def _fits(request: Request, jobs: Sequence[Job]) -> Generator[list[StepScores], None, None]:
    """Scores of the fits as they come: of this process, or of several."""
    do = partial(score_steps, device=request.device, folder=request.folder)
    if request.workers == 1:
        yield from map(do, jobs)
    else:
        yield from run_in_processes(do, jobs, request.workers, _died)


def _died(job: Job, code: int | None) -> list[StepScores]:
    return _failure(job, f"ProcessDied: its exit code is {code}")


def _failure(job: Job, message: str) -> list[StepScores]:
    unknown = math.nan
    return [StepScores(job.set, job.method, job.repeat, 0, unknown, unknown, unknown, message)]
