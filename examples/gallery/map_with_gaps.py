"""
A map with gaps
===============

A satellite measures a map, but clouds hide parts of it. The model fills the gaps, and says where it
does not know: its error bars are wide in the middle of a gap and narrow at its edges.

One model that predicts by neighbours (``n_neighbors=64``) is quick, and made for maps.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sswim import NeighbourGPRegressor
from sswim.maps import predict_grid

n_rows, n_cells, n_steps = 3000, 80, 200
# sphinx_gallery_start_ignore
import os

if "SSWIM_GALLERY_QUICK" in os.environ:
    n_rows, n_cells, n_steps = 200, 10, 5
# sphinx_gallery_end_ignore

# %%
# The land: smooth hills in the west, ridges that get finer towards the east. Clouds are circles.


def height(x, y):
    """Return the height of the land in metres."""
    hills = 300 * np.sin(1.1 * x) * np.cos(0.9 * y)
    ridges = 150 * np.sin(0.35 * x**2 + 1.5 * y) * np.clip(x / 10, 0, 1)
    return 800 + hills + ridges


clouds = [(2.0, 7.0, 1.3), (5.0, 3.0, 1.2), (8.3, 7.2, 1.2)]


def cloudy(x, y):
    """Return whether a place is under a cloud."""
    return np.any([np.hypot(x - east, y - north) < r for east, north, r in clouds], axis=0)


random = np.random.default_rng(0)
east, north = random.uniform(0, 10, (2, n_rows))
noise = 10 * random.normal(size=n_rows)
rows = pd.DataFrame({"east": east, "north": north, "height": height(east, north) + noise})
rows = rows[~cloudy(rows["east"], rows["north"])]

# %%
# Fit, and predict the map. ``predict_grid`` returns an :mod:`xarray` dataset; for degrees, add
# ``coordinates=("lon", "lat")`` to the model.

model = NeighbourGPRegressor(depth=1, n_neighbors=64, max_iter=n_steps, random_state=0)
model.fit(rows[["east", "north"]], rows["height"])
grid = predict_grid(model, (0, 10, 0, 10), shape=(n_cells, n_cells), include_noise=False)
x, y = np.meshgrid(grid["east"], grid["north"])
truth, hidden = height(x, y), cloudy(x, y)

error = np.abs(grid["mean"].values - truth)
low, _, high = grid["quantiles"].values
inside = (low <= truth) & (truth <= high)
for name, cells in {"under clouds": hidden, "elsewhere": ~hidden}.items():
    print(
        f"{name:12}: RMSE {np.sqrt(np.mean(error[cells] ** 2)):5.1f} m, mean standard deviation "
        f"{grid['std'].values[cells].mean():5.1f} m, truth in {inside[cells].mean():.0%} of the "
        "90 % intervals"
    )

# %%
# The error is large only where the standard deviation says so.

figure, axes = plt.subplots(2, 2, figsize=(9.5, 8), layout="constrained", sharex=True, sharey=True)
panels = {
    "(a) truth": (truth, "terrain", (200, 1300)),
    "(b) predicted mean": (grid["mean"].values, "terrain", (200, 1300)),
    "(c) absolute error": (error, "magma", (0, 120)),
    "(d) predicted standard deviation": (grid["std"].values, "magma", (0, 120)),
}
for ax, (title, (values, colours, limits)) in zip(axes.flat, panels.items(), strict=True):
    image = ax.imshow(
        values, origin="lower", extent=(0, 10, 0, 10), cmap=colours, vmin=limits[0], vmax=limits[1]
    )
    for east, north, radius in clouds:
        ax.add_patch(plt.Circle((east, north), radius, fill=False, color="white", ls="--"))
    ax.set_title(title, loc="left")
    figure.colorbar(image, ax=ax, label="m", shrink=0.85)
axes[0, 1].scatter(rows["east"], rows["north"], s=0.4, color="black", label="rows")
axes[0, 1].legend(loc="upper right", markerscale=8)
for ax in axes[1]:
    ax.set_xlabel("east (km)")
for ax in axes[:, 0]:
    ax.set_ylabel("north (km)")
plt.show()
