"""Remove cells of tables, fill them in several ways, and compare the predictions.

    python lab/benchmarks/missing_cells.py --workers 8
    python lab/benchmarks/missing_cells.py --methods lightgbm
    python lab/benchmarks/missing_cells.py --table
    python lab/benchmarks/missing_cells.py --compact

The method sswim is what the estimator does with NaN; the others fill cells in before.
Cells of the inputs of training and test rows are removed at random, or the more probably the higher
the rank of the row's target is: then missing cells tell about the target. Or cells of the test rows
are removed at random, and those of training rows rarely or not at all. One line is written for
every data set, rate, mechanism and method: the scores of the test rows, and those of the same rows
with all their cells.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from arguments import script_parser
from json_lines import append_line, read_lines
from missing_cells_rows import (
    MECHANISMS,
    SETS,
    WIDE,
    Array,
    Cell,
    Inputs,
    Rows,
    Way,
    make_rows,
    prepare,
)
from missing_cells_table import compact_table, line_key, table
from sswim_lab.peers.trees import LightGBM
from timing import machine

from sswim.estimator import BaseRegressor, make_estimator

RESULTS = Path("results/missing-cells.jsonl")
RATES = (0.2, 0.5, 0.05)
LIGHTGBM = "lightgbm"
WAYS: dict[str, Way] = {
    "sswim": Way("none"),
    "gaussian+indicator": Way("gaussian", "all"),
    "gaussian": Way("gaussian"),
    "mean": Way("mean"),
    "gaussian+selected": Way("gaussian", "selected"),
    "mean+indicator": Way("mean", "all"),
    "gaussian+std at predict": Way("gaussian", std_at_predict=True),
    "gaussian+indicator+std at predict": Way("gaussian", "all", std_at_predict=True),
    "gaussian+indicator+std at fit": Way("gaussian", "all", std_at_fit=True),
    "gaussian+indicator+std": Way("gaussian", "all", std_at_fit=True, std_at_predict=True),
}
METHODS = (*WAYS, LIGHTGBM)
QUICK: dict[str, Any] = {"depth": 0, "n_components": 16, "n_pseudo": 4, "max_iter": 2}
"""Settings of fits whose scores mean nothing."""

Job = tuple[Cell, tuple[str, ...]]
"""A cell, and the methods that share a fit."""


def main() -> None:
    """Measure what the results lack, or print the table."""
    parser = script_parser(__doc__)
    parser.add_argument(
        "--data", nargs="+", choices=[*SETS, *WIDE], default=list(SETS), help="data sets"
    )
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--rates", nargs="+", type=float, default=list(RATES))
    parser.add_argument("--mechanisms", nargs="+", choices=MECHANISMS, default=list(MECHANISMS))
    parser.add_argument("--workers", type=int, default=1, help="number of processes")
    parser.add_argument("--device", default="cpu", help="device to fit on")
    parser.add_argument("--quick", action="store_true", help="tiny models, to try the script")
    parser.add_argument("--out", type=Path, default=RESULTS, help="result file")
    parser.add_argument("--table", action="store_true", help="print the table instead")
    parser.add_argument("--compact", action="store_true", help="print a smaller table instead")
    parser.add_argument("--reference", choices=METHODS, default="mean", help="of the table")
    arguments = parser.parse_args()
    if arguments.table:
        lines = [line for line in read_lines(arguments.out) if line["set"] in arguments.data]
        print("\n".join(table(lines, METHODS, arguments.reference)))
        return
    if arguments.compact:
        print(compact_table([e for e in read_lines(arguments.out) if e["set"] in SETS]))
        return
    done = {line_key(line) for line in read_lines(arguments.out)}
    cells = product(arguments.rates, arguments.data, arguments.mechanisms)
    jobs: list[Job] = []
    for rate, data, mechanism in cells:
        cell = (data, rate, mechanism)
        missing = [m for m in arguments.methods if (*cell, m, arguments.device) not in done]
        jobs += [(cell, methods) for methods in _sharing_a_fit(cell, missing)]
    compute(jobs, arguments)


def _sharing_a_fit(cell: Cell, methods: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the methods in groups whose fits are the same."""
    rows = make_rows(cell)
    groups: dict[Any, list[str]] = {}
    for name in methods:
        way = WAYS.get(name)
        if way is None:
            groups[name] = [name]
        else:
            inputs = prepare(way, rows)
            std = inputs.train_std.tobytes() if way.std_at_fit else b""
            groups.setdefault((inputs.train.tobytes(), std), []).append(name)
    return [tuple(group) for group in groups.values()]


