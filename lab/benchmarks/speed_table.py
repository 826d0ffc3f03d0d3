"""Print the tables of docs/speed.md: training steps of sswim and of its peers.

    python lab/benchmarks/speed_table.py results/speed-cpu.csv [results/speed-cuda.csv …]

There is one table for each file that ``speed.py`` wrote. A table of a CPU has only ratios, because
the machine was shared; a table of a GPU has milliseconds too.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from csv_rows import read_rows
from markdown_tables import table_line
from step import NAMES, ratios

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


if __name__ == "__main__":
    print("\n\n".join(table(read_rows(Path(path))) for path in sys.argv[1:]))
