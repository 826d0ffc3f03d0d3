"""Training steps at many sizes beside those of other methods, in a file of results.

    python benchmarks/speed.py [--device cuda] [--most-rows 100000] [--out results/speed-cpu.csv]

Each case is measured by ``step.py`` in a process of its own and added to the file as soon as it is
done. Cases that the file has already are not measured again, so that the same command goes on after
an interruption; after a change of the code, name another file. ``speed_table.py`` shows it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from itertools import product
from pathlib import Path
from typing import Any, get_args

from csv_rows import append_row, read_rows
from peers import Case, DType
from step import DEVICES, NAMES, in_own_process

from sswim.base.devices import resolve_device

ROWS, DEPTHS = (1_000, 10_000, 100_000, 500_000), (0, 1, 2)
DTYPES = get_args(DType)
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
    """Cases that a file does not have, those of few rows first."""
    done = {tuple(row[name] for name in SIZES) for row in read_rows(path)}
    wanted = sorted(cases, key=lambda case: case.rows)
    return [case for case in wanted if tuple(map(str, asdict(case).values())) not in done]


def run(cases: Sequence[Case], path: Path, measure: Callable[[Case], dict[str, Any]]) -> list[Case]:
    """Measure the cases that a file does not have and add them to it; those that failed."""
    failed = []
    for case in missing(cases, path):
        try:
            measured = measure(case)
        except subprocess.CalledProcessError as error:  # the others go on
            print(f"Failed: {case}, exit code {error.returncode}", file=sys.stderr)
            failed.append(case)
            continue
        append_row(path, {name: cell(measured[name]) for name in COLUMNS})
        print(f"{case}: sswim_s {measured['sswim_s']}, left out {measured['left_out']}", flush=True)
    return failed


def cell(value: object) -> object:
    """What a file of results has for a value: of reasons, JSON."""
    return json.dumps(value) if isinstance(value, dict) else value


def main() -> int:
    """Measure what is missing; 1 if something failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--device", choices=DEVICES, default="auto")
    parser.add_argument("--most-rows", type=int, default=max(ROWS))
    parser.add_argument("--out", type=Path, help="results/speed-<device>.csv by default")
    asked = parser.parse_args()
    device = resolve_device(asked.device).type
    path = asked.out or Path(f"results/speed-{device}.csv")
    cases = [case for case in CASES if case.rows <= asked.most_rows]
    failed = run(cases, path, lambda case: in_own_process(case, device, peers=True))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
