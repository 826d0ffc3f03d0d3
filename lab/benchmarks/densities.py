"""Measure the effect of output warps and input-dependent noise on real data.

    SSWIM_DATA=folder python lab/benchmarks/densities.py [--workers 2] [--data abalone creep …]

Every data set, repeat and variant is one line of ``results/densities.jsonl``, appended when it is
done; fits that are in the file already are skipped. ``--summary`` only prints the table. There,
"mixed" is the equally weighted mixture of the models of all depths, one setting for all data sets.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scripting import append_line, read_lines, script_parser, stored, table_line
from sswim_lab.datasets import Split, split

from sswim import WarpedGPRegressor
from sswim.estimator import BaseRegressor

RESULTS = Path("results/densities.jsonl")

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "warp": {"output_warp": "sinh-arcsinh"},
    "tanh": {"output_warp": "tanh", "n_output_terms": 3},
    "noise": {"noise": "input-dependent"},
    "both": {"output_warp": "sinh-arcsinh", "noise": "input-dependent"},
}
SETTINGS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "abalone": ((0, 1, 2), {"n_members": 3, "kernel": "rbf"}),
    "creep": ((0, 1, 2), {"n_members": 3, "kernel": "rbf"}),
    "ailerons": ((0, 1, 2), {"n_members": 3, "kernel": "rbf"}),
    "supercond": ((1,), {"n_members": 3, "n_components": 1024}),
}
"""Depths and settings of each data set. (The paper uses the RBF kernel on the first three.)"""

Key = tuple[str, int, str]
"""Data set, repeat, variant."""


def main() -> None:
    """Run the missing fits, then print the table."""
    parser = script_parser(__doc__)
    parser.add_argument(
        "--data", nargs="+", choices=SETTINGS, default=list(SETTINGS), help="data sets"
    )
    parser.add_argument(
        "--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS), help="kinds of model"
    )
    parser.add_argument("--repeats", type=int, default=10, help="number of splits")
    parser.add_argument("--workers", type=int, default=1, help="number of processes")
    parser.add_argument("--device", default="auto", help="device to fit on")
    parser.add_argument("--results", type=Path, default=RESULTS, help="result file")
    parser.add_argument("--summary", action="store_true", help="only print the table")
    arguments = parser.parse_args()
    if not arguments.summary:
        wanted = product(range(arguments.repeats), arguments.data, arguments.variants)
        keys = [(data, repeat, variant) for repeat, data, variant in wanted]
        done = {
            (run["data"], run["repeat"], run["variant"]) for run in read_lines(arguments.results)
        }
        compute([key for key in keys if key not in done], arguments)
    print("\n".join(table(read_lines(stored(arguments.results)))))


def compute(keys: list[Key], arguments: argparse.Namespace) -> None:
    """Run fits in processes of one thread each and append every result when it is done."""
    context = get_context("spawn")  # CUDA does not work after a fork
    with ProcessPoolExecutor(arguments.workers, context, torch.set_num_threads, (1,)) as pool:
        futures = [pool.submit(run, key, arguments.device) for key in keys]
        for number, future in enumerate(as_completed(futures), start=1):
            result = future.result()
            append_line(arguments.results, result)
            name = " ".join(str(result[field]) for field in ("data", "repeat", "variant"))
            print(f"{number} of {len(keys)}: {name}, {result['seconds']:.0f} s", flush=True)


def run(key: Key, device: str) -> dict[str, Any]:
    """Fit models of every depth to one split; return their scores and those of their mixture."""
    data, repeat, variant = key
    depths, settings = SETTINGS[data]
    rows = split(data, repeat)
    settings = settings | VARIANTS[variant] | {"random_state": repeat}
    began = time.perf_counter()
    means, densities, scores = [], [], {}
    for depth in depths:
        regressor = WarpedGPRegressor(depth=depth, **settings, device=device)
        regressor.fit(rows.train_x, rows.train_y)
        means.append(np.asarray(regressor.predict(rows.test_x)))
        densities.append(regressor.log_density(rows.test_x, rows.test_y))
        coverage = _coverage(regressor, rows)
        scores[str(depth)] = score(rows, means[-1], densities[-1]) | {"coverage": coverage}
    if len(depths) > 1:
        mixture = np.logaddexp.reduce(densities, axis=0) - np.log(len(depths))
        scores["mixed"] = score(rows, np.mean(means, axis=0), mixture)
    return {
        "data": data,
        "repeat": repeat,
        "variant": variant,
        "settings": settings,
        "scores": scores,
        "seconds": time.perf_counter() - began,
        "torch": torch.__version__,
    }


def score(
    rows: Split, mean: NDArray[np.float64], log_density: NDArray[np.float64]
) -> dict[str, float]:
    """Return scores in the units of the target, and of the target standardised by training rows."""
    spread = float(rows.train_y.std())
    mse, mnlp = float(np.mean((mean - rows.test_y) ** 2)), -float(np.mean(log_density))
    return {
        "mse": mse,
        "mnlp": mnlp,
        "standardised_rmse": mse**0.5 / spread,
        "standardised_mnlp": mnlp - float(np.log(spread)),
    }


def _coverage(regressor: BaseRegressor, rows: Split) -> float:
    """Return the fraction of test rows within their 90 % intervals."""
    lower, upper = regressor.predict_interval(rows.test_x, 0.9)
    return float(np.mean((lower <= rows.test_y) & (rows.test_y <= upper)))


def table(runs: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a Markdown table of means over the repeats with their standard errors."""
    groups: dict[tuple[str, str, str], list[dict[str, float]]] = defaultdict(list)
    for result in runs:
        for depth, scores in result["scores"].items():
            groups[result["data"], depth, result["variant"]].append(scores)
    yield "| data | depth | variant | repeats | MSE | MNLP | RMSE, std. | MNLP, std. |"
    yield "|---|---|---|---|---|---|---|---|"
    order = list(VARIANTS)
    for data, depth, variant in sorted(groups, key=lambda k: (k[0], k[1], order.index(k[2]))):
        scores = groups[data, depth, variant]
        cells = [
            _mean_cell([score[name] for score in scores])
            for name in ("mse", "mnlp", "standardised_rmse", "standardised_mnlp")
        ]
        yield table_line([data, depth, variant, str(len(scores)), *cells])


def _mean_cell(values: list[float]) -> str:
    """Return a cell with a mean and its standard error."""
    error = np.std(values) / max(1, len(values) - 1) ** 0.5
    return f"{np.mean(values):.4g} ± {error:.1g}"


if __name__ == "__main__":
    main()
