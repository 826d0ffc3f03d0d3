"""
A first fit
===========

:class:`~sswim.SSWIMRegressor` is a scikit-learn estimator: give it rows, and ask it for means,
error bars and intervals. There is nothing to tune. The target here is a wave that gets ever faster,
with noise: no single length-scale suits all of it.
"""

import matplotlib.pyplot as plt
import numpy as np

from sswim import SSWIMRegressor, evaluate
from sswim.plotting import plot_prediction

random = np.random.default_rng(0)


def wave(x):
    """Return the function without noise."""
    return np.sin(12 * x**3)


X = random.uniform(0, 1.3, (150, 1))
y = wave(X[:, 0]) + 0.1 * random.normal(size=len(X))

# %%
# Fit, and predict. The standard deviation and the interval are about new observations; with
# ``include_noise=False`` they are about the function.

model = SSWIMRegressor(random_state=0)
# sphinx_gallery_start_ignore
import os

if "SSWIM_GALLERY_QUICK" in os.environ:
    from sswim import Recipe

    model.set_params(recipe=Recipe(n_components=32, n_pseudo=8, max_iter=5), n_members=1)
# sphinx_gallery_end_ignore
model.fit(X, y)

X_new = np.array([[0.2], [0.8], [1.2]])
mean, std = model.predict(X_new, return_std=True)
lower, upper = model.predict_interval(X_new, 0.9)
for row in zip(X_new[:, 0], mean, std, lower, upper, strict=True):
    print("x = {:.1f}: mean {:5.2f}, std {:.2f}, 90 % interval {:5.2f} to {:5.2f}".format(*row))

# %%
# How good is it on rows that it has not seen? MNLP is the mean negative log probability; the noise
# has a standard deviation of 0.1, so no model has a smaller RMSE.

X_test = random.uniform(0, 1.3, (1000, 1))
y_test = wave(X_test[:, 0]) + 0.1 * random.normal(size=len(X_test))
scores = evaluate(model, X_test, y_test)
print(f"RMSE {scores.rmse:.3f}, MNLP {scores.mnlp:.2f}, coverage of 90 % {scores.coverage:.2f}")

# %%
# The default trained several kinds of members. Their weights come from rows that each left out.

for kind in model.kinds_:
    print(f"{kind.name:20} {kind.n_members} members, weight {kind.weight:.2f}")

# %%
# The pale band should hold nine of ten new observations, the dark one the function.

figure, ax = plt.subplots(figsize=(9, 4), layout="constrained")
plot_prediction(model, X, ax=ax)
ax.scatter(X[:, 0], y, s=9, color="C1", label="rows", zorder=3)
x = np.linspace(0, 1.3, 1000)
ax.plot(x, wave(x), color="black", lw=0.8, ls="--", label="truth")
ax.set(title="A wave that gets faster", xlabel="x", ylabel="y", ylim=(-1.6, 2.3))
ax.legend(ncols=3, loc="upper center", frameon=False)
plt.show()
