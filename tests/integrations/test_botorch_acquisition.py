"""BoTorch's acquisition functions, optimised with an SSWIMModel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("botorch", reason="needs the extra botorch")

from botorch.acquisition import (
    LogExpectedImprovement,
    PosteriorMean,
    qKnowledgeGradient,
    qLogNoisyExpectedImprovement,
    qUpperConfidenceBound,
)
from botorch.acquisition.max_value_entropy_search import qMaxValueEntropy
from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
from botorch.acquisition.objective import LinearMCObjective
from botorch.acquisition.thompson_sampling import PathwiseThompsonSampling
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.model import ModelList
from botorch.optim import optimize_acqf
from botorch.sampling.normal import SobolQMCNormalSampler
from builders.botorch_models import BOUNDS, OPTIMUM, fitted_hill, hill, rows, two_outputs

from sswim.integrations.botorch import SSWIMModel

# BoTorch tries again by itself.
pytestmark = pytest.mark.filterwarnings("ignore:Optimization failed in")

Acquisition = Callable[[], Any]


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    """BoTorch draws from the global generator: seed it, and put it back."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def maximise(acquisition: Any, q: int = 1, **options: Any) -> tuple[Tensor, Tensor]:
    points, value = optimize_acqf(
        acquisition, BOUNDS, q=q, num_restarts=4, raw_samples=128, **options
    )
    assert points.shape == (q, 2)
    assert value.isfinite().all()
    assert ((points >= 0) & (points <= 1)).all()
    return points, value


def distance(points: Tensor) -> float:
    """Return the distance of the best point from the optimum."""
    return (points - OPTIMUM).square().sum(-1).sqrt().min().item()


def sampler(n: int = 32) -> SobolQMCNormalSampler:
    return SobolQMCNormalSampler(torch.Size([n]), seed=0)


WEIGHTS = torch.tensor([1.0, 0.0], dtype=torch.float64)

EXPLOITING: dict[str, tuple[Acquisition, int]] = {
    "posterior mean": (lambda: PosteriorMean(fitted_hill()), 1),
    "logei": (lambda: LogExpectedImprovement(fitted_hill(), best_f=hill(rows()).max()), 1),
    "qlognei": (
        lambda: qLogNoisyExpectedImprovement(fitted_hill(), rows(), sampler(), prune_baseline=True),
        2,
    ),
    "qucb": (lambda: qUpperConfidenceBound(fitted_hill(), beta=0.1, sampler=sampler()), 2),
    "thompson": (lambda: PathwiseThompsonSampling(fitted_hill()), 2),
    "thompson of two outputs": (
        lambda: PathwiseThompsonSampling(
            SSWIMModel(rows(), two_outputs(rows())), objective=LinearMCObjective(WEIGHTS)
        ),
        2,
    ),
}
"""Acquisition functions that go where the mean is large, once the function is known well."""


@pytest.mark.parametrize("name", EXPLOITING)
def test_the_optimum_is_found(name: str) -> None:
    acquisition, q = EXPLOITING[name]
    points, _ = maximise(acquisition(), q)
    assert distance(points) < 0.1


def test_entropy_of_the_maximum_and_knowledge_gradient() -> None:
    candidates = torch.rand(100, 2, dtype=torch.float64)
    acquisition = qMaxValueEntropy(fitted_hill(), candidates)
    _, value = maximise(acquisition, 2, sequential=True)
    assert value.flatten()[0] > acquisition(candidates[:20, None]).median()
    _, value = maximise(qKnowledgeGradient(fitted_hill(), num_fantasies=4), 2)
    _, best = maximise(PosteriorMean(fitted_hill()))
    assert value > best - 0.01  # what the best mean will be, after two more rows


@pytest.mark.filterwarnings("ignore:A not p.d.")  # of the other model
def test_models_of_both_kinds_in_one_list() -> None:
    plane = SingleTaskGP(rows(), rows()[:, 1:])
    both = ModelList(fitted_hill(), plane)
    posterior = both.posterior(rows()[:3])
    assert posterior.mean.shape == (3, 2)
    assert posterior.rsample(torch.Size([4])).shape == (4, 3, 2)
    assert not isinstance(both, ModelListGP)
    acquisition = qLogNoisyExpectedHypervolumeImprovement(both, [0.0, 0.0], rows())
    assert acquisition(rows()[:4, None]).isfinite().all()
