"""
A nonstationary time series
===========================

A machine rests, starts, runs up and settles. Its vibration is slow, then fast, then slow again: a
stationary model has one length-scale for all of that, and must be wrong somewhere. A warp stretches
time where much happens.
"""

import matplotlib.pyplot as plt
import numpy as np

from sswim import WarpedGPRegressor, evaluate
from sswim.plotting import plot_prediction, plot_warps

n_rows, settings = 250, {"n_components": 256, "n_pseudo": 64, "max_iter": 250}
# sphinx_gallery_start_ignore
import os

if "SSWIM_GALLERY_QUICK" in os.environ:
    n_rows, settings = 60, {"n_components": 32, "n_pseudo": 8, "max_iter": 5}
# sphinx_gallery_end_ignore


def vibration(t):
    """Return the signal without noise: a burst between seconds 4 and 6 on a slow drift."""
    burst = np.exp(-(((t - 5) / 0.6) ** 4)) * np.sin(14 * (t - 5))
    return burst + 0.5 * np.sin(0.5 * t)


random = np.random.default_rng(1)


def measure(n):
    """Return times and noisy measurements; the sensor was off between seconds 7 and 8."""
    t = random.uniform(0, 10, n)
    t = t[(t < 7) | (t > 8)]
    return t[:, None], vibration(t) + 0.1 * random.normal(size=len(t))


X, y = measure(n_rows)
X_test, y_test = measure(2000)

# %%
# Two models that differ only in the warp. Both begin with a short length-scale, because the burst
# oscillates several times.

models = {
    depth: WarpedGPRegressor(depth=depth, length_scale=0.2, random_state=0, **settings).fit(X, y)
    for depth in (0, 1)
}
for depth, model in models.items():
    scores = evaluate(model, X_test, y_test)
    print(f"{depth} warps: RMSE {scores.rmse:.3f}, MNLP {scores.mnlp:.2f}")

# %%
# The stationary model (a) has one length-scale for all: it misses the burst, takes it for noise,
# wiggles where the machine rests, and is unsure in the gap. The warped one (b) follows the burst,
# is smooth where the signal is smooth, and its band in the gap is narrow. The warp (c) is steepest
# during the burst: there it stretches time.

figure, axes = plt.subplots(3, 1, figsize=(9, 9), layout="constrained", sharex=True)
t = np.linspace(0, 10, 2000)
for ax, model in zip(axes, models.values(), strict=False):
    plot_prediction(model, X, y, ax=ax)
    ax.plot(t, vibration(t), color="black", lw=0.8, ls="--", label="truth")
    ax.axvspan(7, 8, color="grey", alpha=0.12, lw=0)
    ax.set(xlabel="", ylabel="vibration", ylim=(-2.1, 2.3))
    ax.legend(ncols=5, loc="upper center", frameon=False, fontsize="small")
axes[0].set_title("(a) stationary; the sensor was off in the grey second", loc="left")
axes[1].set_title("(b) with one warp", loc="left")
plot_warps(models[1], X, ax=axes[2])
axes[2].set_title("(c) the learnt warp", loc="left")
axes[2].set(xlabel="time (s)", ylabel="warped time (s)")
plt.show()
