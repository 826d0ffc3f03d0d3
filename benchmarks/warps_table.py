"""The second table of docs/default.md: joint warps beside separate ones.

    python benchmarks/warps_table.py [results/accuracy.csv results/accuracy-separate.csv]

Means over the repeats that both files have, and of the differences with their standard errors.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import mean, stdev

from sswim.lab.bench.accuracy import Row
from sswim.lab.bench.results import read_results


def table(joint: list[Row], separate: list[Row]) -> str:
    """As GitHub reads it."""
    lines = [
        "| set | repeats | joint, RMSE / MNLP | separate | difference of RMSE, % | of MNLP |",
        "|---|---|---|---|---|---|",
    ]
    others = {(row.set, row.repeat): row for row in separate}
    for name in dict.fromkeys(row.set for row in joint):
        pairs = [
            (row, others[name, row.repeat])
            for row in joint
            if row.set == name and (name, row.repeat) in others
        ]
        level = mean(other.rmse for _, other in pairs)
        errors = [100 * (row.rmse - other.rmse) / level for row, other in pairs]
        densities = [row.mnlp - other.mnlp for row, other in pairs]
        cells = [_scores([row for row, _ in pairs]), _scores([other for _, other in pairs])]
        cells += [_difference(errors, 1), _difference(densities, 3)]
        lines.append(f"| {name} | {len(pairs)} | {' | '.join(cells)} |".replace("-", "−"))
    return "\n".join(lines)


def _scores(rows: list[Row]) -> str:
    return f"{mean(row.rmse for row in rows):.4g} / {mean(row.mnlp for row in rows):.3f}"


def _difference(values: list[float], digits: int) -> str:
    error = stdev(values) / len(values) ** 0.5
    return f"{mean(values):+.{digits}f} ± {error:.{digits}f}"


if __name__ == "__main__":
    paths = sys.argv[1:] or ["results/accuracy.csv", "results/accuracy-separate.csv"]
    print(table(*(list(read_results(Path(path))) for path in paths)))