def compute(jobs: Sequence[Job], arguments: argparse.Namespace) -> None:
    """Run fits in processes of one thread each, and append every result when it is done."""
    context = get_context("spawn")  # CUDA does not work after a fork
    with ProcessPoolExecutor(arguments.workers, context, torch.set_num_threads, (1,)) as pool:
        futures = [pool.submit(measure, job, arguments.device, arguments.quick) for job in jobs]
        for number, future in enumerate(as_completed(futures), start=1):
            if error := future.exception():
                print(f"{number} of {len(jobs)} failed: {error!r}", flush=True)
                continue
            for line in future.result():
                append_line(arguments.out, line)
                name = " ".join(map(str, line_key(line)))
                seconds = f"{line['fit_seconds']:.0f} + {line['predict_seconds']:.1f} s"
                print(f"{number} of {len(jobs)}: {name}, {seconds}", flush=True)


def measure(job: Job, device: str, quick: bool) -> list[dict[str, Any]]:
    """Fit a model, and return the scores of every method that shares the fit."""
    cell, methods = job
    rows = make_rows(cell)
    shared = {
        **dict(zip(("set", "rate", "mechanism"), cell, strict=True)),
        "n_train": len(rows.train_y),
        "n_test": len(rows.test_y),
        "n_inputs": rows.train_x.shape[1],
        **machine(torch.device(device), ("lightgbm",)),
    }
    if methods == (LIGHTGBM,):
        return [shared | {"method": LIGHTGBM, "n_indicators": 0} | score_lightgbm(rows)]
    first = WAYS[methods[0]]
    inputs = prepare(first, rows)
    began = time.perf_counter()
    regressor = make_estimator(random_state=0, device=device, **(QUICK if quick else {}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        std = inputs.train_std if first.std_at_fit else None
        regressor.fit(inputs.train, rows.train_y, X_std=std)
    seconds = time.perf_counter() - began
    return [
        shared
        | {"method": name, "n_indicators": inputs.n_indicators, "fit_seconds": seconds}
        | score(regressor, prepare(WAYS[name], rows), rows.test_y, WAYS[name].std_at_predict)
        for name in methods
    ]


def score(regressor: BaseRegressor, inputs: Inputs, y: Array, std: bool) -> dict[str, float]:
    """Return the scores of test rows, and of the same rows with all their cells."""
    began = time.perf_counter()
    mixture = regressor.predict_distribution(inputs.test, X_std=inputs.test_std if std else None)
    targets = torch.as_tensor(y[:, None], device=mixture.weights.device)
    mean, density = mixture.mean, mixture.log_density(targets)
    seconds = time.perf_counter() - began
    inside = (mixture.cdf(targets) - 0.5).abs() <= 0.45
    crps = mixture.crps(targets)
    complete = regressor.predict_distribution(inputs.complete)
    return {
        "predict_seconds": seconds,
        "rmse": _rmse(mean - targets),
        "mnlp": -density.mean().item(),
        "crps": crps.mean().item(),
        "coverage": inside.double().mean().item(),
        "complete_rmse": _rmse(complete.mean - targets),
        "complete_mnlp": -complete.log_density(targets).mean().item(),
    }


def _rmse(errors: torch.Tensor) -> float:
    return errors.square().mean().sqrt().item()


def score_lightgbm(rows: Rows) -> dict[str, float]:
    """Return the scores of LightGBM, whose trees have branches for missing cells."""
    began = time.perf_counter()
    fitted = LightGBM().fit(rows.train_x, rows.train_y, 0, "cpu")
    fit_seconds = time.perf_counter() - began
    began = time.perf_counter()
    found = fitted.predict(rows.test_x)
    density = found.log_density(rows.test_y)
    seconds = time.perf_counter() - began
    lower, upper = found.interval(0.9)
    complete = fitted.predict(rows.complete_x)
    return {
        "fit_seconds": fit_seconds,
        "predict_seconds": seconds,
        "rmse": _rmse(torch.as_tensor(found.mean - rows.test_y)),
        "mnlp": -float(density.mean()),
        "crps": float(found.crps(rows.test_y).mean()),
        "coverage": float(np.mean((lower <= rows.test_y) & (rows.test_y <= upper))),
        "complete_rmse": _rmse(torch.as_tensor(complete.mean - rows.test_y)),
        "complete_mnlp": -float(complete.log_density(rows.test_y).mean()),
    }


if __name__ == "__main__":
    main()
