"""A map with gaps: squares of prism_elevation are held out, and predicted from around them.

    python lab/benchmarks/map_with_gaps.py --folder D --picture map.png
    python lab/benchmarks/map_with_gaps.py --folder D --window --methods gpboost-vecchia neighbours0

A tenth of the area is held out, in squares of 20 to 60 cells. Results, in metres, are appended to
results/map-with-gaps.jsonl: error, density and coverage of 90 % intervals, also of the cells on
land alone (a third of the map is sea, with elevation 0 and no doubt about it).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from scripting import add_device, add_out, append_line, density_scores, script_parser
from sswim_lab.bench.methods import METHODS
from sswim_lab.datasets import load
from sswim_lab.peers.protocol import Fitted

Array = NDArray[np.float64]
SQUARES = (20, 60)
"""Smallest and largest side of a square, in cells."""
SHARE = 0.1
"""Share of the area that is held out."""
WINDOW = (-114.0, -104.0, 36.0, 42.0)
"""Part of the map that is drawn: longitudes and latitudes around the Colorado Plateau."""


@dataclass(frozen=True)
class Gaps:
    """Rows of a map, and which of them are held out."""

    x: Array
    y: Array
    held: NDArray[np.bool_]


def hold_out(x: Array, y: Array, seed: int) -> Gaps:
    """Hold out squares of a grid until their share is reached."""
    random = np.random.default_rng(seed)
    columns, rows = (np.unique(coordinate, return_inverse=True)[1] for coordinate in x.T)
    held = np.zeros(len(x), dtype=bool)
    while held.mean() < SHARE:
        side = random.integers(SQUARES[0], SQUARES[1] + 1)
        left = random.integers(0, columns.max() + 2 - side)
        low = random.integers(0, rows.max() + 2 - side)
        inside = (columns >= left) & (columns < left + side)
        held |= inside & (rows >= low) & (rows < low + side)
    return Gaps(x, y, held)


def in_window(x: Array) -> NDArray[np.bool_]:
    """Return which rows are in the part of the map that is drawn."""
    left, right, low, high = WINDOW
    inside: NDArray[np.bool_] = (x[:, 0] >= left) & (x[:, 0] <= right)
    return inside & (x[:, 1] >= low) & (x[:, 1] <= high)


def predict(fitted: Fitted, x: Array, y: Array, n_rows: int = 20_000) -> dict[str, Any]:
    """Predict a random choice of rows; return scores of all and of those on land."""
    chosen = np.random.default_rng(0).permutation(len(x))[:n_rows]
    x, y = x[chosen], y[chosen]
    begin = time.perf_counter()
    found = fitted.predict(x)
    seconds = time.perf_counter() - begin
    land = y != 0
    of_land = fitted.predict(x[land])
    scores = {"all": density_scores(found, y), "land": density_scores(of_land, y[land])}
    return {**scores, "predict_seconds": seconds}


def draw(fitted: Fitted, gaps: Gaps, path: Path) -> None:
    """Draw the truth, the mean and the standard deviation of a part of the map."""
    x = gaps.x
    inside = in_window(x)
    found = fitted.predict(x[inside])
    values = {
        "elevation (m); held-out squares are white": np.where(
            gaps.held[inside], np.nan, gaps.y[inside]
        ),
        "mean (m)": found.mean,
        "standard deviation (m), logarithmic": np.log10(np.sqrt(found.variance)),
    }
    columns, rows = (np.unique(c, return_inverse=True)[1] for c in x[inside].T)
    figure, axes = plt.subplots(1, 3, figsize=(15, 4), layout="constrained")
    for axis, (title, numbers) in zip(axes, values.items(), strict=True):
        grid = np.full((rows.max() + 1, columns.max() + 1), np.nan)
        grid[rows, columns] = numbers
        image = axis.imshow(grid, origin="lower", aspect="auto", extent=WINDOW)
        axis.set_title(title)
        figure.colorbar(image, ax=axis)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Fit each method to the map without the squares, and predict these."""
    parser = script_parser(__doc__)
    add_device(parser)
    add_out(parser, "results/map-with-gaps.jsonl")
    parser.add_argument("--folder", help="folder of prism_elevation.parquet")
    parser.add_argument("--methods", nargs="*", default=["neighbours0", "neighbours1"])
    parser.add_argument("--window", action="store_true", help="only the part that is drawn")
    parser.add_argument("--seeds", type=int, default=1, help="number of choices of squares")
    parser.add_argument("--picture", type=Path, help="PNG file of the last method's map")
    arguments = parser.parse_args()
    table = load("prism_elevation", arguments.folder)
    x, y = table.x, table.y
    if arguments.window:
        inside = in_window(x)
        x, y = x[inside], y[inside]
    for seed in range(arguments.seeds):
        gaps = hold_out(x, y, seed)
        for name in arguments.methods:
            method = METHODS[name]
            device = method.device(arguments.device)
            begin = time.perf_counter()
            fitted = method.fit(gaps.x[~gaps.held], gaps.y[~gaps.held], seed, device)
            seconds = time.perf_counter() - begin
            row = predict(fitted, gaps.x[gaps.held], gaps.y[gaps.held])
            facts = {"method": name, "seed": seed, "rows": int((~gaps.held).sum())}
            append_line(
                Path(arguments.out),
                {**facts, "held_out": int(gaps.held.sum()), "fit_seconds": seconds, **row},
            )
    if arguments.picture is not None:
        draw(fitted, gaps, arguments.picture)


if __name__ == "__main__":
    main()
