"""The table of docs/default.md: the default without each of its ingredients.

    python benchmarks/ablation_table.py [results/ablation.csv]

One line for each method in a file that ``sswim bench accuracy`` wrote, standardised RMSE / MNLP for
each set, the mean over its repeats.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from sswim.lab.bench.accuracy import Row
from sswim.lab.bench.results import read_results


def table(rows: Sequence[Row]) -> str:
    """As GitHub reads it."""
    sets = list(dict.fromkeys(row.set for row in rows))
    methods = sorted({row.method for row in rows}, key=lambda name: (name != "sswim", name))
    lines = [f"| | {' | '.join(sets)} |", f"|---|{'---|' * len(sets)}"]
    for method in methods:
        cells = []
        for name in sets:
            some = [row for row in rows if row.method == method and row.set == name]
            scores = mean(row.rmse for row in some), mean(row.mnlp for row in some)
            cells.append("{:.3f} / {:.3f}".format(*scores).replace("-", "−"))
        label = "the default" if method == "sswim" else method.removeprefix("sswim-")
        lines.append(f"| {label.replace('-', ' ')} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    [path] = sys.argv[1:] or ["results/ablation.csv"]
    print(table(read_results(Path(path))))
