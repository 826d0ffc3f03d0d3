"""Draw a map of the elevation of a country, predicted from two thirds of its cells.

python lab/benchmarks/large.py prism_elevation "more features" --predictions FOLDER
python lab/benchmarks/large_map.py FOLDER/prism_elevation-more-features.npz --out map.png
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from arguments import script_parser
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sswim_lab.datasets import load

NAME = "prism_elevation"


def as_image(
    x: Float[np.ndarray, "N 2"], values: Float[np.ndarray, " N"]
) -> Float[np.ndarray, "rows columns"]:
    """Return the values of cells as an image with north up, NaN where there is no cell."""
    columns, rows = (np.unique(x[:, n], return_inverse=True)[1] for n in (0, 1))
    image = np.full((rows.max() + 1, columns.max() + 1), np.nan)
    image[rows.max() - rows, columns] = values
    return image


def draw(x: Float[np.ndarray, "N 2"], maps: dict[str, Float[np.ndarray, " N"]]) -> Figure:
    """Draw maps one above the other; all but the last share their colours."""
    figure = Figure(figsize=(7, 3.6 * len(maps)), layout="constrained")
    west, south = x.min(0)
    east, north = x.max(0)
    *elevations, _ = maps
    highest = max(float(maps[name].max()) for name in elevations)
    for number, (name, values) in enumerate(maps.items()):
        axes: Axes = figure.add_subplot(len(maps), 1, number + 1)
        last = number == len(maps) - 1
        image = axes.imshow(
            as_image(x, values),
            extent=(west, east, south, north),
            cmap="magma" if last else "terrain",
            vmin=0 if last else -0.25 * highest,  # so that plains are not as blue as the sea
            vmax=float(np.quantile(values, 0.99)) if last else highest,
            aspect=1.25,
            interpolation="nearest",
        )
        axes.set_title(f"({'abc'[number]}) {name}", loc="left", fontsize=10)
        axes.set_xlabel("longitude")
        axes.set_ylabel("latitude")
        figure.colorbar(image, ax=axes, label="m", shrink=0.8)
    return figure


def main() -> None:
    """Read stored predictions and draw them."""
    parser = script_parser(__doc__)
    parser.add_argument("predictions", type=Path, help="predictions stored by large.py")
    parser.add_argument(
        "--out", type=Path, default=Path("docs/images/prism.png"), help="picture file"
    )
    arguments = parser.parse_args()
    table, predictions = load(NAME), np.load(arguments.predictions)
    maps = {
        "elevation": table.y,
        "predicted mean, from two thirds of the cells": predictions["mean"].astype(np.float64),
        "standard deviation of a prediction": predictions["std"].astype(np.float64),
    }
    draw(table.x, maps).savefig(arguments.out, dpi=90)


if __name__ == "__main__":
    main()
