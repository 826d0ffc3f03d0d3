"""Maps across the date line and around a pole: degrees on the sphere, and degrees as plain numbers.

    python lab/benchmarks/date_line.py --picture docs/images/date-line.png
    python lab/benchmarks/date_line.py --table    # the table of docs/maps.md

The function is smooth on the sphere. Rows lie around the 180th meridian, or around the north pole,
with longitudes from -180 to 180. Errors of the function are counted within 5 degrees of the line,
or of the pole, and elsewhere. Results are appended to results/date-line.jsonl; runs that the file
already has are not repeated.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import xarray
from arguments import add_out, script_parser
from json_lines import append_line, read_lines
from markdown_tables import table_line
from matplotlib.figure import Figure
from numpy.typing import NDArray

from sswim.estimator import BaseRegressor, make_estimator
from sswim.maps import predict_grid
from sswim.plotting import INK, png

Array = NDArray[np.float64]
Place = Literal["date line", "pole"]
Kind = Literal["sphere", "plain"]

REGIONS: dict[Place, tuple[float, float, float, float]] = {
    "date line": (150.0, 210.0, -30.0, 30.0),
    "pole": (-180.0, 180.0, 60.0, 90.0),
}
N_ROWS, NOISE, NEAR = 200, 0.1, 5.0
WAVES = np.random.default_rng(5).normal(size=(3, 8)) * 7


def truth(lon: Array, lat: Array) -> Array:
    """Return a sum of waves through the sphere."""
    east, north = np.radians(lon), np.radians(lat)
    points = np.stack(
        [np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)], axis=-1
    )
    found: Array = np.sin(points @ WAVES + np.arange(8)).sum(-1)
    return found


def draw(place: Place, n: int, random: np.random.Generator) -> pd.DataFrame:
    """Return places, uniform over the area of a region."""
    west, east, south, north = REGIONS[place]
    lon = random.uniform(west, east, n)
    heights = random.uniform(np.sin(np.radians(south)), np.sin(np.radians(north)), n)
    lat = np.degrees(np.arcsin(heights))
    return pd.DataFrame({"lon": np.mod(lon + 180, 360) - 180, "lat": lat})


def is_near(place: Place, rows: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which rows are near the date line, or the pole."""
    distance = 180 - rows["lon"].abs() if place == "date line" else 90 - rows["lat"]
    return distance.to_numpy() < NEAR


def fit(place: Place, kind: Kind, seed: int, settings: dict[str, Any]) -> BaseRegressor:
    """Fit the rows of a seed."""
    random = np.random.default_rng(seed)
    rows = draw(place, N_ROWS, random)
    y = truth(rows["lon"].to_numpy(), rows["lat"].to_numpy()) + NOISE * random.normal(size=N_ROWS)
    coordinates = ("lon", "lat") if kind == "sphere" else None
    return make_estimator(coordinates=coordinates, random_state=seed, **settings).fit(rows, y)


def score(model: BaseRegressor, place: Place) -> dict[str, float]:
    """Return errors of the function near the line or the pole, and elsewhere."""
    rows = draw(place, 6000, np.random.default_rng(99))
    exact = truth(rows["lon"].to_numpy(), rows["lat"].to_numpy())
    mean, std = model.predict(rows, return_std=True, include_noise=False)
    near = is_near(place, rows)
    found = {}
    for name, part in (("near", near), ("elsewhere", ~near)):
        error = (mean - exact)[part]
        found[f"rmse_{name}"] = float(np.sqrt(np.mean(error**2)))
        found[f"std_{name}"] = float(np.mean(std[part]))
        found[f"coverage_{name}"] = float(np.mean(np.abs(error) < 1.645 * std[part]))
    if place == "date line":
        west, east = (
            np.asarray(model.predict(pd.DataFrame({"lon": lon, "lat": np.linspace(-25, 25, 101)})))
            for lon in (179.999, -179.999)
        )
        found["jump"] = float(np.sqrt(np.mean((west - east) ** 2)))
    return found


