"""Space and time together: a column of dates beside longitude and latitude.

Run ``python examples/space_time.py``. It takes about half a minute. Made-up stations measure the
temperature every third day; the seasons turn, and fronts cross the map in a fortnight. One model
learns it all, and draws maps of days on which most stations did not measure. It writes the picture
of docs/maps.md and prints how far the maps are from the truth. It needs the extra ``sswim[maps]``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.console import Console

from sswim import NeighbourGPRegressor
from sswim.files.output_files import atomic_write, require_folder
from sswim.maps import predict_grid
from sswim.plotting import png

Array = NDArray[np.float64]

REGION = (-10.0, 30.0, 40.0, 60.0)
START = pd.Timestamp("2023-01-01")
N_DAYS, N_STATIONS, EVERY = 365, 60, 3
NOISE = 0.5
DATES = ("2023-02-10 12:00", "2023-02-14 12:00", "2023-07-14 12:00")
"""The dates of the maps: a front, the same front four days later, and a front in summer."""
SETTINGS: dict[str, Any] = {"depth": 1, "n_neighbors": 64, "random_state": 0}
"""Settings of one model by neighbours, which is quick; the default takes minutes."""


def temperature(lon: Array, lat: Array, day: Array | float) -> Array:
    """Return the true temperature: latitude, season, and fronts that move to the east."""
    season = 8 * np.sin(2 * np.pi * (day - 110) / 365.25)
    front = -25 + np.mod(2.5 * day - 0.3 * (lat - 50), 75)
    jump = 4 * np.tanh((lon - front) / 3) * np.exp(-(((lon - front) / 25) ** 2))
    found: Array = 12 - 0.5 * (lat - 50) + season + jump
    return found


def measure(n_days: int = N_DAYS, n_stations: int = N_STATIONS) -> pd.DataFrame:
    """Return the measurements: each station has its turn every third day, at noon."""
    random = np.random.default_rng(0)
    west, east, south, north = REGION
    lon, lat = random.uniform(west, east, n_stations), random.uniform(south, north, n_stations)
    station, day = np.meshgrid(np.arange(n_stations), np.arange(n_days), indexing="ij")
    turn = (station + day) % EVERY == 0
    place, noon = station[turn], day[turn] + 0.5
    truth = temperature(lon[place], lat[place], noon)
    return pd.DataFrame(
        {
            "lon": lon[place],
            "lat": lat[place],
            "date": START + pd.to_timedelta(noon, unit="D"),
            "temperature": truth + NOISE * random.normal(size=len(truth)),
        }
    )


def fit(rows: pd.DataFrame, **settings: Any) -> NeighbourGPRegressor:
    """Fit a model of the temperature on the sphere and in time."""
    model = NeighbourGPRegressor(coordinates=("lon", "lat"), **(SETTINGS | settings))
    return model.fit(rows.drop(columns="temperature"), rows["temperature"])


def draw_maps(model: NeighbourGPRegressor, spacing: float = 0.5) -> list[xarray.Dataset]:
    """Return the map of each date, with the truth beside it."""
    found = []
    for date in DATES:
        grid = predict_grid(
            model, REGION, spacing, at={"date": date}, include_noise=False, quantiles=(0.05, 0.95)
        )
        lon, lat = np.meshgrid(grid["lon"], grid["lat"])
        day = (pd.Timestamp(date) - START) / pd.Timedelta(days=1)
        found.append(grid.assign(truth=(("lat", "lon"), temperature(lon, lat, day))))
    return found


def describe(grid: xarray.Dataset) -> str:
    """Say how far a map is from the truth."""
    error = float(np.sqrt(((grid["mean"] - grid["truth"]) ** 2).mean()))
    low, high = (grid["quantiles"].sel(quantile=level) for level in (0.05, 0.95))
    inside = float(((low <= grid["truth"]) & (grid["truth"] <= high)).mean())
    day = str(grid["date"].values)[:10]
    return f"{day}: RMSE of the mean {error:.2f} °C, truth in {inside:.0%} of the 90 % intervals"


def figure(rows: pd.DataFrame, grids: list[xarray.Dataset]) -> Figure:
    """Draw truth, mean and standard deviation of each date, and the stations of that day."""
    picture = Figure(figsize=(12, 2.9 * len(grids)), layout="constrained")
    panels = picture.subplots(len(grids), 3, squeeze=False)
    west, east, south, north = REGION
    for line, grid in zip(panels, grids, strict=True):
        low, high = float(grid["truth"].min()), float(grid["truth"].max())
        for panel, (name, title) in zip(
            line,
            {"truth": "truth", "mean": "mean", "std": "standard deviation"}.items(),
            strict=True,
        ):
            limits = {"vmin": 0.0} if name == "std" else {"vmin": low, "vmax": high}
            image = panel.imshow(
                grid[name].values,
                origin="lower",
                extent=(west, east, south, north),
                cmap="magma" if name == "std" else "viridis",
                aspect=1.5,
                **limits,
            )
            picture.colorbar(image, ax=panel, label="°C", shrink=0.8)
            panel.set_title(f"{title}, {str(grid['date'].values)[:10]}", loc="left", fontsize=10)
            panel.set(xlabel="longitude", ylabel="latitude")
        today = rows[rows["date"].dt.normalize() == pd.Timestamp(grid["date"].values).normalize()]
        line[1].scatter(today["lon"], today["lat"], s=10, color="black", edgecolors="white", lw=0.5)
    return picture


def main() -> None:
    """Fit the model, print the errors of its maps and draw them."""
    parser = argparse.ArgumentParser(description="Draw maps of two days.")
    parser.add_argument(
        "--out", type=Path, default=Path("docs/images/space-time.png"), help="picture file"
    )
    arguments = parser.parse_args()
    require_folder(arguments.out)
    console = Console()
    rows = measure()
    grids = draw_maps(fit(rows))
    for grid in grids:
        console.print(describe(grid), highlight=False)
    with atomic_write(arguments.out) as temporary:
        temporary.write_bytes(png(figure(rows, grids), dpi=90))
    console.print(f"Wrote {arguments.out}", soft_wrap=True, markup=False, highlight=False)


if __name__ == "__main__":
    main()
