"""Measure how far rows in many pieces are from the same rows at once, and what both cost.

    OMP_NUM_THREADS=1 python lab/benchmarks/partial_fit_pieces.py

A model is fitted to a few rows. It is then given many more by ``partial_fit``, in pieces of 100,
and a copy of it is given the same rows in one call. One row in twenty is a copy of an earlier one.
At several sizes on the way both predict 1000 points. With ``--predict-each`` the model predicts
after every piece, so that every piece is added by itself. Runs that the file holds already are
skipped.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from arguments import script_parser
from json_lines import append_line, read_lines

from sswim.base.version import __version__
from sswim.estimator import BaseRegressor, make_estimator

N_FITTED, N_POINTS, PIECE, N_INPUTS = 500, 1000, 100, 4

SMALL: dict[str, Any] = {"n_components": 128, "n_pseudo": 16, "max_iter": 30, "random_state": 0}

KINDS: dict[str, tuple[float, dict[str, Any]]] = {
    "features, float64": (0.1, {**SMALL, "depth": 2}),
    "features, float64, little noise": (0.001, {**SMALL, "depth": 2}),
    "features, float32": (0.1, {**SMALL, "depth": 2, "dtype": "float32"}),
    "neighbours": (0.1, {**SMALL, "depth": 2, "n_neighbors": 32}),
    "ensemble": (0.1, {**SMALL, "n_members": 1}),
}
"""Noise of the targets and settings of the estimator, by the kind of model."""

Rows = tuple[np.ndarray, np.ndarray]


def make_rows(n: int, noise: float, seed: int) -> Rows:
    """Draw rows, some of which are copies of earlier ones."""
    random = np.random.default_rng(seed)
    x = random.uniform(-2, 2, size=(n, N_INPUTS))
    y = np.sin(3 * x[:, 0]) * x[:, 1] + np.tanh(4 * x[:, 2]) + noise * random.normal(size=n)
    earlier = (random.uniform(size=n) * np.arange(n)).astype(int)
    places = np.where(random.uniform(size=n) < 0.05, earlier, np.arange(n))
    return x[places], y[places]


def compare(ours: BaseRegressor, theirs: BaseRegressor, points: Rows) -> dict[str, float]:
    """Return the largest differences: of means and deviations in target spreads, and in nats."""
    found = []
    for model in (ours, theirs):
        mean, std = model.predict(points[0], return_std=True)
        found.append((mean, std, model.log_density(*points)))
    spread = points[1].std()
    scales = {"mean": spread, "std": spread, "log_density": 1.0}
    return {
        name: float(f"{np.abs(mine - other).max() / scale:.2g}")
        for (name, scale), mine, other in zip(scales.items(), *found, strict=True)
    }


def timed(action: Callable[[], object]) -> float:
    """Return the seconds that an action takes."""
    begin = perf_counter()
    action()
    return perf_counter() - begin


def measure(kind: str, n_rows: int, *, predict_each: bool) -> dict[str, Any]:
    """Measure one kind of model."""
    noise, settings = KINDS[kind]
    fitted = make_estimator(**settings, device="cpu").fit(*make_rows(N_FITTED, noise, seed=0))
    points = make_rows(N_POINTS, noise, seed=1)
    x, y = make_rows(n_rows, noise, seed=2)
    pieces = copy.deepcopy(fitted)
    sizes = [size for size in (10**3, 10**4, 10**5, 10**6) if size < n_rows] + [n_rows]
    differences: dict[int, dict[str, float]] = {}
    seconds = {"pieces": 0.0, "at_once": 0.0}
    for begin in range(0, n_rows, PIECE):
        end = begin + PIECE
        piece = x[begin:end], y[begin:end]
        seconds["pieces"] += timed(partial(pieces.partial_fit, *piece))
        if predict_each:
            seconds["pieces"] += timed(partial(pieces.predict, points[0][:1], return_std=True))
        if end in sizes:
            once = copy.deepcopy(fitted)
            rows = x[:end], y[:end]
            seconds["at_once"] = timed(partial(once.partial_fit, *rows))
            seconds["at_once"] += timed(partial(once.predict, points[0][:1]))
            seconds["pieces"] += timed(partial(pieces.predict, points[0][:1]))
            differences[end] = compare(pieces, once, points)
    return {
        "kind": kind,
        "rows": n_rows,
        "predict_each": predict_each,
        "differences": differences,
        "seconds": {name: round(value, 2) for name, value in seconds.items()},
        "version": __version__,
    }


def main() -> int:
    """Measure, print and store."""
    parser = script_parser(__doc__)
    parser.add_argument("--rows", type=int, default=10**6, help="number of rows")
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--predict-each", action="store_true", help="predict after every piece")
    parser.add_argument("--out", type=Path, default=Path("results/partial-fit-pieces.jsonl"))
    asked = parser.parse_args()
    done = {(e["kind"], e["rows"], e["predict_each"]) for e in read_lines(asked.out)}
    for kind in asked.kinds:
        if (kind, asked.rows, asked.predict_each) not in done:
            found = measure(kind, asked.rows, predict_each=asked.predict_each)
            print(found, flush=True)
            append_line(asked.out, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
