"""Time training steps of sswim and of its peers at many sizes.

    python lab/benchmarks/speed.py [--device cuda] [--most-rows 100000]

Each case is measured by ``step.py`` in its own process and appended to the result file when it is
done. Cases that are in the file already are skipped, so the same command continues after an
interruption. After a change of the code, use another file. ``--table FILE`` prints the table.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from itertools import product
from pathlib import Path
from typing import Any

from peers import Case
from scripting import (
    DTYPES,
    add_device,
    add_out,
    append_row,
    read_rows,
    result_path,
    script_parser,
    table_line,
)
from step import NAMES, in_own_process, ratios

from sswim.distributed.processes import resolve_device

RATIOS = {
    "sswim/gram": "sswim / ΦᵀΦ",
    "sgpr/sswim": "SGPR / sswim",
    "svgp_epoch/sswim": "SVGP epoch / sswim",
    "exact_gp/sswim": "exact GP / sswim",
}
SECONDS = {"sswim_s": "sswim, ms", "gram_s": "ΦᵀΦ, ms", "sgpr_s": "SGPR, ms"}
PEAKS = {"sswim_peak_bytes": "sswim, MiB", "sgpr_peak_bytes": "SGPR, MiB"}


def table(rows: Sequence[Mapping[str, str]]) -> str:
    """Return the cases of one file as a Markdown table."""
    seconds = SECONDS if rows[0]["device"] == "cuda" else {}
    header = [
        "N",
        "J",
        "warps",
        "members",
        "dtype",
        *seconds.values(),
        *RATIOS.values(),
        *PEAKS.values(),
    ]
    lines = [header, ["---"] * len(header)]
    for row in sorted(rows, key=_order):
        numbers = {f"{name}_s": _number(row[f"{name}_s"]) for name in NAMES}
        quotients = ratios({**numbers, "members": int(row["members"])})
        lines.append(
            [
                f"{int(row['rows']):,}",
                *(row[name] for name in ("depth", "warps", "members", "dtype")),
                *(_cell(numbers[name], 1e3) for name in seconds),
                *(_cell(quotients[name]) for name in RATIOS),
                *(_cell(_number(row[name]), 2**-20) for name in PEAKS),
            ]
        )
    threads = f", {rows[0]['threads']} threads" if not seconds else ""
    caption = f"{rows[0]['device_name']}{threads}; {rows[0]['versions']}."
    return "\n".join([table_line(line) for line in lines] + ["", caption])


def _order(row: Mapping[str, str]) -> tuple[str, int, int, int]:
    return row["dtype"], int(row["members"]), int(row["rows"]), int(row["depth"])


def _number(cell: str) -> float | None:
    return float(cell) if cell else None


def _cell(value: float | None, unit: float = 1.0) -> str:
    """Return a number with three digits (large ones in full), or a dash if it is missing."""
    if value is None:
        return "–"
    value *= unit
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


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
    parser.add_argument("--table", type=Path, nargs="+", help="print the tables of these files")
    asked = parser.parse_args()
    if asked.table:
        print("\n\n".join(table(read_rows(path)) for path in asked.table))
        return 0
    device = resolve_device(asked.device).type
    path = result_path(asked.out, device)
    cases = [case for case in CASES if case.rows <= asked.most_rows]
    failed = run(cases, path, lambda case: in_own_process(case, device, peers=True))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
