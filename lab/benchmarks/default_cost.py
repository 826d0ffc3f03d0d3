"""Measure what the default costs: seconds of a fit, bytes of its file, seconds of one row.

    python lab/benchmarks/default_cost.py [--data folder] [--out results/default-cost.jsonl]

Times depend on the machine and on what else it does; the best of several predictions is stored.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from scripting import append_line, script_parser
from sswim_lab.bench.accuracy import load_split
from timing import machine

from sswim import SSWIMRegressor

SIZES = ((1_000, 3), (10_000, 8), (10_000, 20))
"""Numbers of rows and inputs of synthetic tables."""
SETS = ("concrete", "maunaloa_co2")
REPEATS = 15


def synthetic(n_rows: int, n_inputs: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw a table of three inputs that matter, with noise."""
    random = np.random.default_rng(0)
    x = random.normal(size=(n_rows, n_inputs))
    y = np.sin(2 * x[:, 0]) + x[:, 1] * np.abs(x[:, 2]) + 0.2 * random.normal(size=n_rows)
    return x, y


def best_seconds(function: Callable[[], object]) -> float:
    """Return the seconds of the fastest of several calls."""
    times = []
    for _ in range(REPEATS):
        began = perf_counter()
        function()
        times.append(perf_counter() - began)
    return min(times)


def measure(name: str, x: np.ndarray, y: np.ndarray) -> dict[str, object]:
    """Fit the default to a table, and measure it."""
    began = perf_counter()
    model = SSWIMRegressor(random_state=0, device="cpu").fit(x, y)
    seconds = perf_counter() - began
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        size = path.stat().st_size
    return {
        "table": name,
        "rows": len(x),
        "inputs": x.shape[1],
        "members": len(model.members_),
        "fit_seconds": round(seconds, 2),
        "file_megabytes": round(size / 1e6, 3),
        "mean_and_std_ms": round(1e3 * best_seconds(lambda: model.predict(x[:1], True)), 2),
        "interval_ms": round(1e3 * best_seconds(lambda: model.predict_interval(x[:1])), 2),
    }


def main() -> None:
    """Measure all tables and append the results."""
    parser = script_parser(__doc__)
    parser.add_argument("--data", help="folder of the data sets")
    parser.add_argument("--out", type=Path, default=Path("results/default-cost.jsonl"))
    arguments = parser.parse_args()
    tables = {}
    for name in SETS:
        rows = load_split(name, 0, arguments.data)
        tables[name] = rows.train_x, rows.train_y
    tables |= {f"synthetic, {n:,} x {d}": synthetic(n, d) for n, d in SIZES}
    for name, (x, y) in tables.items():
        found = {**measure(name, x, y), **machine(torch.device("cpu"), [])}
        append_line(arguments.out, found)
        print(found, flush=True)


if __name__ == "__main__":
    main()
