"""
Uncertain inputs
================

Where was the measurement made? A position has an error, and where the function is steep that
matters more than the noise. ``X_std`` says how uncertain inputs are. The expectation of a Fourier
feature under a Gaussian input is in closed form, so the prediction needs no sampling.
"""

import matplotlib.pyplot as plt
import numpy as np

from sswim import WarpedGPRegressor
from sswim.plotting import plot_prediction

n_rows, settings = 300, {"depth": 0, "n_components": 256, "length_scale": 0.3, "max_iter": 400}
# sphinx_gallery_start_ignore
import os

if "SSWIM_GALLERY_QUICK" in os.environ:
    n_rows, settings = 60, settings | {"n_components": 32, "max_iter": 5}
# sphinx_gallery_end_ignore


def cliff(x):
    """Return the height of land with a cliff at zero."""
    return 2 * np.tanh(4 * x) + 0.3 * np.sin(3 * x)


random = np.random.default_rng(0)
X = random.uniform(-3, 3, (n_rows, 1))
y = cliff(X[:, 0]) + 0.1 * random.normal(size=n_rows)
model = WarpedGPRegressor(random_state=0, **settings).fit(X, y)

# %%
# Predict at positions whose error has a standard deviation of 0.3. Far from the cliff nothing
# changes; at the cliff the mean is averaged over both sides, and the error bar contains the height
# of the cliff.

position = np.array([[-2.0], [-0.3], [0.0], [2.0]])
for x_std in (0.0, 0.3):
    mean, std = model.predict(position, return_std=True, X_std=x_std)
    cells = [f"{m:5.2f} ± {s:.2f}" for m, s in zip(mean, std, strict=True)]
    print(f"error of the position {x_std}: " + ", ".join(cells))

# %%
# Compare with brute force: many positions drawn from the Gaussian around each position, and a
# prediction at each of them.

centres = np.linspace(-3, 3, 61)
draws = centres[:, None] + 0.3 * random.normal(size=(61, 1000))
means, stds = model.predict(draws.reshape(-1, 1), return_std=True)
means, stds = means.reshape(draws.shape), stds.reshape(draws.shape)
brute_mean, brute_std = means.mean(1), np.sqrt((stds**2).mean(1) + means.var(1))
mean, std = model.predict(centres[:, None], return_std=True, X_std=0.3)
print(
    f"largest differences: mean {np.abs(mean - brute_mean).max():.3f}, "
    f"standard deviation {np.abs(std - brute_std).max():.3f}"
)

# %%

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained", sharey=True)
plot_prediction(model, X, y, ax=left)
left.set(title="(a) inputs known exactly", xlabel="position", ylabel="height", ylim=(-4, 4.6))
left.legend(loc="upper left", frameon=False, fontsize="small")
right.fill_between(
    centres,
    mean - 1.645 * std,
    mean + 1.645 * std,
    color="C0",
    alpha=0.25,
    lw=0,
    label="mean ± 1.645 std, closed form",
)
right.plot(centres, mean, color="C0", label="mean, closed form")
right.plot(centres[::3], brute_mean[::3], "k.", ms=5, label="mean, 1,000 draws")
for sign in (-1, 1):
    label = "± 1.645 std, 1,000 draws" if sign > 0 else None
    edge = brute_mean + sign * 1.645 * brute_std
    right.plot(centres[::3], edge[::3], "k_", ms=6, label=label)
right.set(title="(b) positions with an error of 0.3", xlabel="position")
right.legend(loc="upper left", frameon=False, fontsize="small")
plt.show()
