"""How the time and memory of a training step grow with the number of rows.

    python benchmarks/scaling.py [--device cuda] [--rows 10000 30000 100000]

Each number of rows has a process of its own. The slope is that of the logarithm of the seconds on
the logarithm of the rows, by least squares: 1 if time is proportional to rows. The memory is the
most that training has in use above its rows and parameters.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
from peers import Case, DType
from step import DEVICES, in_own_process

from sswim.base.devices import resolve_device

ROWS = (10_000, 30_000, 100_000, 300_000, 1_000_000)


def slope(rows: Sequence[int], seconds: Sequence[float]) -> float:
    """Of log seconds on log rows."""
    exponent, _ = np.polyfit(np.log(rows), np.log(seconds), 1)
    return float(exponent)


def main() -> None:
    """Measure every number of rows; print and store what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--depth", type=int, default=1)
    parser.add_argument("--features", type=int, default=Case.features)
    parser.add_argument("--pseudo", type=int, default=Case.pseudo)
    parser.add_argument("--dtype", choices=get_args(DType), default=Case.dtype)
    parser.add_argument("--device", choices=DEVICES, default="auto")
    parser.add_argument("--out", type=Path, help="results/scaling-<device>.json by default")
    asked = parser.parse_args()
    device = resolve_device(asked.device).type
    points = []
    for rows in asked.rows:
        case = Case(rows, asked.depth, asked.features, asked.pseudo, dtype=asked.dtype)
        measured = in_own_process(case, device, peers=False)
        points.append(
            {
                "rows": rows,
                "seconds": measured["sswim_s"],
                "peak_bytes": measured["sswim_peak_bytes"],
                "sswim/gram": measured["sswim/gram"],
            }
        )
        print(describe(points[-1]), flush=True)
    described = ("device", "device_name", "threads", "versions")
    settings = ("depth", "features", "pseudo", "inputs", "dtype")
    result = {
        "command": "python benchmarks/scaling.py",
        **{name: measured[name] for name in (*described, *settings)},
        "points": points,
        "slope": slope(asked.rows, [point["seconds"] for point in points]),
    }
    print(f"slope {result['slope']:.3f}")
    out = asked.out or Path(f"results/scaling-{device}.json")
    out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def describe(point: dict[str, Any]) -> str:
    """A line about a number of rows."""
    peak = point["peak_bytes"]
    memory = "memory not known" if peak is None else f"{peak / 2**20:.1f} MiB above the rows"
    return f"{point['rows']} rows: {point['seconds']:.4g} s, {memory}"


if __name__ == "__main__":
    main()
