"""Errors of maps by blocks, beside those by random rows.

    python lab/benchmarks/map_blocks.py --folder DATA
    python lab/benchmarks/map_blocks.py --table    # the table of docs/maps.md

A sample of prism_elevation is fitted again without each of five folds: folds of blocks of several
sizes, and random folds. A map is then predicted at cells that are in no sample: their error is what
random folds promise, because cells lie as near to the rows as rows do to each other; blocks promise
what happens in a gap as large as a block. Results, in metres, are appended to
results/map-blocks.jsonl; runs that the file already has are not repeated.
"""

from __future__ import annotations

from dataclasses import asdict
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scripting import (
    add_results,
    append_line,
    markdown_table,
    read_lines,
    script_parser,
    shows_stored,
)
from sswim_lab.datasets import load

from sswim import NeighbourGPRegressor, evaluate
from sswim.maps import evaluate_blocks

SETTINGS: dict[str, Any] = {"depth": 1, "n_neighbors": 64, "random_state": 0}
NOISE = 0.1
WAVES = np.random.default_rng(5).normal(size=(3, 8)) * 7
SPACINGS = {"date line": (10.0,), "prism": (1.0, 4.0)}


def prism(
    n_rows: int, folder: str | None
) -> tuple[pd.DataFrame, np.ndarray, pd.DataFrame, np.ndarray]:
    """Return a sample of the elevations, and other cells."""
    table = load("prism_elevation", folder)
    order = np.random.default_rng(0).permutation(len(table.x))
    frame, y = pd.DataFrame(table.x, columns=["lon", "lat"]), table.y
    sample, others = order[:n_rows], order[n_rows : n_rows + 20_000]
    return frame.iloc[sample], y[sample], frame.iloc[others], y[others]


def waves(n_rows: int) -> tuple[pd.DataFrame, np.ndarray, pd.DataFrame, np.ndarray]:
    """Return rows around the date line, uniform over the area, and other ones."""
    random = np.random.default_rng(0)
    n = n_rows + 4000
    lon = np.mod(random.uniform(150.0, 210.0, n) + 180, 360) - 180
    lat = np.degrees(np.arcsin(random.uniform(-0.5, 0.5, n)))
    frame = pd.DataFrame({"lon": lon, "lat": lat})
    y = truth(lon, lat) + NOISE * random.normal(size=n)
    return frame.iloc[:n_rows], y[:n_rows], frame.iloc[n_rows:], y[n_rows:]


def truth(lon: NDArray[np.float64], lat: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a smooth function on the sphere, a sum of waves through it."""
    east, north = np.radians(lon), np.radians(lat)
    points = np.stack(
        [np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)], axis=-1
    )
    found: NDArray[np.float64] = np.sin(points @ WAVES + np.arange(8)).sum(-1)
    return found


def table(lines: list[Any]) -> str:
    """Return the scores as a table in Markdown."""
    rows = []
    for name in SPACINGS:
        chosen = [line for line in lines if line["data"] == name]
        sorts = {"in no sample": chosen[0]["other_rows"], "random folds": chosen[0]["random"]}
        sorts |= {f"blocks of {line['spacing']:g}°": line["blocks"] for line in chosen}
        for sort, scores in sorts.items():
            cells = (f"{scores['rmse']:.3g}", f"{scores['mnlp']:.2f}", f"{scores['coverage']:.3f}")
            title = f"{name}, {chosen[0]['rows']:,} rows"
            rows.append([title, sort, *(cell.replace("-", "−") for cell in cells)])
    titles = ["data", "rows left out", "RMSE", "MNLP", "coverage of 90 % intervals"]
    return markdown_table(titles, rows)


def main() -> None:
    """Score folds of both sorts, and store the scores."""
    parser = script_parser(__doc__)
    add_results(parser, "results/map-blocks.jsonl")
    parser.add_argument("--folder", help="folder of prism_elevation.parquet")
    parser.add_argument("--rows", type=int, default=20_000, help="rows of the sample")
    arguments = parser.parse_args()
    if shows_stored(arguments, table):
        return
    out = arguments.out
    done = [(line["data"], line["rows"], line["spacing"]) for line in read_lines(out)]
    for name, spacings in SPACINGS.items():
        n_rows = arguments.rows if name == "prism" else 200
        wanted = [spacing for spacing in spacings if (name, n_rows, spacing) not in done]
        if not wanted:
            continue
        data = prism(n_rows, arguments.folder) if name == "prism" else waves(n_rows)
        rows, y, other_rows, other_y = data
        model = NeighbourGPRegressor(coordinates=("lon", "lat"), **SETTINGS).fit(rows, y)
        elsewhere = asdict(evaluate(model, other_rows, other_y))
        for spacing in wanted:
            began = perf_counter()
            found = asdict(evaluate_blocks(model, rows, y, spacing, say=print))
            facts = {"data": name, "rows": n_rows, "spacing": spacing, "settings": SETTINGS}
            seconds = round(perf_counter() - began, 1)
            append_line(out, {**facts, "seconds": seconds, **found, "other_rows": elsewhere})


if __name__ == "__main__":
    main()
