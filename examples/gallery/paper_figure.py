"""
A figure of the paper
=====================

The paper explains its warps by a signal of steps, a slow wave and a chirp. This example draws that
figure: the signal, the learnt warp, the signal after the warp, and the prediction.
``sswim reproduce figure-warp-1d`` makes it with the numbers beside it, and ``sswim reproduce``
lists the other figures and tables.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

from sswim import WarpedGPRegressor
from sswim.cli.demo import nonstationary_signal
from sswim.plotting import INPUT_COLOURS, plot_prediction, plot_warped_data, plot_warps

n_rows, settings = 600, {"n_components": 256, "n_pseudo": 64}
# sphinx_gallery_start_ignore
import os

if "SSWIM_GALLERY_QUICK" in os.environ:
    n_rows, settings = 60, {"n_components": 32, "n_pseudo": 8, "max_iter": 5}
# sphinx_gallery_end_ignore

generator = torch.Generator().manual_seed(0)
x = 3 * torch.rand(n_rows, generator=generator, dtype=torch.float64)
y = nonstationary_signal(x) + 0.1 * torch.randn(n_rows, generator=generator, dtype=torch.float64)
X = x.unsqueeze(-1)

# %%
# One model with one warp. The initial length-scale is short, because the signal changes often.

model = WarpedGPRegressor(depth=1, length_scale=0.2, random_state=0, **settings).fit(X, y)

# %%
# Where the signal changes fast, the warp is steep: over the same stretch of the input the warped
# input moves farther. After the warp the slopes of the parts differ less.

parts = {"wave": (1.0, 2.0), "slow half of the chirp": (2.0, 2.5), "fast half": (2.5, 3.0)}
for name, (begin, end) in parts.items():
    along = torch.linspace(begin, end, 1000, dtype=torch.float64)
    (warped, _), *_ = model.warp(along.unsqueeze(-1))
    travel = np.abs(np.diff(nonstationary_signal(along).numpy())).sum()
    after = travel / np.abs(np.diff(warped[:, 0])).sum()
    print(
        f"{name:22}: mean slope {travel / (end - begin):5.1f} before, {after:5.1f} after the warp"
    )

# %%

figure, axes = plt.subplots(2, 2, figsize=(11, 7.5), layout="constrained")
axes[0, 0].scatter(X[:, 0], y, s=7, c=X[:, 0], cmap=INPUT_COLOURS, linewidths=0)
axes[0, 0].set(title="(a) the rows", xlabel="x", ylabel="target")
plot_warps(model, X, ax=axes[0, 1])
axes[0, 1].set(title="(b) the warp", xlabel="x", ylabel="x, warped")
plot_warped_data(model, X, y, ax=axes[1, 0])
axes[1, 0].set(title="(c) the rows after the warp", xlabel="x, warped")
plot_prediction(model, X, y, ax=axes[1, 1])
axes[1, 1].set(title="(d) the prediction", xlabel="x", ylim=(-1.6, 2.4))
axes[1, 1].legend(loc="upper left", ncols=2, frameon=False, fontsize="small")
plt.show()
