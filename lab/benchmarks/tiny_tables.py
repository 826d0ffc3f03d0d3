"""Fit the default to tiny tables of noise, and compare its errors with those of the mean.

    python lab/benchmarks/tiny_tables.py --splits 20
    python lab/benchmarks/tiny_tables.py --table

Where there is little or nothing to learn, a model should be no worse than the mean of the rows. One
line is written for every table, number of rows and split: the RMSE of 1,000 further rows over that
of the mean, the excess of MNLP over that of a normal distribution, and the coverage of 90 %
intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scripting import (
    add_results,
    append_line,
    markdown_table,
    read_lines,
    rmse,
    script_parser,
    shows_stored,
)

from sswim import SSWIMRegressor

N_TEST = 1000
SIZES = (30, 60, 120, 200)

Function = Callable[[np.ndarray], np.ndarray]
TABLES: dict[str, tuple[int, Function]] = {
    "noise, 1 input": (1, lambda x: 0 * x[:, 0]),
    "noise, 3 inputs": (3, lambda x: 0 * x[:, 0]),
    "weak wave, 1 input": (1, lambda x: 0.5 * np.sin(3 * x[:, 0])),
    "weak slope, 2 inputs": (2, lambda x: 0.3 * x[:, 0]),
    "weak product, 3 inputs": (3, lambda x: 0.3 * x[:, 0] * x[:, 1]),
}
"""Number of inputs, and the function to which noise of unit variance is added."""


def measure(name: str, n_rows: int, split: int) -> dict[str, Any]:
    """Return the scores of one split of one table."""
    n_inputs, function = TABLES[name]
    random = np.random.default_rng([split, n_rows, n_inputs])
    x = random.normal(size=(n_rows + N_TEST, n_inputs))
    y = function(x) + random.normal(size=len(x))
    new_x, new_y = x[n_rows:], y[n_rows:]
    model = SSWIMRegressor(random_state=split).fit(x[:n_rows], y[:n_rows])
    mean, spread = y[:n_rows].mean(), y[:n_rows].std()
    lower, upper = model.predict_interval(new_x)
    normal = 0.5 * np.mean(((new_y - mean) / spread) ** 2 + np.log(2 * np.pi * spread**2))
    return {
        "table": name,
        "rows": n_rows,
        "split": split,
        "rmse_over_mean": rmse(model.predict(new_x) - new_y) / rmse(mean - new_y),
        "mnlp_over_normal": -float(model.log_density(new_x, new_y).mean()) - float(normal),
        "coverage": float(np.mean((lower <= new_y) & (new_y <= upper))),
    }


def table(found: Sequence[dict[str, Any]]) -> str:
    """Return the means over the splits as a Markdown table."""
    sizes = sorted({each["rows"] for each in found})
    rows = []
    for name in dict.fromkeys(each["table"] for each in found):
        cells = []
        for size in sizes:
            part = [e for e in found if (e["table"], e["rows"]) == (name, size)]
            ratio = np.mean([each["rmse_over_mean"] for each in part]) if part else np.nan
            coverage = np.mean([each["coverage"] for each in part]) if part else np.nan
            cells.append(f"{ratio:.3f} / {coverage:.0%} ({len(part)})")
        rows.append([name, *cells])
    return markdown_table(["table", *(f"{size} rows" for size in sizes)], rows)


def main() -> None:
    """Measure the splits that the results lack, or print the table."""
    parser = script_parser(__doc__)
    parser.add_argument("--splits", type=int, default=20, help="number of splits")
    add_results(parser, "results/tiny-tables.jsonl")
    arguments = parser.parse_args()
    if shows_stored(arguments, table):
        return
    done = {(each["table"], each["rows"], each["split"]) for each in read_lines(arguments.out)}
    for split in range(arguments.splits):
        for name in TABLES:
            for n_rows in SIZES:
                if (name, n_rows, split) not in done:
                    append_line(arguments.out, measure(name, n_rows, split))


if __name__ == "__main__":
    main()
