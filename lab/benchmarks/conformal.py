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
from collections.abc import Iterable, Iterator, Sequence
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
from conformal_methods import (
    FITS,
    GROUP_NOISE,
    GROUP_SIZE,
    GROUPS,
    LEVELS,
    METHODS,
    REAL,
    SIZES,
    SYNTHETIC,
    Case,
    Ends,
    Rows,
    make_rows,
    real_size,
)
from numpy.typing import NDArray
from scripting import append_line, read_lines, script_parser, stored, table_line
from sswim_lab.bench.runner import failure_message
from sswim_lab.datasets.catalogue import data_set
from timing import machine

Line = dict[str, Any]
IDENTITY = ("set", "n_train", "method")
"""Names of what tells a summary from all others."""

SHOWN_LEVELS = ("0.5", "0.8", "0.9", "0.95")
MAIN = "0.9"
"""The level of the tables that have one level."""
TIMED = 1000
"""Fewest test rows whose predictions say what a thousand rows cost."""
TITLES = {
    "default": "default: its own",
    "default, conformal": "default: conformal",
    "wrong": "wrong model: its own",
    "wrong, calibrated": "wrong model: calibrated",
    "wrong, calibrated by group": "wrong model: calibrated by group",
    "MAPIE CV+": "MAPIE: CV+",
    "MAPIE split": "MAPIE: split, normalised",
}
"""Methods in the order of the columns, and what they are called there."""


def line_key(line: Line) -> tuple[Any, ...]:
    """Return what tells a line of the results from all others."""
    return (*(line[name] for name in IDENTITY), line.get("repeat"))


def summarise(lines: Iterable[Line]) -> list[Line]:
    """Return a line for each table, size and method: means over the repeats, and their spread.

    Lines that are summaries already stay as they are.
    """
    latest = {line_key(line): line for line in lines}.values()
    groups: dict[tuple[Any, ...], list[Line]] = {}
    for line in latest:
        groups.setdefault(tuple(line[name] for name in IDENTITY), []).append(line)
    return [part[0] if "repeats" in part[0] else _summary(part) for part in groups.values()]


def _summary(lines: Sequence[Line]) -> Line:
    """Return the means over repeats, and the standard deviations of coverage at one level."""

    def means(values: Sequence[Any]) -> dict[str, float]:
        return {level: float(np.mean([value[level] for value in values])) for level in values[0]}

    def spread(values: Sequence[Any]) -> float:
        coverage = [value[MAIN] for value in values]
        return float(np.std(coverage, ddof=1)) if len(values) > 1 else 0.0

    first = lines[0]
    coverage = [line["coverage"] for line in lines]
    summary = {name: first[name] for name in (*IDENTITY, "n_test", "n_distinct")} | {
        "repeats": len(lines),
        "coverage": means(coverage),
        "coverage_sd": spread(coverage),
        "width": means([line["width"] for line in lines]),
        "versions": first.get("versions", ""),
    }
    for name in ("fit_seconds", "predict_seconds"):
        summary[name] = float(np.mean([line[name] for line in lines]))
    if "group_coverage" in first:
        groups = list(zip(*(line["group_coverage"] for line in lines), strict=True))
        widths = zip(*(line["group_width"] for line in lines), strict=True)
        summary |= {
            "group_coverage": [means(group) for group in groups],
            "group_sd": [spread(group) for group in groups],
            "group_width": [means(group) for group in widths],
        }
    return summary


def tables(lines: Iterable[Line]) -> Iterator[str]:
    """Yield the lines of all tables, each under a line that says what it is."""
    found = summarise(lines)
    real = [line for line in found if line["set"] in REAL]
    synthetic = [line for line in found if line["set"] in SYNTHETIC]
    groups = [line for line in found if line["set"] == GROUPS]
    timed = [line for line in real if line["n_test"] >= TIMED]
    for title, make, part in (
        ("Real tables, 90 %: coverage in % (mean width)", real_table, real),
        ("Real tables, all levels: mean coverage, lowest to highest", level_table, real),
        ("Synthetic tables, 90 %: coverage in % (mean width)", synthetic_table, synthetic),
        ("Synthetic tables, all levels: mean coverage", synthetic_level_table, synthetic),
        ("Groups, 90 %: coverage in % (mean width)", group_table, groups),
        ("Costs", cost_table, timed),
    ):
        if part:
            yield from (f"**{title}**", "", *make(part), "")


def real_table(lines: Sequence[Line]) -> Iterator[str]:
    """Yield coverage and width of every real table, with the binomial error of the coverage."""
    methods = _methods(lines)
    titles = [TITLES[method] for method in methods]
    yield from _head(["table", "rows", "splits", *titles, "error"])
    for name in REAL:
        part = [line for line in lines if line["set"] == name]
        if not part:
            continue
        n_splits = max(line["repeats"] for line in part)
        cells = [_cell(_of(part, method)) for method in methods]
        error = f"± {100 * binomial_error(part[0], n_splits):.1f}"
        yield table_line([name, f"{part[0]['n_train']:,}", str(n_splits), *cells, error])
    cells = []
    for method in methods:
        coverage, width = zip(*_by_set(_of(lines, method)).values(), strict=True)
        cells.append(f"{_percent(np.mean(coverage))} ({_number(_geometric(width))})")
    yield table_line(["mean", "", "", *cells, ""])


