"""What the default costs to fit, in seconds, and what its ingredients add.

    python benchmarks/fit_cost.py [--out results/fit-cost.json]

Medians of repeated fits of synthetic tables in one process, after one that does not count. Ratios
are to the default of the same run; on a shared machine they are worth more than the seconds.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sswim import SSWIMRegressor, __version__
from sswim.lab.bench.methods import ABLATIONS

SMALL, LARGE = (687, 8), (10_000, 20)
"""Rows and columns: those of a small table, and of a larger one."""


def make_rows(n: int, d: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A function of a few columns, its noise stronger in places."""
    random = np.random.default_rng(0)
    x = random.normal(size=(n, d))
    noise = 0.3 * random.normal(size=n) * np.exp(0.5 * x[:, 4])
    return x, np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + np.abs(x[:, 3]) + noise


def seconds(size: tuple[int, int], repeats: int, **settings: Any) -> float:
    """The median time of a fit."""
    x, y = make_rows(*size)
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        SSWIMRegressor(random_state=0, device="cpu", **settings).fit(x, y)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results/fit-cost.json"))
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    seconds(SMALL, 1, max_iter=1)  # imports, and the first use of everything
    default = seconds(SMALL, arguments.repeats)
    result: dict[str, Any] = {
        "command": "python benchmarks/fit_cost.py",
        "versions": f"sswim {__version__}, torch {torch.__version__}",
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "repeats": arguments.repeats,
        "seconds of the default": {f"{SMALL[0]} rows × {SMALL[1]}": round(default, 2)},
        "ratio without": {},
    }
    print(f"{SMALL}: {default:.1f} s", flush=True)
    for name, settings in ABLATIONS.items():
        ratio = seconds(SMALL, arguments.repeats, **settings) / default
        result["ratio without"][name] = round(ratio, 2)
        print(f"{name}: {ratio:.2f} of it", flush=True)
    large = seconds(LARGE, 1)
    result["seconds of the default"][f"{LARGE[0]} rows × {LARGE[1]}"] = round(large, 1)
    print(f"{LARGE}: {large:.1f} s", flush=True)
    arguments.out.write_text(
        json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
