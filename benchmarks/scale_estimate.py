"""What more rows would take on more GPUs, from what one GPU was measured to take.

    python benchmarks/scale_estimate.py --out results/scale-cuda.csv

The time of a step is that of a process's rows, which is linear in their number, and that of two
all-reduces, whose size does not depend on it.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch
from csv_rows import read_rows

from sswim.model.architecture import Architecture
from sswim.model.start import start
from sswim.posterior.statistics import total_statistics
from sswim.rows.rows import as_rows

ROWS = (10**9, 10**12)
GPUS = (8, 64, 512)
STEPS = 150
LINK = 50e9
"""Bytes per second that a GPU sends: a network of 400 Gbit/s for each."""
LATENCY = 20e-6
"""Seconds of a message from one GPU to another."""
ROOM = 100e9
"""Bytes of a GPU that are left for rows."""


@dataclass(frozen=True)
class Measured:
    """What one GPU takes."""

    columns: int
    features: int
    pseudo: int
    held: float
    """Seconds of a step for each row, where rows stay on the GPU."""
    streamed: float
    """The same where they are read from Parquet for both passes of a step."""

    @property
    def bytes_per_row(self) -> int:
        """Inputs in single precision, a target in double."""
        return 4 * self.columns + 8

    def reduced_bytes(self) -> int:
        """What a process sends for a step: statistics, and the gradients of what rows need."""
        architecture = Architecture(depth=1, n_frequencies=self.features // 2, n_pseudo=self.pseudo)
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(self.pseudo, self.columns, generator=generator, dtype=torch.float64)
        factors, _ = start(architecture, x, 1, generator).condition()
        total = total_statistics(factors, as_rows(x, x[:, 0]))
        return 8 * sum(tensor.numel() for tensor in (*factors.tensors(), *total.tensors()))


def read(path: Path) -> Measured:
    """The cost per row of the largest number of rows measured."""
    found = read_rows(path)
    most = max(int(row["rows"]) for row in found)
    cost = {}
    for streamed in ("True", "False"):
        runs = [row for row in found if int(row["rows"]) == most and row["streamed"] == streamed]
        cost[streamed] = median(float(run["seconds_per_step"]) for run in runs) / most
    first = {name: int(found[0][name]) for name in ("columns", "features", "pseudo")}
    return Measured(**first, held=cost["False"], streamed=cost["True"])


def exchange_seconds(n_bytes: int, n_gpus: int) -> float:
    """Of the all-reduces of a step: each byte goes out and comes back once."""
    return 2 * n_bytes / LINK + 2 * LATENCY * math.log2(n_gpus)


def in_words(seconds: float) -> str:
    """As people say it."""
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"


def markdown(measured: Measured) -> str:
    """A line for each number of rows and GPUs."""
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
            room = each * measured.bytes_per_row
            held = room <= ROOM
            exchange = exchange_seconds(n_bytes, n_gpus)
            step = each * (measured.held if held else measured.streamed) + exchange
            cells = [
                f"10^{round(math.log10(n_rows))}",
                f"{n_gpus}",
                f"{each:.3g}",
                f"{room / 1e9:.3g}",
                "held" if held else "read again",
                in_words(step),
                f"{1e3 * exchange:.2g} ms",
                in_words(STEPS * step),
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/scale-cuda.csv"))
    print(markdown(read(parser.parse_args().out)))


if __name__ == "__main__":
    main()
