"""Models of BoTorch that are fitted to the values so far."""

from __future__ import annotations

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from botorch.models.transforms.input import Warp
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.priors import LogNormalPrior
from jaxtyping import Float64
from torch import Tensor

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
