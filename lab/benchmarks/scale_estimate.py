"""Estimate the time of more rows on more GPUs from measurements of one GPU.

    python lab/benchmarks/scale_estimate.py --results results/scale-cuda.csv

The time of a step is the time for the rows of one process, which is linear in their number, plus
the time of two all-reduces, which does not depend on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch
from scripting import RESULTS, read_rows, script_parser, table_line

from sswim.members.linear_regression import total_statistics
from sswim.members.model import Architecture
from sswim.members.start import start
from sswim.rows import as_rows

ROWS = (10**9, 10**12)
GPUS = (8, 64, 512)
STEPS = 150
LINK = 50e9
"""Bytes per second that a GPU sends, with a network of 400 Gbit/s for each GPU."""
LATENCY = 20e-6
"""Seconds that a message takes from one GPU to another."""
ROW_MEMORY = 100e9
"""Bytes of a GPU that are free for rows."""


@dataclass(frozen=True)
class Measured:
    """Measured cost of one GPU."""

    columns: int
    features: int
    pseudo: int
    held: float
    """Seconds of a step per row if the GPU holds the rows."""
    streamed: float
    """Seconds of a step per row if rows are read from Parquet in both passes of a step."""

    @property
    def bytes_per_row(self) -> int:
        """Bytes of a row: inputs in single precision and a target in double precision."""
        return 4 * self.columns + 8

    def reduced_bytes(self) -> int:
        """Return the bytes that a step reduces: statistics, and gradients of the factors."""
        architecture = Architecture(depth=1, n_frequencies=self.features // 2, n_pseudo=self.pseudo)
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(self.pseudo, self.columns, generator=generator, dtype=torch.float64)
        factors, _ = start(architecture, x, 1, generator).factors()
        total = total_statistics(factors, as_rows(x, x[:, 0]))
        return 8 * sum(tensor.numel() for tensor in (*factors.tensors(), *total.tensors()))


def read(path: Path) -> Measured:
    """Return the cost per row, from the largest number of rows measured."""
    found = read_rows(path)
    most = max(int(row["rows"]) for row in found)
    cost = {}
    for streamed in ("True", "False"):
        runs = [row for row in found if int(row["rows"]) == most and row["streamed"] == streamed]
        cost[streamed] = median(float(run["seconds_per_step"]) for run in runs) / most
    first = {name: int(found[0][name]) for name in ("columns", "features", "pseudo")}
    return Measured(**first, held=cost["False"], streamed=cost["True"])


def exchange_seconds(n_bytes: int, n_gpus: int) -> float:
    """Return the seconds of a step's all-reduces: each byte is sent and received once."""
    return 2 * n_bytes / LINK + 2 * LATENCY * math.log2(n_gpus)


def format_duration(seconds: float) -> str:
    """Return a duration in the largest suitable unit."""
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"


def markdown(measured: Measured) -> str:
    """Return a sentence about the measured cost and a Markdown table of the estimates."""
    n_bytes = measured.reduced_bytes()
    lines = [
        f"A GPU takes {1e9 * measured.held:.3g} ns per row and step if it holds the rows, "
        f"{1e9 * measured.streamed:.3g} ns if it reads them. "
        f"A step sends {n_bytes / 2**20:.3g} MiB.",
        "",
        "| rows | GPUs | rows per GPU | of them, GB | rows are | a step | of it, exchange | "
        f"{STEPS} steps |",
        "| ---: | ---: | ---: | ---: | --- | ---: | ---: | ---: |",
    ]
    for n_rows in ROWS:
        for n_gpus in GPUS:
            each = n_rows / n_gpus
            row_bytes = each * measured.bytes_per_row
            held = row_bytes <= ROW_MEMORY
            exchange = exchange_seconds(n_bytes, n_gpus)
            step = each * (measured.held if held else measured.streamed) + exchange
            cells = [
                f"10^{round(math.log10(n_rows))}",
                f"{n_gpus}",
                f"{each:.3g}",
                f"{row_bytes / 1e9:.3g}",
                "held" if held else "read again",
                format_duration(step),
                f"{1e3 * exchange:.2g} ms",
                format_duration(STEPS * step),
            ]
            lines.append(table_line(cells))
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = script_parser(__doc__)
    parser.add_argument(
        "--results",
        type=Path,
        default=RESULTS / "scale-cuda.csv",
        help="measured times",
    )
    print(markdown(read(parser.parse_args().results)))


if __name__ == "__main__":
    main()
