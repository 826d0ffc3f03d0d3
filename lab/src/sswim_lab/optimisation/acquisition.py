"""Acquisition functions: the next point by a fitted model, the same way for every model."""

from __future__ import annotations

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.acquisition.thompson_sampling import PathwiseThompsonSampling
from botorch.models.model import Model
from botorch.optim.optimize import optimize_acqf
from botorch.sampling.normal import SobolQMCNormalSampler
from jaxtyping import Float64
from torch import Tensor

from sswim.integrations.botorch import avoid_repeats
from sswim_lab.optimisation.acquisition_settings import N_RAW_SAMPLES, N_RESTARTS, N_SAMPLES


def noisy_expected_improvement(
    model: Model, x: Float64[Tensor, "N D"], seed: int
) -> AcquisitionFunction:
    """Return the logarithm of the noisy expected improvement over all points so far."""
    return qLogNoisyExpectedImprovement(
        model,
        X_baseline=x,
        sampler=SobolQMCNormalSampler(torch.Size([N_SAMPLES]), seed=seed),
        prune_baseline=True,
    )


def thompson_sample(model: Model, x: Float64[Tensor, "N D"], seed: int) -> AcquisitionFunction:
    """Return a draw from the posterior, by the global generator of PyTorch."""
    return PathwiseThompsonSampling(model)


def climb(
    acquisition: AcquisitionFunction, model: Model, x: Float64[Tensor, "N D"], seed: int
) -> Float64[Tensor, " D"]:
    """Return the best point of the unit cube that gradients find, unless it repeats a point.

    The functions have no noise, so that a repeat would be lost. Then every method goes to a place
    far from all points.
    """
    bounds = torch.stack([torch.zeros_like(x[0]), torch.ones_like(x[0])])
    points, _ = optimize_acqf(
        acquisition, bounds, q=1, num_restarts=N_RESTARTS, raw_samples=N_RAW_SAMPLES
    )
    return avoid_repeats(points, model, x, bounds, seed)[0]
