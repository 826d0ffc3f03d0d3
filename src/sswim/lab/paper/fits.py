"""The fits of an experiment, in one file of results for all experiments of a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from sswim.lab.bench.accuracy import Row
from sswim.lab.bench.lines import in_lines
from sswim.lab.bench.results import append_results, read_results
from sswim.lab.bench.runner import Bench, make_plan, run
from sswim.lab.paper.request import Request

FITS = "fits.csv"
"""The name of the file."""


def run_fits(request: Request, sets: Sequence[str], methods: Sequence[str]) -> list[Row]:
    """Do the fits that the file does not have yet.

    Returns:
        All rows of the file, also those of other experiments.
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
    )
    plan = make_plan(bench)
    tried = {row.job for row in request.failures}
    plan = replace(plan, jobs=tuple(job for job in plan.jobs if job not in tried))
    for note in (*plan.notes, plan.progress):
        request.notify(note)
    request.out.mkdir(parents=True, exist_ok=True)
    append_results(bench.out, plan.left_out)
    with (request.progress or partial(_lines, request.notify))(len(plan.jobs)) as show:
        request.failures.extend(run(bench, plan, show))
    return read_results(bench.out)


@contextmanager
def _lines(notify: Callable[[str], None], n_fits: int) -> Iterator[Callable[[Row], None]]:
    yield in_lines(n_fits, notify)
