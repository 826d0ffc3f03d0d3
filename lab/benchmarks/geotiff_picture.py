"""Draw a GeoTIFF map of ``sswim grid``, opened again with its reference system.

    python lab/benchmarks/geotiff_picture.py map.tif --out docs/images/prism-map.png --unit m

docs/maps.md has the commands that make the map.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import rioxarray
import xarray
from matplotlib.figure import Figure
from scripting import script_parser

from sswim.plotting import png


def draw(bands: xarray.DataArray, unit: str) -> Figure:
    """Draw the bands mean and standard deviation with their coordinates."""
    names = list(bands.attrs["long_name"])
    west, south, east, north = bands.rio.bounds()
    figure = Figure(figsize=(13, 3.8), layout="constrained")
    panels = figure.subplots(1, 2)
    for panel, name, title in zip(
        panels, ("mean", "std"), ("mean", "standard deviation"), strict=True
    ):
        values = bands.values[names.index(name)]
        image = panel.imshow(
            values,
            extent=(west, east, south, north),
            cmap="terrain" if name == "mean" else "magma",
            # Plains must not be as blue as the sea, nor a few cells hide the others.
            vmin=-0.25 * float(np.nanmax(values)) if name == "mean" else 0.0,
            vmax=float(np.nanquantile(values, 0.999 if name == "mean" else 0.99)),
            aspect=1.25,
            interpolation="nearest",
        )
        panel.set_title(f"{title}, {bands.rio.crs}", loc="left", fontsize=10)
        panel.set(xlabel="longitude", ylabel="latitude")
        figure.colorbar(image, ax=panel, label=unit, shrink=0.85)
    return figure


def main() -> None:
    """Open a file and draw it."""
    parser = script_parser(__doc__)
    parser.add_argument("file", type=Path, help="GeoTIFF file")
    parser.add_argument("--out", type=Path, required=True, help="picture file")
    parser.add_argument("--unit", default="", help="unit of the target")
    arguments = parser.parse_args()
    bands = rioxarray.open_rasterio(arguments.file)
    assert isinstance(bands, xarray.DataArray)
    arguments.out.write_bytes(png(draw(bands, arguments.unit), dpi=90))
    print(f"{bands.rio.crs}, {bands.rio.bounds()}, bands {', '.join(bands.attrs['long_name'])}")


if __name__ == "__main__":
    main()