def picture(models: dict[Kind, BaseRegressor]) -> Figure:
    """Draw mean, error and standard deviation of both models across the date line."""
    figure = Figure(figsize=(12, 6.6), layout="constrained")
    panels = figure.subplots(len(models), 3)
    for line, (kind, model) in zip(panels, models.items(), strict=True):
        grid = map_across_the_line(model, kind)
        lon, lat = np.meshgrid(grid["lon"], grid["lat"])
        exact = truth(lon, lat)
        where = "on the sphere" if kind == "sphere" else "plain degrees"
        maps: dict[str, tuple[Array, dict[str, Any]]] = {
            "mean": (grid["mean"].values, {"vmin": exact.min(), "vmax": exact.max()}),
            "mean − truth": (
                grid["mean"].values - exact,
                {"vmin": -0.5, "vmax": 0.5, "cmap": "RdBu_r"},
            ),
            "standard deviation": (
                grid["std"].values,
                {"vmin": 0.0, "vmax": 0.8, "cmap": "magma"},
            ),
        }
        for panel, (title, (values, options)) in zip(line, maps.items(), strict=True):
            west, east, south, north = REGIONS["date line"]
            extent = (west, east, south, north)
            image = panel.imshow(values, origin="lower", extent=extent, **options)
            panel.axvline(180, color=INK, lw=0.8, ls="--")
            ticks = ["150°E", "165°E", "180°", "165°W", "150°W"]
            panel.set_xticks([150, 165, 180, 195, 210], ticks)
            panel.set_title(f"{title}, {where}", loc="left", fontsize=10)
            figure.colorbar(image, ax=panel, shrink=0.8)
        rows = draw("date line", N_ROWS, np.random.default_rng(0))
        line[0].plot(np.mod(rows["lon"], 360), rows["lat"], ".", color="black", ms=2)
    return figure


def map_across_the_line(model: BaseRegressor, kind: Kind) -> xarray.Dataset:
    """Return a map; a plain model is asked for each side by itself, as its rows were given."""
    west, east, south, north = REGIONS["date line"]
    if kind == "sphere":
        return predict_grid(model, (west, east, south, north), 0.5, include_noise=False)
    sides = [(west, 180.0, south, north), (-180.0, east - 360, south, north)]
    left, right = (predict_grid(model, side, 0.5, include_noise=False) for side in sides)
    return xarray.concat([left, right.assign_coords(lon=right["lon"] + 360)], dim="lon")


def table(lines: list[Any]) -> str:
    """Return the means over the seeds as a table in Markdown."""
    names = ("rmse_near", "rmse_elsewhere", "coverage_near", "coverage_elsewhere", "jump")
    titles = ("RMSE near it", "elsewhere", "coverage of 90 % intervals near it", "elsewhere")
    found = [table_line(("place", "coordinates", *titles, "jump")), "|---" * 7 + "|"]
    for place in get_args(Place):
        for kind in get_args(Kind):
            chosen = [
                each for each in lines if (each["place"], each["coordinates"]) == (place, kind)
            ]
            means = [float(np.mean([each.get(name, np.nan) for each in chosen])) for name in names]
            cells = ["–" if np.isnan(mean) else f"{mean:.2f}" for mean in means]
            found.append(table_line((place, kind, *cells)))
    return "\n".join(found)


def main() -> None:
    """Fit both sorts of coordinates, store their errors, and draw the maps of one seed."""
    parser = script_parser(__doc__)
    add_out(parser, "results/date-line.jsonl")
    parser.add_argument("--seeds", type=int, default=3, help="number of draws of the rows")
    parser.add_argument("--depth", type=int, help="one model of this depth, not the default")
    parser.add_argument("--picture", type=Path, help="PNG file of the maps of seed 0")
    parser.add_argument("--table", action="store_true", help="only print the table of the file")
    arguments = parser.parse_args()
    if arguments.table:
        print(table(read_lines(Path(arguments.out))))
        return
    settings = {} if arguments.depth is None else {"depth": arguments.depth}
    out = Path(arguments.out)
    keys = ("place", "coordinates", "seed", "settings")
    done = [[line[key] for key in keys] for line in read_lines(out)]
    for place in get_args(Place):
        for kind in get_args(Kind):
            for seed in range(arguments.seeds):
                if [place, kind, seed, settings] in done:
                    continue
                began = perf_counter()
                model = fit(place, kind, seed, settings)
                facts = {"place": place, "coordinates": kind, "seed": seed, "settings": settings}
                seconds = round(perf_counter() - began, 1)
                row = {**facts, "rows": N_ROWS, "fit_seconds": seconds, **score(model, place)}
                append_line(out, row)
                print(row)
    if arguments.picture is not None:
        models: dict[Kind, BaseRegressor] = {
            kind: fit("date line", kind, 0, settings) for kind in get_args(Kind)
        }
        arguments.picture.write_bytes(png(picture(models), dpi=90))


if __name__ == "__main__":
    main()
