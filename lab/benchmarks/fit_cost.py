"""Measure the time of a fit of the default, and of the default without each of its parts.

    python lab/benchmarks/fit_cost.py [--out results/fit-cost.json]

Times are medians of repeated fits of synthetic tables in one process, after a fit that is not
counted. Ratios are to the default in the same run; on a shared machine they mean more than seconds.
"""

from __future__ import annotations

import json
import platform
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from arguments import script_parser
from sswim_lab.bench.methods import ABLATIONS

from sswim import __version__
from sswim.estimator import make_estimator

SMALL, LARGE = (687, 8), (10_000, 20)
"""Numbers of rows and columns of a small table and of a larger one."""


def make_rows(n: int, d: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return rows of a function of a few columns, with noise that varies."""
    random = np.random.default_rng(0)
    x = random.normal(size=(n, d))
    noise = 0.3 * random.normal(size=n) * np.exp(0.5 * x[:, 4])
    return x, np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + np.abs(x[:, 3]) + noise


def measure_fit(size: tuple[int, int], repeats: int, **settings: Any) -> float:
    """Return the median seconds of a fit."""
    x, y = make_rows(*size)
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        make_estimator(random_state=0, device="cpu", **settings).fit(x, y)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def main() -> None:
    """Measure, print and store the results."""
    parser = script_parser(__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path("results/fit-cost.json"), help="result file"
    )
    parser.add_argument("--repeats", type=int, default=3, help="number of fits")
    arguments = parser.parse_args()
    measure_fit(SMALL, 1, max_iter=1)  # loads code, not counted
    default = measure_fit(SMALL, arguments.repeats)
    result: dict[str, Any] = {
        "command": "python lab/benchmarks/fit_cost.py",
        "versions": f"sswim {__version__}, torch {torch.__version__}",
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "repeats": arguments.repeats,
        "seconds of the default": {f"{SMALL[0]} rows × {SMALL[1]}": round(default, 2)},
        "ratio without": {},
    }
    print(f"{SMALL}: {default:.1f} s", flush=True)
    for name, settings in ABLATIONS.items():
        ratio = measure_fit(SMALL, arguments.repeats, **settings) / default
        result["ratio without"][name] = round(ratio, 2)
        print(f"{name}: {ratio:.2f} of the default", flush=True)
    large = measure_fit(LARGE, 1)
    result["seconds of the default"][f"{LARGE[0]} rows × {LARGE[1]}"] = round(large, 1)
    print(f"{LARGE}: {large:.1f} s", flush=True)
    arguments.out.write_text(
        json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
