"""
Skewed targets, and noise that grows
====================================

Prices, rainfall and run times are positive and skewed, and often noisier in some places than in
others. An output warp learns a monotone map of the target after which the noise is Gaussian;
input-dependent noise learns where it is strong. The default has both; here they are added to a
single model one by one.
"""

import matplotlib.pyplot as plt
import numpy as np

from sswim import WarpedGPRegressor, evaluate
from sswim.plotting import plot_pit, plot_prediction

n_rows, settings = 800, {"depth": 0, "n_components": 128, "max_iter": 300}
# sphinx_gallery_start_ignore
import os

if "SSWIM_GALLERY_QUICK" in os.environ:
    n_rows, settings = 100, {"depth": 0, "n_components": 16, "max_iter": 5}
# sphinx_gallery_end_ignore

random = np.random.default_rng(0)


def draw(n):
    """Return rows whose logarithms have Gaussian noise that grows with x."""
    x = random.uniform(0, 4, n)
    return x[:, None], np.exp(np.sin(2 * x) + (0.1 + 0.2 * x) * random.normal(size=n))


X, y = draw(n_rows)
X_test, y_test = draw(4000)

# %%
# Neither setting is about the mean: the error stays, and the densities get better (a smaller MNLP).

variants = {
    "plain": {},
    "output warp": {"output_warp": "sinh-arcsinh"},
    "both": {"output_warp": "sinh-arcsinh", "noise": "input-dependent"},
}
models = {}
for name, variant in variants.items():
    models[name] = WarpedGPRegressor(random_state=0, **settings, **variant).fit(X, y)
    scores = evaluate(models[name], X_test, y_test)
    right = X_test[:, 0] > 3
    part = evaluate(models[name], X_test[right], y_test[right])
    print(
        f"{name:12} RMSE {scores.rmse:.2f}, MNLP {scores.mnlp:.2f}, coverage of 90 % "
        f"{scores.coverage:.2f}; for x > 3: {part.coverage:.2f}"
    )

# %%
# The plain model (a) has the same symmetric noise everywhere, and promises negative targets. With
# both (b) the intervals follow the rows. Below is where each test row lies in its predicted
# density: a good model has a flat histogram.

figure, axes = plt.subplots(
    2, 2, figsize=(10, 7), layout="constrained", height_ratios=(3, 2), sharey="row"
)
for column, (letters, name) in enumerate({"ac": "plain", "bd": "both"}.items()):
    top, bottom = axes[:, column]
    plot_prediction(models[name], X, y, ax=top)
    top.set(title=f"({letters[0]}) {name}", ylim=(-4, 14), xlabel="x", ylabel="y")
    top.legend(loc="upper center", ncols=2, frameon=False, fontsize="small")
    plot_pit(models[name], X_test, y_test, ax=bottom)
    bottom.set(title=f"({letters[1]}) PIT of {name}", ylim=(0, 2.8))
plt.show()
