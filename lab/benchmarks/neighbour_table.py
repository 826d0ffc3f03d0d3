"""The tables of docs/neighbours.md, from results/neighbours*.csv.

python lab/benchmarks/neighbour_table.py
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
from csv_rows import read_rows

FILES = ("results/neighbours.csv", "results/neighbours-peers.csv")
MODELS = [f"neighbours{depth}{form}" for form in ("", "-scores") for depth in (0, 1, 2)]
PEERS = ["exact-gp-well-trained", "gpboost-vecchia"]
VARIANTS = ["neighbours1-gaussian", "neighbours1-expected"]

Scores = dict[tuple[str, str], list[tuple[float, float]]]


def read_scores() -> Scores:
    """Return RMSE and MNLP of every repeat, by set and method."""
    found: Scores = defaultdict(list)
    for file in FILES:
        for row in read_rows(Path(file)):
            if not row["failure"]:
                scores = (float(row["rmse"]), float(row["mnlp"]))
                found[row["set"], row["method"]].append(scores)
    return found


def cell(scores: list[tuple[float, float]]) -> str:
    """Return the means over repeats, and their number if it is not five."""
    if not scores:
        return "–"
    rmse, mnlp = np.mean(scores, axis=0)
    digits = 4 if rmse < 0.1 else 3
    number = "" if len(scores) == 5 else f" ({len(scores)})"
    return f"{rmse:.{digits}f} / {mnlp:.2f}{number}".replace("-", "−")


def print_table(scores: Scores, methods: list[str]) -> None:
    """Print a Markdown table with a row for each set."""
    print("| set |", " | ".join(f"`{name}`" for name in methods), "|")
    print("|---|" + "---|" * len(methods))
    for name in dict.fromkeys(each for each, _ in scores):
        print(f"| {name} |", " | ".join(cell(scores[name, method]) for method in methods), "|")
    print()


def main() -> None:
    """Print both tables."""
    scores = read_scores()
    print_table(scores, [*MODELS, *PEERS])
    print_table(scores, ["neighbours1", *VARIANTS])


if __name__ == "__main__":
    main()
