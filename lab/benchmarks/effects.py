"""Compare effects of all inputs of Friedman's function with the truth.

    python lab/benchmarks/effects.py --seeds 3
    python lab/benchmarks/effects.py --table
    python lab/benchmarks/effects.py --picture docs/images/effects.png

Friedman's first function has ten inputs, five of which matter:
10 sin(π x0 x1) + 20 (x2 − ½)² + 10 x3 + 5 x4, with noise of unit variance. The effect of an input
is the function averaged over rows with the input set to each value of a grid. The default of sswim
and partial dependence of LightGBM average over the same 100 rows. One line is written for every
number of rows and seed, with the curves. The table has for inputs that matter, and for the others,

- ``error``: root mean square difference of the curve from the true one, over the true one's range;
  over the largest range for inputs that do not matter.
- ``coverage``: share of the grid where the band covers the true curve.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from scripting import (
    add_results,
    append_line,
    markdown_table,
    read_lines,
    script_parser,
    shows_stored,
)
from sswim_lab.peers.trees import LightGBM

from sswim import SSWIMRegressor
from sswim.plotting import CYCLE, INK, axes

Array = NDArray[np.float64]

N_INPUTS = 10
N_RELEVANT = 5
SIZES = (100, 300, 1000)
N_ROWS = 100
"""Number of rows that are averaged over."""
GRID = np.linspace(0.05, 0.95, 19)
LEVEL = 0.9


def friedman(x: Array) -> Array:
    """Return Friedman's first function, without noise."""
    wave = 10 * np.sin(np.pi * x[:, 0] * x[:, 1])
    return wave + 20 * np.square(x[:, 2] - 0.5) + 10 * x[:, 3] + 5 * x[:, 4]


def averages(function: Callable[[Array], Array], rows: Array, place: int) -> Array:
    """Return the mean of a function over rows, with one input set to each value of the grid."""
    points = np.repeat(rows[None], len(GRID), axis=0)
    points[:, :, place] = GRID[:, None]
    return function(points.reshape(-1, N_INPUTS)).reshape(len(GRID), -1).mean(1)


def measure(n_rows: int, seed: int) -> dict[str, Any]:
    """Return the effects of all inputs, and their errors, for one table."""
    random = np.random.default_rng([seed, n_rows])
    x = random.uniform(size=(n_rows, N_INPUTS))
    y = friedman(x) + random.normal(size=n_rows)
    rows = random.uniform(size=(N_ROWS, N_INPUTS))
    model = SSWIMRegressor(random_state=seed).fit(x, y)
    trees = LightGBM().fit(x, y, seed, "cpu")
    inputs, seconds = [], 0.0
    for place in range(N_INPUTS):
        started = process_time()
        effect = model.effect(place, rows, grid=GRID, level=LEVEL)
        seconds += process_time() - started
        truth = averages(friedman, rows, place)
        of_trees = averages(lambda points: trees.predict(points).mean, rows, place)
        inputs.append(
            {
                "truth": _rounded(truth),
                "mean": _rounded(effect.mean),
                "deviation": _rounded(effect.standard_deviation),
                "lower": _rounded(effect.lower),
                "upper": _rounded(effect.upper),
                "trees": _rounded(of_trees),
            }
        )
    return {"rows": n_rows, "seed": seed, "seconds": seconds, "inputs": inputs}


def _rounded(values: Array) -> list[float]:
    return [float(f"{value:.5g}") for value in values]


def errors(line: dict[str, Any], key: str) -> Array:
    """Return the error of every input's curve, over the range of the true one."""
    ranges = np.array([np.ptp(each["truth"]) for each in line["inputs"]])
    unit = np.where(np.arange(N_INPUTS) < N_RELEVANT, ranges, ranges.max())
    found = [np.subtract(each[key], each["truth"]) for each in line["inputs"]]
    return np.sqrt(np.square(found).mean(1)) / unit


def covered(line: dict[str, Any]) -> Array:
    """Return the share of the grid where the band covers the true curve, for every input."""
    return np.array(
        [
            np.mean(
                (np.array(each["lower"]) <= each["truth"])
                & (np.array(each["truth"]) <= each["upper"])
            )
            for each in line["inputs"]
        ]
    )


def table_of(found: Sequence[dict[str, Any]]) -> str:
    """Return errors and coverage as a Markdown table."""
    titles = ["rows", "tables", "error, inputs that matter", "LightGBM", "error, other inputs"]
    titles += ["LightGBM", f"coverage of {LEVEL:.0%} bands", "other inputs"]
    titles.append("CPU seconds per effect")
    lines = []
    for n_rows in sorted({each["rows"] for each in found}):
        part = [each for each in found if each["rows"] == n_rows]
        ours, trees = (np.stack([errors(each, key) for each in part]) for key in ("mean", "trees"))
        cover = np.stack([covered(each) for each in part])
        cells = [str(n_rows), str(len(part))]
        for some in (slice(0, N_RELEVANT), slice(N_RELEVANT, None)):
            cells += [f"{values[:, some].mean():.1%}" for values in (ours, trees)]
        cells += [f"{cover[:, :N_RELEVANT].mean():.0%}", f"{cover[:, N_RELEVANT:].mean():.0%}"]
        cells.append(f"{np.mean([each['seconds'] for each in part]) / N_INPUTS:.1f}")
        lines.append(cells)
    return markdown_table(titles, lines)


def draw(found: Sequence[dict[str, Any]], path: Path, n_rows: int = 300) -> None:
    """Draw the effects of the first table with so many rows, beside the truth."""
    line = next(each for each in found if (each["rows"], each["seed"]) == (n_rows, 0))
    figure, panels = plt.subplots(2, 3, figsize=(10, 5.4), sharey=True, layout="constrained")
    for place, ax in enumerate(panels.flat):
        axes(ax)
        each = line["inputs"][place]
        band = f"sswim, {LEVEL:.0%} band"
        ax.fill_between(GRID, each["lower"], each["upper"], color=CYCLE[0], alpha=0.25, lw=0)
        ax.plot(GRID, each["mean"], color=CYCLE[0], lw=1.5, label=band)
        ax.plot(
            GRID, each["trees"], color=CYCLE[1], lw=1.2, drawstyle="steps-mid", label="LightGBM"
        )
        ax.plot(GRID, each["truth"], color=INK, lw=1.2, ls="--", label="truth")
        ax.set(xlabel=f"x{place}{'' if place < N_RELEVANT else ', does not matter'}")
    for ax in panels[:, 0]:
        ax.set_ylabel("function, averaged over rows")
    panels[0, 0].legend(frameon=False, fontsize="small")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    """Measure the tables that the results lack, or show what was found."""
    parser = script_parser(__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="number of tables of each size")
    add_results(parser, "results/effects.jsonl", picture=True)
    arguments = parser.parse_args()
    if shows_stored(arguments, table_of, draw):
        return
    done = {(each["rows"], each["seed"]) for each in read_lines(arguments.out)}
    for seed in range(arguments.seeds):
        for n_rows in SIZES:
            if (n_rows, seed) not in done:
                append_line(arguments.out, measure(n_rows, seed))


if __name__ == "__main__":
    main()
