"""Measure how the time and memory of a training step grow with the number of rows.

    python lab/benchmarks/scaling.py [--device cuda] [--rows 10000 30000 100000]

Each number of rows is measured in its own process. The slope is the least-squares slope of log
seconds on log rows: 1 if the time is proportional to the rows. The memory is the peak of training
above its rows and parameters.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from peers import Case
from scripting import add_device, add_dtype, add_out, result_path, script_parser
from step import SIZES, in_own_process

from sswim.distributed.processes import resolve_device

ROWS = (10_000, 30_000, 100_000, 300_000, 1_000_000)


def slope(rows: Sequence[int], seconds: Sequence[float]) -> float:
    """Return the slope of log seconds on log rows."""
    exponent, _ = np.polyfit(np.log(rows), np.log(seconds), 1)
    return float(exponent)


def main() -> None:
    """Measure every number of rows, print and store the results."""
    parser = script_parser(__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS, help="numbers of rows")
    defaults = {"depth": 1, "features": Case.features, "pseudo": Case.pseudo}
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=SIZES[name])
    add_dtype(parser)
    add_device(parser)
    add_out(parser, "results/scaling-<device>.json")
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
        "command": "python lab/benchmarks/scaling.py",
        **{name: measured[name] for name in (*described, *settings)},
        "points": points,
        "slope": slope(asked.rows, [point["seconds"] for point in points]),
    }
    print(f"slope {result['slope']:.3f}")
    out = result_path(asked.out, device)
    out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def describe(point: dict[str, Any]) -> str:
    """Return a line of text about one number of rows."""
    peak = point["peak_bytes"]
    memory = "memory not known" if peak is None else f"{peak / 2**20:.1f} MiB above the rows"
    return f"{point['rows']} rows: {point['seconds']:.4g} s, {memory}"


if __name__ == "__main__":
    main()
