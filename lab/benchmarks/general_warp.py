"""Does a projection to few coordinates, or another matrix, cost less and predict as well?

    python lab/benchmarks/general_warp.py --sets supercond,elevators --part left-out --rows 2500
    python lab/benchmarks/general_warp.py --device cuda
    python lab/benchmarks/general_warp.py --table

One model of depth 1, by features or by neighbours, is fitted with each matrix. Its scores are those
of the test rows of repeat 0 of a data set, or, with --part left-out, of the last fifth of the
training rows, by which choices are made; targets are standardised by the training rows. Then short
fits of all matrices alternate, and the medians of the times of their training steps, and of
predicting the same rows, are stored. Results are appended to results/general-warp.jsonl, and what
is there is not measured again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from arguments import add_device, add_out, script_parser
from json_lines import append_line, read_lines
from markdown_tables import scores_cell, table_line
from sswim_lab.datasets import split

from sswim.base.devices import resolve_device
from sswim.estimator import BaseRegressor, make_estimator

SETS = "supercond,ailerons,pumadyn32nm,elevators,parkinsons"

MATRICES: dict[str, dict[str, Any]] = {
    "diagonal": {},
    "projected, Q = 8": {"warp_matrix": "projected", "warp_dim": 8},
    "projected, Q = 16": {"warp_matrix": "projected", "warp_dim": 16},
    "full, Q = 8": {"warp_dim": 8, "warp_matrix": "full"},
}
"""Settings of each matrix, by its name in the tables."""

WAYS: dict[str, dict[str, Any]] = {
    "features": {"warps": "joint", "n_pseudo": 64, "learning_rate": 0.06},
    "neighbours": {"n_neighbors": 64},
}
"""Settings of each way to predict."""

ROUNDS, STEPS, SKIPPED = 3, 16, 5
"""Number of short fits of each matrix, and of their steps; the first of these warm up."""


class Clock:
    """A callback that notes when every training step ended."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.times: list[float] = []

    def __call__(self, member: int, step: object) -> None:
        """Note the time."""
        self.times.append(self.now())

    def step(self) -> float:
        """Return the median seconds of a step."""
        return float(np.median(np.diff(self.times)[SKIPPED:]))


class Rows:
    """Training rows of a set, and those that are predicted, standardised by the former."""

    def __init__(self, name: str, part: str, most: int | None) -> None:
        rows = split(name, 0)
        x, y = rows.train_x, rows.train_y
        new_x, new_y = rows.test_x, rows.test_y
        if part == "left-out":
            n_train = 4 * len(x) // 5
            new_x, new_y = x[n_train:], y[n_train:]
            x, y = x[:n_train], y[:n_train]
        self.x, self.new_x = x[:most], new_x
        mean, spread = y[:most].mean(), y[:most].std()
        self.y, self.new_y = (y[:most] - mean) / spread, (new_y - mean) / spread


def fit(rows: Rows, settings: dict[str, Any]) -> BaseRegressor:
    """Fit one model."""
    return make_estimator(depth=1, random_state=0, **settings).fit(rows.x, rows.y)


def predict_seconds(
    model: BaseRegressor, x: np.ndarray[Any, Any], now: Callable[[], float]
) -> float:
    """Return the seconds that means and variances of rows take."""
    started = now()
    model.predict(x, return_std=True)
    return now() - started


def accuracy(rows: Rows, settings: dict[str, Any]) -> dict[str, float]:
    """Return the scores of one fit."""
    started = time.perf_counter()
    model = fit(rows, settings)
    seconds = time.perf_counter() - started
    error = model.predict(rows.new_x) - rows.new_y
    return {
        "rmse": float(np.sqrt(np.mean(error**2))),
        "mnlp": float(-np.mean(model.log_density(rows.new_x, rows.new_y))),
        "fit_seconds": seconds,
    }


