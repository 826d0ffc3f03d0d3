"""Measure how often intervals contain new observations, with and without conformal correction.

    python lab/benchmarks/conformal.py --workers 14 --seconds 520
    python lab/benchmarks/conformal.py --data mcycle concrete --fits default wrong
    python lab/benchmarks/conformal.py --table

Every table, repeat and method is one line of ``results/conformal.jsonl``, appended when it is done:
the coverage of intervals of 50, 80, 90 and 95 % and their mean widths. Lines that are in the file
already are not measured again. With ``--seconds`` the script ends in time; the next call goes on.
Real tables have several random splits; of the larger ones, only some of the rows are used.
Synthetic tables are drawn again in every repeat, because the guarantee is on average over training
sets. MAPIE and LightGBM are left out where they are not installed.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from itertools import product
from multiprocessing import TimeoutError as SlotOver
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from arguments import script_parser
from conformal_methods import FITS, LEVELS, METHODS, Ends
from conformal_rows import (
    GROUP_SIZE,
    GROUPS,
    REAL,
    SIZES,
    SYNTHETIC,
    Case,
    Rows,
    make_rows,
    real_size,
)
from conformal_table import Line, line_key, tables
from json_lines import append_line, read_lines
from numpy.typing import NDArray
from sswim_lab.bench.runner import failure_message
from sswim_lab.datasets.catalogue import data_set
from timing import machine

RESULTS = Path("results/conformal.jsonl")
MAX_TRAIN, MAX_TEST = 2000, 2000
"""Largest numbers of rows of a real table that are used."""
MAPIE = ("mapie", "mapie-normalised")
"""Fits that need optional packages."""
COSTS = {
    "default": (8, 0.013),
    "wrong": (0.35, 0.0003),
    "calibrated": (0.35, 0.0003),
    "mapie": (0.2, 0.001),
    "mapie-normalised": (0.05, 0.0004),
}
"""Rough seconds of a fit on one core: a constant, and the seconds per training row."""
MANY = 100
"""Repeats of a synthetic table."""
REPEATS_OF_DEFAULT = 20
"""The same for the default, whose fits take longer."""
LARGEST_FOR_DEFAULT = 300
"""Most rows of a synthetic table that the default is fitted to."""


@dataclass(frozen=True)
class Job:
    """A fit to a case."""

    case: Case
    fit: str

    @property
    def seconds(self) -> float:
        """Rough estimate of the seconds that it takes on one core, to start with the longest."""
        start, per_row = COSTS[self.fit]
        return start + per_row * self.case.n_train

    def keys(self) -> set[tuple[Any, ...]]:
        """Return what its lines of the results are known by."""
        return {(*asdict(self.case).values(), method) for method in METHODS[self.fit]}


def main() -> None:
    """Measure what the results lack, or print the tables."""
    parser = script_parser(__doc__)
    names = [*REAL, *SYNTHETIC, GROUPS]
    parser.add_argument("--data", nargs="+", choices=names, default=names, help="tables")
    parser.add_argument("--fits", nargs="+", choices=FITS, default=list(FITS))
    parser.add_argument("--max-repeats", type=int, default=MANY, help="of every table")
    parser.add_argument("--max-train", type=int, default=MAX_TRAIN, help="training rows")
    parser.add_argument("--max-test", type=int, default=MAX_TEST, help="test rows")
    parser.add_argument("--workers", type=int, default=1, help="number of processes")
    parser.add_argument("--seconds", type=float, default=math.inf, help="when to end")
    parser.add_argument("--out", type=Path, default=RESULTS, help="result file")
    parser.add_argument("--table", action="store_true", help="print the tables instead")
    given = parser.parse_args()
    if given.table:
        print("\n".join(tables(read_lines(given.out))))
        return
    if missing := [name for name in ("mapie", "lightgbm") if find_spec(name) is None]:
        print(f"MAPIE is left out: {' and '.join(missing)} cannot be imported.")
        given.fits = [fit for fit in given.fits if fit not in MAPIE]
    done = {line_key(line) for line in read_lines(given.out)}
    jobs = [job for job in wanted(given) if not job.keys() <= done]
    compute(sorted(jobs, key=lambda job: (-job.seconds, job.case.repeat)), given)


def wanted(given: argparse.Namespace) -> Iterator[Job]:
    """Yield all jobs that the arguments ask for."""
    for name, fit in product(given.data, given.fits):
        if name in REAL:
            sizes, repeats = [real_size(name, given.max_train)], _repeats(name)
        elif name == GROUPS:
            sizes = [min(GROUP_SIZE, given.max_train)]
            repeats = MANY if fit in {"wrong", "calibrated"} else 0
        else:
            most = LARGEST_FOR_DEFAULT if fit == "default" else given.max_train
            sizes = [size for size in SIZES if size <= min(most, given.max_train)]
            repeats = REPEATS_OF_DEFAULT if fit == "default" else MANY
        for size, repeat in product(sizes, range(min(repeats, given.max_repeats))):
            yield Job(Case(name, size, repeat), fit)


def _repeats(name: str) -> int:
    """Return the number of splits of a real table: many of a small one."""
    n_rows = data_set(name).n_rows
    return 20 if n_rows < 1000 else 5 if n_rows < 5000 else 3


def compute(jobs: list[Job], given: argparse.Namespace) -> None:
    """Run fits in processes of one thread each, and append their lines when they are done."""
    end = time.perf_counter() + given.seconds
    estimate = sum(job.seconds for job in jobs)
    print(f"{len(jobs)} fits, about {estimate / given.workers:.0f} s", flush=True)
    # Leaving the pool ends the processes, so unfinished fits are given up.
    with get_context("spawn").Pool(given.workers, torch.set_num_threads, (1,)) as pool:
        results = pool.imap_unordered(partial(measure, max_test=given.max_test), jobs)
        for number in range(1, len(jobs) + 1):
            left = end - time.perf_counter()
            try:
                found = results.next(None if math.isinf(left) else max(0.0, left))
            except SlotOver:
                print(f"Time is over: {number - 1} of {len(jobs)} are done.", flush=True)
                break
            if isinstance(found, str):
                print(f"{number} of {len(jobs)} failed: {found}", flush=True)
                continue
            for line in found:
                append_line(given.out, line)
            name = " ".join(map(str, line_key(found[0])))
            seconds = sum((line["predict_seconds"] for line in found), found[0]["fit_seconds"])
            print(f"{number} of {len(jobs)}: {name}, {seconds:.1f} s", flush=True)


def measure(job: Job, max_test: int) -> list[Line] | str:
    """Return the lines of a job, or why it failed."""
    try:
        rows = make_rows(job.case, max_test)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # LightGBM's about names of columns
            found = FITS[job.fit](rows, job.case.repeat)
    except Exception as error:  # the other fits go on
        return f"{job}: {failure_message(error)}"
    facts = {
        "n_test": len(rows.test_y),
        "n_distinct": rows.n_distinct,
        **machine(torch.device("cpu"), ("lightgbm", "mapie")),
    }
    return [
        {
            **asdict(job.case),
            "method": method,
            **score(rows, intervals.ends),
            "fit_seconds": round(intervals.fit_seconds, 2),
            "predict_seconds": round(intervals.predict_seconds, 2),
            **facts,
        }
        for method, intervals in found.items()
    ]


def score(rows: Rows, ends: Ends) -> dict[str, Any]:
    """Return coverage and mean width by the level, of all test rows and of every group."""
    lower, upper = ends
    inside = (lower <= rows.test_y) & (rows.test_y <= upper)
    width = (upper - lower) / rows.unit
    found = {"coverage": _by_level(inside), "width": _by_level(width)}
    if rows.test_groups is None:
        return found
    parts = [rows.test_groups == group for group in np.unique(rows.test_groups)]
    return found | {
        "group_coverage": [_by_level(inside[:, part]) for part in parts],
        "group_width": [_by_level(width[:, part]) for part in parts],
    }


def _by_level(values: NDArray[Any]) -> dict[str, float]:
    means = values.mean(1).tolist()
    return {f"{level:g}": round(mean, 5) for level, mean in zip(LEVELS, means, strict=True)}


if __name__ == "__main__":
    main()
