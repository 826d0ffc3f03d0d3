"""
Bayesian optimisation
=====================

Some functions are costly: an experiment, a simulation, the training of a network. A surrogate
learns from the few values there are, and an acquisition function chooses the next point. Here the
function is gentle except for a narrow funnel, so no single length-scale suits it.
:class:`~sswim.integrations.botorch.SSWIMModel` is a surrogate for BoTorch that warps its inputs. It
needs the extra ``sswim[botorch]``.
"""

import matplotlib.pyplot as plt
import torch
from botorch.acquisition import qLogNoisyExpectedImprovement
from botorch.optim import optimize_acqf
from botorch.utils.sampling import draw_sobol_samples

from sswim.integrations.botorch import SSWIMModel

n_first, n_rounds, n_raw = 6, 14, 128
# sphinx_gallery_start_ignore
import os

if "SSWIM_GALLERY_QUICK" in os.environ:
    n_rounds, n_raw = 1, 16
# sphinx_gallery_end_ignore


def loss(X):
    """Return what is to be small; its smallest value is −3, at (0.8, 0.5 + 0.3 sin 4)."""
    x, y = X[..., 0], X[..., 1]
    valley = 0.5 + 0.3 * torch.sin(5 * x)
    return torch.log10(0.001 + (x - 0.8) ** 2 + (y - valley) ** 2)


# %%
# Six points that fill the square, then one point after another. BoTorch maximises, so the model
# sees the negative loss.

torch.manual_seed(0)
bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
X = draw_sobol_samples(bounds, n=n_first, q=1, seed=0).squeeze(1)
Y = -loss(X).unsqueeze(-1)
for _ in range(n_rounds):
    model = SSWIMModel(X, Y)
    acquisition = qLogNoisyExpectedImprovement(model, X, prune_baseline=True)
    point, _ = optimize_acqf(acquisition, bounds, q=1, num_restarts=4, raw_samples=n_raw)
    X, Y = torch.cat((X, point)), torch.cat((Y, -loss(point).unsqueeze(-1)))
best = X[Y.argmax()]
print(f"best loss {-Y.max():.2f} at ({best[0]:.3f}, {best[1]:.3f}), after {len(X)} evaluations")

# %%
# After a few steps the model has found the funnel (a), and spends its evaluations there. In (b) is
# the best value so far, and that of random points, averaged over 200 draws.

generator = torch.Generator().manual_seed(0)
by_chance = loss(torch.rand(200, len(X), 2, generator=generator, dtype=torch.float64))
figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.5), layout="constrained")
along = torch.linspace(0, 1, 200, dtype=torch.float64)
surface = loss(torch.stack(torch.meshgrid(along, along, indexing="xy"), dim=-1))
filled = left.contourf(along, along, surface, levels=20, cmap="viridis")
figure.colorbar(filled, ax=left, label="loss")
left.plot(*X[:n_first].T, "x", color="C3", ms=7, mew=2, label="first points")
left.plot(*X[n_first:].T, "o", color="C1", mec="white", ms=6, label="chosen points")
left.set(title="(a) where the function was evaluated", xlabel="x", ylabel="y", aspect=1)
left.legend(loc="lower left", fontsize="small")
count = range(1, len(X) + 1)
right.step(count, (-Y[:, 0]).cummin(0).values, where="post", color="C1", label="SSWIMModel")
right.step(
    count, by_chance.cummin(1).values.mean(0), where="post", color="grey", label="random points"
)
right.axhline(-3, color="black", lw=0.8, ls="--", label="smallest value")
right.axvline(n_first, color="black", lw=0.6, ls=":")
right.set(title="(b) progress", xlabel="number of evaluations", ylabel="best loss so far")
right.set_xticks(range(0, len(X) + 1, 5))
right.legend(frameon=False)
plt.show()