def costs(rows: Rows, shared: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return the median times of every matrix, from short fits in turn.

    On a CPU these are seconds of the processor, which others that use it do not change.
    """
    now = time.process_time if shared["device"] == "cpu" else time.perf_counter
    steps: dict[str, list[float]] = {name: [] for name in MATRICES}
    predictions: dict[str, list[float]] = {name: [] for name in MATRICES}
    for _ in range(ROUNDS):
        models = {}
        for name, settings in MATRICES.items():
            clock = Clock(now)
            models[name] = fit(rows, shared | settings | {"max_iter": STEPS, "callback": clock})
            steps[name].append(clock.step())
            predict_seconds(models[name], rows.new_x, now)  # warms up
        for _ in range(3):
            for name, model in models.items():
                predictions[name].append(predict_seconds(model, rows.new_x, now))
    return {
        name: {
            "step_seconds": median(steps[name]),
            "predict_seconds": median(predictions[name]),
        }
        for name in MATRICES
    }


def measure(asked: Any, path: Path) -> None:
    """Measure what has not been measured yet."""
    device = resolve_device(asked.device).type
    done = {_key(entry) for entry in read_lines(path)}
    for name in asked.sets.split(","):
        rows = Rows(name, asked.part, asked.rows)
        facts = {
            "set": name,
            "part": asked.part,
            "n_train": len(rows.y),
            "n_inputs": rows.x.shape[1],
            "n_predicted": len(rows.new_y),
            "device": device,
        }
        for way in asked.ways.split(","):
            shared = {**WAYS[way], "device": device}
            for matrix, settings in MATRICES.items():
                entry = {**facts, "measured": "accuracy", "way": way, "matrix": matrix}
                if _key(entry) not in done:
                    _store(path, entry | accuracy(rows, shared | settings))
            entry = {**facts, "measured": "costs", "way": way, "threads": torch.get_num_threads()}
            if asked.costs and _key(entry) not in done:
                _store(path, entry | {"matrices": costs(rows, shared)})


def _key(entry: dict[str, Any]) -> tuple[Any, ...]:
    names = ("set", "part", "n_train", "device", "measured", "way", "matrix")
    return tuple(entry.get(name) for name in names)


def _store(path: Path, entry: dict[str, Any]) -> None:
    append_line(path, entry)
    print(entry, flush=True)


def tables(entries: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of the tables: scores, and costs in units of those of the diagonal."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for entry in entries:
        group = (entry["measured"], entry["part"], entry["way"])
        groups.setdefault(group, []).append(entry)
    for (measured, part, way), found in sorted(groups.items()):
        rows = "test rows" if part == "test" else "rows left out of training"
        what = "RMSE / MNLP" if measured == "accuracy" else "time of a step / of a prediction"
        yield f"By {way}, {rows}: {what}."
        yield ""
        yield table_line(["set", "rows × inputs", "device", *MATRICES])
        yield table_line(["---"] * (3 + len(MATRICES)))
        lines: dict[tuple[Any, ...], dict[str, str]] = {}
        for entry in found:
            sizes = f"{entry['n_train']:,} × {entry['n_inputs']}"
            cells = lines.setdefault((entry["set"], sizes, entry["device"]), {})
            if measured == "accuracy":
                cells[entry["matrix"]] = scores_cell(entry["rmse"], entry["mnlp"])
            else:
                cells |= _cost_cells(entry["matrices"])
        for line, cells in lines.items():
            yield table_line([*line, *(cells.get(matrix, "") for matrix in MATRICES)])
        yield ""


def _cost_cells(matrices: dict[str, dict[str, float]]) -> dict[str, str]:
    """Return milliseconds for the diagonal matrix, and ratios for the others."""
    names = ("step_seconds", "predict_seconds")
    usual = matrices["diagonal"]
    cells = {
        matrix: " / ".join(f"{times[name] / usual[name]:.2f}" for name in names)
        for matrix, times in matrices.items()
    }
    milliseconds = " / ".join(f"{1000 * usual[name]:,.0f}" for name in names)
    return cells | {"diagonal": f"{milliseconds} ms"}


def main() -> None:
    """Measure, or print the tables."""
    parser = script_parser(__doc__)
    parser.add_argument("--sets", default=SETS, help=f"names of data sets, by default {SETS}")
    parser.add_argument("--ways", default=",".join(WAYS), help="features, neighbours or both")
    parser.add_argument("--part", choices=("test", "left-out"), default="test")
    parser.add_argument("--rows", type=int, help="largest number of training rows")
    parser.add_argument("--no-costs", dest="costs", action="store_false", help="measure no times")
    parser.add_argument("--table", action="store_true", help="print the tables of the results")
    add_device(parser)
    add_out(parser, "results/general-warp.jsonl")
    asked = parser.parse_args()
    path = Path(asked.out)
    if asked.table:
        print("\n".join(tables(read_lines(path))).rstrip())
    else:
        measure(asked, path)


if __name__ == "__main__":
    main()
