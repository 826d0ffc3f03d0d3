"""Print the first table of docs/default.md: the default without each of its parts.

    python benchmarks/ablation_table.py [results/ablation.csv]

There is one line for each method in a file that ``sswim bench accuracy`` wrote, with standardised
RMSE / MNLP for each data set, averaged over its repeats.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from markdown_tables import scores_cell, table_line

from sswim.lab.bench.accuracy import Row
from sswim.lab.bench.results import read_results


def table(rows: Sequence[Row]) -> str:
    """Return the results as a Markdown table."""
    sets = list(dict.fromkeys(row.set for row in rows))
    methods = sorted({row.method for row in rows}, key=lambda name: (name != "sswim", name))
    lines = [f"| | {' | '.join(sets)} |", f"|---|{'---|' * len(sets)}"]
    for method in methods:
        cells = []
        for name in sets:
            repeats = [row for row in rows if row.method == method and row.set == name]
            rmse, mnlp = mean(row.rmse for row in repeats), mean(row.mnlp for row in repeats)
            cells.append(scores_cell(rmse, mnlp))
        label = "the default" if method == "sswim" else method.removeprefix("sswim-")
        lines.append(table_line([label.replace("-", " "), *cells]))
    return "\n".join(lines)


if __name__ == "__main__":
    [path] = sys.argv[1:] or ["results/ablation.csv"]
    print(table(read_results(Path(path))))
