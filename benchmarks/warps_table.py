"""Print the second table of docs/default.md: joint warps and separate warps.

    python benchmarks/warps_table.py [results/accuracy.csv results/accuracy-separate.csv]

Scores are means over the repeats that both files have; differences have standard errors.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import mean, stdev

from markdown_tables import table_line

from sswim.lab.bench.accuracy import Row
from sswim.lab.bench.results import read_results


def table(joint: list[Row], separate: list[Row]) -> str:
    """Return the results as a Markdown table."""
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
        cells = [
            _scores_cell([row for row, _ in pairs]),
            _scores_cell([other for _, other in pairs]),
        ]
        cells += [_difference_cell(errors, 1), _difference_cell(densities, 3)]
        lines.append(table_line([name, str(len(pairs)), *cells]).replace("-", "−"))
    return "\n".join(lines)


def _scores_cell(rows: list[Row]) -> str:
    """Return a cell with the mean RMSE and MNLP."""
    return f"{mean(row.rmse for row in rows):.4g} / {mean(row.mnlp for row in rows):.3f}"


def _difference_cell(values: list[float], digits: int) -> str:
    """Return a cell with a mean difference and its standard error."""
    error = stdev(values) / len(values) ** 0.5
    return f"{mean(values):+.{digits}f} ± {error:.{digits}f}"


if __name__ == "__main__":
    paths = sys.argv[1:] or ["results/accuracy.csv", "results/accuracy-separate.csv"]
    print(table(*(list(read_results(Path(path))) for path in paths)))
