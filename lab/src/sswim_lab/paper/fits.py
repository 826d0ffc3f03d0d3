"""Running the fits of an experiment; all experiments of a folder share a results file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sswim_lab.bench.accuracy import Row
from sswim_lab.bench.results import append_results, read_results
from sswim_lab.bench.runner import Bench, make_plan, run
from sswim_lab.paper.request import Request

FITS = "fits.csv"
"""Name of the results file."""
REPEATS = 10
"""Repeats of a data set that is not large, as in the paper."""


def run_fits(request: Request, sets: Sequence[str], methods: Sequence[str]) -> list[Row]:
    """Run the fits that the results file lacks.

    Returns:
        All rows of the results file, also those of other experiments.
    """
    bench = Bench(
        sets,
        methods,
        request.out / FITS,
        request.repeats or (1 if request.quick else None),
        request.device,
        request.folder,
        workers=request.workers,
        retry=request.retry,
        default_repeats=REPEATS,
    )
    plan = make_plan(bench)
    tried = {row.job for row in request.failures}
    plan = replace(plan, jobs=tuple(job for job in plan.jobs if job not in tried))
    for note in (*plan.notes, plan.progress):
        request.notify(note)
    request.out.mkdir(parents=True, exist_ok=True)
    append_results(bench.out, plan.left_out)
    with request.progress(len(plan.jobs)) as show:
        request.failures.extend(run(bench, plan, show))
    return read_results(bench.out)
