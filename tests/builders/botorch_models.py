"""Models of BoTorch for tests; import it after checking that BoTorch is installed."""

from __future__ import annotations

from functools import cache, partial
from unittest import mock

import torch
from botorch.models.transforms.input import InputTransform
from botorch.models.transforms.outcome import OutcomeTransform
from botorch.posteriors.posterior import Posterior
from torch import Tensor

from builders.surrogates import uniform
from sswim.integrations import botorch
from sswim.integrations.botorch import SSWIMModel
from sswim.surrogate import fit_surrogate

BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
OPTIMUM = torch.tensor([0.3, 0.6], dtype=torch.float64)


def hill(X: Tensor) -> Tensor:
    """Return an easy function of two inputs with its maximum, one, at the optimum."""
    return (-5 * (X - OPTIMUM.to(X)).square().sum(-1, keepdim=True)).exp()


def two_outputs(X: Tensor) -> Tensor:
    """Return the hill, and a plane that rises with the second input."""
    return torch.cat((hill(X), X[..., 1:]), dim=-1)


def rows(n: int = 14) -> Tensor:
    return uniform(torch.Generator().manual_seed(3), n, 2)


def quick_model(
    X: Tensor,
    Y: Tensor,
    variance: Tensor | None = None,
    *,
    input_transform: InputTransform | None = None,
    outcome_transform: OutcomeTransform | None = None,
    random_state: int = 0,
) -> SSWIMModel:
    """Make a model that is trained by a few steps only, for tests of its algebra."""
    with mock.patch.object(botorch, "fit_surrogate", partial(fit_surrogate, n_steps=5)):
        return SSWIMModel(
            X,
            Y,
            variance,
            input_transform=input_transform,
            outcome_transform=outcome_transform,
            random_state=random_state,
        )


@cache
def quick_hill() -> SSWIMModel:
    """Return a quick model of the hill; tests share it."""
    return quick_model(rows(), hill(rows()))


@cache
def quick_pair() -> SSWIMModel:
    """Return a quick model of two outputs; tests share it."""
    return quick_model(rows(), two_outputs(rows()))


@cache
def fitted_hill() -> SSWIMModel:
    """Return a model of the hill as users would have it; tests share it."""
    return SSWIMModel(rows(), hill(rows()))


def assert_same(ours: Posterior, theirs: Posterior) -> None:
    """Assert that two posteriors have the same moments."""
    assert torch.allclose(ours.mean, theirs.mean, atol=1e-8)
    assert torch.allclose(ours.variance, theirs.variance, atol=1e-8)
