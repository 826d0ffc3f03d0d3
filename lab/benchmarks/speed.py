"""Time training steps of sswim and of its peers at many sizes.

    python lab/benchmarks/speed.py [--device cuda] [--most-rows 100000]

Each case is measured by ``step.py`` in its own process and appended to the result file when it is
done. Cases that are in the file already are skipped, so the same command continues after an
interruption. After a change of the code, use another file. ``speed_table.py`` prints the table.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from itertools import product
from pathlib import Path
from typing import Any

from arguments import DTYPES, add_device, add_out, result_path, script_parser
from csv_rows import append_row, read_rows
from peers import Case
from step import NAMES, in_own_process

from sswim.base.devices import resolve_device

ROWS, DEPTHS = (1_000, 10_000, 100_000, 500_000), (0, 1, 2)
CASES = (
    *(Case(rows, depth, dtype=dtype) for rows, depth, dtype in product(ROWS, DEPTHS, DTYPES)),
    *(Case(20_000, 1, dtype=dtype) for dtype in DTYPES),
    *(Case(10_000, 1, members=8, dtype=dtype) for dtype in DTYPES),
    *(Case(500_000, depth, dtype=dtype, warps="separate") for depth in (1, 2) for dtype in DTYPES),
)
SIZES = tuple(field.name for field in fields(Case))
COLUMNS = (
    "device",
    "device_name",
    "threads",
    "versions",
    *SIZES,
    *(f"{name}_s" for name in NAMES),
    *(f"{name}_peak_bytes" for name in NAMES),
    "left_out",
)


def missing(cases: Sequence[Case], path: Path) -> list[Case]:
    """Return the cases that a file does not have, in order of their number of rows."""
    done = {tuple(row[name] for name in SIZES) for row in read_rows(path)}
    wanted = sorted(cases, key=lambda case: case.rows)
    return [case for case in wanted if tuple(map(str, asdict(case).values())) not in done]


def run(cases: Sequence[Case], path: Path, measure: Callable[[Case], dict[str, Any]]) -> list[Case]:
    """Measure cases that a file does not have and append them; return the cases that failed."""
    failed = []
    for case in missing(cases, path):
        try:
            measured = measure(case)
        except subprocess.CalledProcessError as error:  # continue with the other cases
            print(f"Failed: {case}, exit code {error.returncode}", file=sys.stderr)
            failed.append(case)
            continue
        append_row(path, {name: cell(measured[name]) for name in COLUMNS})
        print(f"{case}: sswim_s {measured['sswim_s']}, left out {measured['left_out']}", flush=True)
    return failed


def cell(value: object) -> object:
    """Return the cell of a CSV file for a value; a dictionary is written as JSON."""
    return json.dumps(value) if isinstance(value, dict) else value


def main() -> int:
    """Measure the missing cases; return 1 if any failed."""
    parser = script_parser(__doc__)
    add_device(parser)
    parser.add_argument(
        "--most-rows", type=int, default=max(ROWS), help="skip cases with more rows than this"
    )
    add_out(parser, "results/speed-<device>.csv")
    asked = parser.parse_args()
    device = resolve_device(asked.device).type
    path = result_path(asked.out, device)
    cases = [case for case in CASES if case.rows <= asked.most_rows]
    failed = run(cases, path, lambda case: in_own_process(case, device, peers=True))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
