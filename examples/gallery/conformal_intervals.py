"""
Conformal intervals
===================

The intervals of a model are as good as its density. This model is wrong on purpose: it assumes
Gaussian noise of one strength, and the rows have outliers. ``calibrate`` measures the size of
errors on rows that were not in the fit, and conformal intervals then cover what they promise.
"""

import matplotlib.pyplot as plt
import numpy as np

from sswim import WarpedGPRegressor

n_rows, n_held, settings = 400, 400, {"depth": 0, "n_components": 128}
# sphinx_gallery_start_ignore
import os

if "SSWIM_GALLERY_QUICK" in os.environ:
    n_rows, n_held, settings = 100, 100, {"depth": 0, "n_components": 16, "max_iter": 5}
# sphinx_gallery_end_ignore

random = np.random.default_rng(0)


def draw(n):
    """Return rows with heavy-tailed noise (Student-t with 1.5 degrees of freedom)."""
    x = random.uniform(0, 10, n)
    return x[:, None], np.sin(x) + 0.1 * random.standard_t(1.5, size=n)


X, y = draw(n_rows)
X_held, y_held = draw(n_held)
X_test, y_test = draw(10_000)

model = WarpedGPRegressor(random_state=0, **settings).fit(X, y)
model.calibrate(X_held, y_held)

# %%
# Coverage of new rows, at several levels, by the model's own intervals and by conformal ones.

levels = np.array([0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95])
coverage = {}
for method in ("model", "conformal"):
    shares = []
    for level in levels:
        lower, upper = model.predict_interval(X_test, level, method=method)
        shares.append(np.mean((lower <= y_test) & (y_test <= upper)))
    coverage[method] = np.array(shares)
    print(f"{method:10}" + "".join(f"{share:7.1%}" for share in shares))
print("promised  " + "".join(f"{level:7.0%}" for level in levels))

# %%
# Outliers inflate the noise of the model, so its intervals are far too wide for most rows. The
# conformal ones are right on average, by a guarantee that holds for any model and any noise, as
# long as calibration rows and new rows come from the same source.

figure, (left, right) = plt.subplots(
    1, 2, figsize=(11, 4.5), layout="constrained", width_ratios=(3, 2)
)
x = np.linspace(0, 10, 400)
left.scatter(X_test[:600, 0], y_test[:600], s=4, color="grey", alpha=0.6, label="new rows")
for method, colour in (("model", "C1"), ("conformal", "C0")):
    lower, upper = model.predict_interval(x[:, None], 0.8, method=method)
    left.fill_between(x, lower, upper, color=colour, alpha=0.25, lw=0)
    left.plot(x, lower, color=colour, lw=1, label=f"80 % interval, {method}")
    left.plot(x, upper, color=colour, lw=1)
left.plot(x, model.predict(x[:, None]), color="black", lw=1, label="mean")
left.set(title="(a) intervals of 80 %", xlabel="x", ylabel="y", ylim=(-3, 3.6))
left.legend(loc="upper center", ncols=2, frameon=False, fontsize="small")
for method, colour in (("model", "C1"), ("conformal", "C0")):
    right.plot(levels, coverage[method], "o-", color=colour, label=method)
right.plot([0, 1], [0, 1], color="black", lw=0.8, ls="--", label="as promised")
right.set(title="(b) coverage of new rows", xlabel="promised", ylabel="observed", aspect=1)
right.legend(frameon=False)
plt.show()
