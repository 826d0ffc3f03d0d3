"""Surrogates and models of BoTorch on a GPU agree with those of a CPU. Skipped where none is."""

from __future__ import annotations

import pytest
import torch
from builders.models import normal
from builders.surrogates import uniform
from torch import Tensor

# Imported here, because some libraries draw random numbers when they are imported.
pytest.importorskip("botorch", reason="needs the extra botorch")

from botorch.acquisition import qLogNoisyExpectedImprovement
from botorch.models.transforms.input import Normalize
from botorch.models.transforms.outcome import Standardize
from botorch.optim import optimize_acqf

from sswim.integrations.botorch import SSWIMModel, avoid_repeats
from sswim.surrogate import fit_surrogate

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
CUDA = torch.device("cuda")


@pytest.mark.parametrize("known", [False, True])
def test_surrogates(known: bool, generator: torch.Generator) -> None:
    inputs, targets = uniform(generator, 20, 2), normal(generator, 20)
    variance = 0.1 * uniform(generator, 20) if known else None
    points, new, values = *(uniform(generator, 3, n, 2) for n in (4, 1)), targets[:3, None]
    found: list[list[Tensor]] = []
    for device in (torch.device("cpu"), CUDA):
        seed = torch.Generator().manual_seed(0)
        own = None if variance is None else variance.to(device)
        surrogate = fit_surrogate(inputs.to(device), targets.to(device), own, seed, n_steps=3)
        leaf = points.to(device, copy=True).requires_grad_()
        updated = surrogate.update(new.to(device), values.to(device))
        moments = surrogate.target_map.moments(*surrogate.predict_jointly(leaf, include_noise=True))
        draws = surrogate.sample(3, seed)(leaf)
        every = [*moments, *updated.predict_jointly(leaf), draws]
        assert {each.device.type for each in every} == {device.type}
        torch.stack([each.sum() for each in every]).sum().backward()
        assert leaf.grad is not None
        found.append([each.detach().cpu() for each in (*every, leaf.grad)])
    for ours, theirs in zip(found[1], found[0], strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_models_of_botorch(generator: torch.Generator) -> None:
    X = uniform(generator, 20, 2).to(CUDA)
    Y = -(X - 0.3).square().sum(-1, keepdim=True)
    model = SSWIMModel(X, Y, input_transform=Normalize(2), outcome_transform=Standardize(1))
    assert model.posterior(X).mean.device.type == "cuda"
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64, device=CUDA)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        acquisition = qLogNoisyExpectedImprovement(model, X, prune_baseline=True)
        found, _ = optimize_acqf(acquisition, bounds, q=2, num_restarts=3, raw_samples=64)
    assert found.device.type == "cuda"
    assert (found - 0.3).abs().amax(-1).min() < 0.1
    elsewhere = avoid_repeats(X[:1], model, X, bounds)
    assert elsewhere.device.type == "cuda"
    assert torch.cdist(elsewhere, X).min() > 0.05
