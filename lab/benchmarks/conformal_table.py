"""Tables of the results of ``conformal.py`` in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from conformal_rows import GROUP_NOISE, GROUPS, REAL, SIZES, SYNTHETIC
from markdown_tables import table_line

Line = dict[str, Any]

LEVELS = ("0.5", "0.8", "0.9", "0.95")
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
    return tuple(line[field] for field in ("set", "n_train", "repeat", "method"))


def tables(lines: Iterable[Line]) -> Iterator[str]:
    """Yield the lines of all tables, each under a line that says what it is."""
    found = list({line_key(line): line for line in lines}.values())
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
        n_splits = max(sum(line["method"] == method for line in part) for method in methods)
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
    yield from _head(["intervals", *(f"{100 * float(level):.0f} %" for level in LEVELS)])
    for method in _methods(lines):
        cells = []
        for level in LEVELS:
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
    yield from _head(["intervals", "rows", *(f"{100 * float(level):.0f} %" for level in LEVELS)])
    for method in _methods(lines):
        for size in SIZES:
            part = [line for line in _of(lines, method) if line["n_train"] == size]
            if part:
                means = [np.mean([line["coverage"][level] for line in part]) for level in LEVELS]
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
                {"coverage": line["group_coverage"][group], "width": line["group_width"][group]}
                for line in part
            ]
            cells.append(_cell(own, error=True))
        yield table_line([TITLES[method], *cells])


def cost_table(lines: Sequence[Line]) -> Iterator[str]:
    """Yield seconds of fits and of intervals at all levels, on one core."""
    yield from _head(["intervals", "fit (s)", "intervals of 1,000 rows (s)"])
    for method in _methods(lines):
        part = _of(lines, method)
        fit = np.mean([line["fit_seconds"] for line in part])
        predict = np.mean([1000 * line["predict_seconds"] / line["n_test"] for line in part])
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
    if not lines:
        return ""
    coverage = [line["coverage"][MAIN] for line in lines]
    width = np.mean([line["width"][MAIN] for line in lines])
    text = _percent(np.mean(coverage))
    if error and len(lines) > 1:
        text += f" ± {100 * np.std(coverage, ddof=1) / np.sqrt(len(lines)):.1f}"
    return f"{text} ({_number(width)})"


def _percent(share: Any) -> str:
    return f"{100 * float(share):.1f}"


def _number(value: Any) -> str:
    return f"{float(value):.3g}".replace("inf", "∞")


def _geometric(values: Iterable[float]) -> float:
    return float(np.exp(np.mean(np.log(list(values)))))