def level_table(lines: Sequence[Line]) -> Iterator[str]:
    """Yield coverage over all real tables at every level, and widths beside the default's own."""
    yield from _head(["intervals", *(f"{100 * float(level):.0f} %" for level in SHOWN_LEVELS)])
    for method in _methods(lines):
        cells = []
        for level in SHOWN_LEVELS:
            ours = _by_set(_of(lines, method), level)
            theirs = _by_set(_of(lines, "default"), level)
            both = [name for name in ours if name in theirs]
            coverage = [each[0] for each in ours.values()]
            span = f"{_percent(min(coverage))} to {_percent(max(coverage))}"
            cell = f"{_percent(np.mean(coverage))} ({span})"
            if both:
                ratio = _geometric([ours[name][1] / theirs[name][1] for name in both])
                cell += f", × {_number(ratio)}"
            cells.append(cell)
        yield table_line([TITLES[method], *cells])


def synthetic_table(lines: Sequence[Line]) -> Iterator[str]:
    """Yield coverage, its standard error over training sets, and width of synthetic tables."""
    methods = _methods(lines)
    yield from _head(["table", "rows", *(TITLES[method] for method in methods)])
    for name in SYNTHETIC:
        for size in SIZES:
            part = [line for line in lines if (line["set"], line["n_train"]) == (name, size)]
            if part:
                cells = [_cell(_of(part, method), error=True) for method in methods]
                yield table_line([name, f"{size:,}", *cells])


def synthetic_level_table(lines: Sequence[Line]) -> Iterator[str]:
    """Yield coverage over all synthetic tables at every level."""
    yield from _head(
        ["intervals", "rows", *(f"{100 * float(level):.0f} %" for level in SHOWN_LEVELS)]
    )
    for method in _methods(lines):
        for size in SIZES:
            part = [line for line in _of(lines, method) if line["n_train"] == size]
            if part:
                repeats = [line["repeats"] for line in part]
                means = [
                    np.average([line["coverage"][level] for line in part], weights=repeats)
                    for level in SHOWN_LEVELS
                ]
                yield table_line([TITLES[method], f"{size:,}", *map(_percent, means)])


def group_table(lines: Sequence[Line]) -> Iterator[str]:
    """Yield coverage and width of every group."""
    noise = [f"group {number}, noise {each}" for number, each in enumerate(GROUP_NOISE, start=1)]
    yield from _head(["intervals", "all rows", *noise])
    for method in _methods(lines):
        part = _of(lines, method)
        cells = [_cell(part, error=True)]
        for group in range(len(GROUP_NOISE)):
            own = [
                line
                | {
                    "coverage": line["group_coverage"][group],
                    "coverage_sd": line["group_sd"][group],
                    "width": line["group_width"][group],
                }
                for line in part
            ]
            cells.append(_cell(own, error=True))
        yield table_line([TITLES[method], *cells])


def cost_table(lines: Sequence[Line]) -> Iterator[str]:
    """Yield seconds of fits and of intervals at all levels, on one core."""
    yield from _head(["intervals", "fit (s)", "intervals of 1,000 rows (s)"])
    for method in _methods(lines):
        part = _of(lines, method)
        repeats = [line["repeats"] for line in part]
        fit = np.average([line["fit_seconds"] for line in part], weights=repeats)
        thousand = [1000 * line["predict_seconds"] / line["n_test"] for line in part]
        predict = np.average(thousand, weights=repeats)
        yield table_line([TITLES[method], f"{fit:.1f}", f"{predict:.2f}"])


def binomial_error(line: Line, n_repeats: int, level: str = MAIN) -> float:
    """Return the standard error of a coverage that the finite number of test rows causes.

    The splits of a small table share test rows, which count once.
    """
    p, n = float(level), n_repeats * line["n_test"]
    return float(np.sqrt(p * (1 - p) / min(n, line["n_distinct"] or n)))


def _head(titles: Sequence[str]) -> tuple[str, str]:
    return table_line(titles), f"|{'---|' * len(titles)}"


def _methods(lines: Iterable[Line]) -> list[str]:
    measured = {line["method"] for line in lines}
    return [method for method in TITLES if method in measured]


def _of(lines: Iterable[Line], method: str) -> list[Line]:
    return [line for line in lines if line["method"] == method]


def _by_set(lines: Sequence[Line], level: str = MAIN) -> dict[str, tuple[float, float]]:
    """Return the mean coverage and width of every real table."""
    parts = {name: [line for line in lines if line["set"] == name] for name in REAL}
    return {
        name: (
            float(np.mean([line["coverage"][level] for line in part])),
            float(np.mean([line["width"][level] for line in part])),
        )
        for name, part in parts.items()
        if part
    }


def _cell(lines: Sequence[Line], *, error: bool = False) -> str:
    """Return the coverage, its standard error and the width of one summary, if there is one."""
    if not lines:
        return ""
    [line] = lines
    text = _percent(line["coverage"][MAIN])
    if error and line["repeats"] > 1:
        text += f" ± {100 * line['coverage_sd'] / np.sqrt(line['repeats']):.1f}"
    return f"{text} ({_number(line['width'][MAIN])})"


def _percent(share: Any) -> str:
    return f"{100 * float(share):.1f}"


def _number(value: Any) -> str:
    return f"{float(value):.3g}".replace("inf", "∞")


def _geometric(values: Iterable[float]) -> float:
    return float(np.exp(np.mean(np.log(list(values)))))


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
    parser.add_argument("--summary", type=Path, help="write means over repeats to this file")
    given = parser.parse_args()
    if given.summary is not None:
        for line in summarise(read_lines(given.out)):
            append_line(given.summary, line)
        return
    if given.table:
        print("\n".join(tables(read_lines(stored(given.out)))))
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
