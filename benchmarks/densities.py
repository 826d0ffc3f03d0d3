"""What output warps and input-dependent noise do for densities and errors on real data.

    SSWIM_DATA=folder python benchmarks/densities.py [--workers 2] [--data abalone creep …]

Every data set, repeat and variant is one line of ``results/densities.jsonl``, written as soon as it
is done; what is there already is not computed again. ``--summary`` only prints the table, in which
"mixed" is the equal mixture of the members of all depths: one setting for every data set.
"""

from __future__ import annotations

import argparse
import json
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

from sswim import SSWIMRegressor
from sswim.lab.datasets.named import Split, split

RESULTS = Path(__file__).parents[1] / "results" / "densities.jsonl"

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
"""Depths, and what differs from the defaults. (The paper has the RBF kernel on the first three.)"""

Key = tuple[str, int, str]
"""Data set, repeat, variant."""


def main() -> None:
    """Compute what is missing, then print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--summary", action="store_true", help="only print the table")
    arguments = parser.parse_args()
    if not arguments.summary:
        wanted = product(range(arguments.repeats), arguments.data, arguments.variants)
        keys = [(data, repeat, variant) for repeat, data, variant in wanted]
        done = {(run["data"], run["repeat"], run["variant"]) for run in read(arguments.results)}
        compute([key for key in keys if key not in done], arguments)
    print("\n".join(table(read(arguments.results))))


def compute(keys: list[Key], arguments: argparse.Namespace) -> None:
    """Run fits in processes of one thread each, and append every result as it comes."""
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    context = get_context("spawn")  # CUDA does not survive a fork
    with (
        ProcessPoolExecutor(arguments.workers, context, torch.set_num_threads, (1,)) as pool,
        arguments.results.open("a") as file,
    ):
        futures = [pool.submit(run, key, arguments.device) for key in keys]
        for number, future in enumerate(as_completed(futures), start=1):
            result = future.result()
            file.write(json.dumps(result) + "\n")
            file.flush()
            name = " ".join(str(result[field]) for field in ("data", "repeat", "variant"))
            print(f"{number} of {len(keys)}: {name}, {result['seconds']:.0f} s", flush=True)


def run(key: Key, device: str) -> dict[str, Any]:
    """Fit every depth of a variant to a repeat, and score each and their mixture."""
    data, repeat, variant = key
    depths, settings = SETTINGS[data]
    rows = split(data, repeat)
    settings = settings | VARIANTS[variant] | {"random_state": repeat}
    began = time.perf_counter()
    means, densities, scores = [], [], {}
    for depth in depths:
        regressor = SSWIMRegressor(depth=depth, **settings, device=device)
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
    """On the original scale, and with the target standardised by the training rows."""
    spread = float(rows.train_y.std())
    mse, mnlp = float(np.mean((mean - rows.test_y) ** 2)), -float(np.mean(log_density))
    return {
        "mse": mse,
        "mnlp": mnlp,
        "standardised_rmse": mse**0.5 / spread,
        "standardised_mnlp": mnlp - float(np.log(spread)),
    }


def _coverage(regressor: SSWIMRegressor, rows: Split) -> float:
    lower, upper = regressor.predict_interval(rows.test_x, 0.9)
    return float(np.mean((lower <= rows.test_y) & (rows.test_y <= upper)))


def read(path: Path) -> list[dict[str, Any]]:
    """The results so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(runs: list[dict[str, Any]]) -> Iterator[str]:
    """Means over the repeats, with their standard errors, as Markdown."""
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
            _mean([score[name] for score in scores])
            for name in ("mse", "mnlp", "standardised_rmse", "standardised_mnlp")
        ]
        yield f"| {data} | {depth} | {variant} | {len(scores)} | {' | '.join(cells)} |"


def _mean(values: list[float]) -> str:
    error = np.std(values) / max(1, len(values) - 1) ** 0.5
    return f"{np.mean(values):.4g} ± {error:.1g}"


if __name__ == "__main__":
    main()
