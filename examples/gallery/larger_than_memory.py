"""
Larger than memory
==================

A folder of Parquet files is one table. Here a model may hold one megabyte of it: the files are read
again in every pass, chunk by chunk. The objective and its gradient are sums over rows, so the
result is the model that all rows in memory would give, up to rounding.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from sswim import WarpedGPRegressor

n_files, n_rows_each, settings = 7, 10_000, {"n_components": 160, "max_iter": 20}
# sphinx_gallery_start_ignore
import os

if "SSWIM_GALLERY_QUICK" in os.environ:
    n_files, n_rows_each, settings = 7, 9_000, {"n_components": 16, "max_iter": 2}
# sphinx_gallery_end_ignore


def waves(x):
    """Return waves that get shorter away from the middle."""
    return np.sin(5 * x[:, 0] + 6 * x[:, 1] ** 2)


def draw(n, seed):
    """Return a table of noisy rows."""
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, (n, 2))
    height = waves(x) + 0.2 * random.normal(size=n)
    return pd.DataFrame({"east": x[:, 0], "north": x[:, 1], "height": height})


# %%
# Write the files, and fit the folder twice: held in memory, and with room for one megabyte.

models = {}
with tempfile.TemporaryDirectory() as folder:
    for number in range(n_files):
        draw(n_rows_each, number).to_parquet(Path(folder) / f"part-{number}.parquet")
    size = sum(path.stat().st_size for path in Path(folder).iterdir())
    print(f"{n_files * n_rows_each:,} rows in {n_files} files of {size / 1e6:.1f} MB together")
    for memory in ("2GiB", "1MB"):
        model = WarpedGPRegressor(depth=0, length_scale=0.5, random_state=0, **settings)
        models[memory] = model.fit(folder, "height", memory=memory)

# %%
# The two models predict the same.

test = draw(5000, seed=n_files)
places, truth = test[["east", "north"]], waves(test[["east", "north"]].to_numpy())
means = {memory: model.predict(places) for memory, model in models.items()}
difference = means["1MB"] - means["2GiB"]
error = np.sqrt(np.mean((means["1MB"] - truth) ** 2))
print(f"RMSE of the mean, compared with the function without noise: {error:.4f}")
print(f"largest difference between the two: {np.abs(difference).max():.1e}")

# %%

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
n = 120
grid = np.stack(np.meshgrid(np.linspace(-1, 1, n), np.linspace(-1, 1, n)), axis=-1).reshape(-1, 2)
predicted = models["1MB"].predict(pd.DataFrame(grid, columns=["east", "north"]))
image = left.imshow(
    predicted.reshape(n, n),
    origin="lower",
    extent=(-1, 1, -1, 1),
    cmap="RdBu_r",
    vmin=-1.2,
    vmax=1.2,
)
left.set(title="(a) mean of the streamed model", xlabel="east", ylabel="north")
figure.colorbar(image, ax=left, label="height")
right.hist(np.log10(np.abs(difference) + 1e-18), bins=40, color="C0")
right.axvline(np.log10(0.2), color="black", ls="--", label="noise of the rows")
right.set(
    title="(b) streamed and held models",
    xlabel="log₁₀ of the difference of their means",
    ylabel="number of test rows",
)
right.legend(frameon=False, loc="upper center")
plt.show()
