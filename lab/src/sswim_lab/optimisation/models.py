"""Models of BoTorch that are fitted to the values so far, and the next point by a fitted model."""

from __future__ import annotations

import torch
from botorch.acquisition.acquisition import AcquisitionFunction
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.acquisition.thompson_sampling import PathwiseThompsonSampling
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from botorch.models.transforms.input import Warp
from botorch.optim.optimize import optimize_acqf
from botorch.sampling.normal import SobolQMCNormalSampler
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.priors import LogNormalPrior
from jaxtyping import Float64
from torch import Tensor

from sswim.integrations.botorch import avoid_repeats
from sswim_lab.optimisation.methods import N_RAW_SAMPLES, N_RESTARTS, N_SAMPLES

WARP_PRIOR_SCALE = 0.75**0.5
"""Scale of the log-normal priors of a warp, as in BoTorch's tutorial; their median is no warp."""


def fit_gp(x: Float64[Tensor, "N D"], y: Float64[Tensor, "N 1"]) -> Model:
    """Fit BoTorch's default model: a GP of standardised values, with its default priors."""
    return _fitted(SingleTaskGP(x, y))


def fit_warped_gp(x: Float64[Tensor, "N D"], y: Float64[Tensor, "N 1"]) -> Model:
    """Fit BoTorch's default model of inputs that Kumaraswamy distribution functions warp."""
    dimension = x.shape[-1]
    warp = Warp(
        d=dimension,
        indices=list(range(dimension)),
        concentration1_prior=LogNormalPrior(0.0, WARP_PRIOR_SCALE),
        concentration0_prior=LogNormalPrior(0.0, WARP_PRIOR_SCALE),
        bounds=torch.stack([torch.zeros_like(x[0]), torch.ones_like(x[0])]),
    )
    return _fitted(SingleTaskGP(x, y, input_transform=warp))


def fit_sswim(x: Float64[Tensor, "N D"], y: Float64[Tensor, "N 1"]) -> Model:
    """Fit this package's model with its default settings."""
    from sswim.integrations.botorch import SSWIMModel  # noqa: PLC0415 (others do not need it)

    return SSWIMModel(x, y)


def _fitted(model: SingleTaskGP) -> Model:
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


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
