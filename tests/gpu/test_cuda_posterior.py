"""Joint posteriors and drawn functions on a GPU are those of a CPU. Skipped where there is none."""

from __future__ import annotations

import pytest
import torch
from builders.estimators import make_rows, small
from builders.posteriors import KINDS, far_points, far_rows, small_ensemble
from torch import Tensor

from sswim.rows import Measure

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
CUDA = torch.device("cuda")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "few neighbours"])
def test_moments_draws_and_gradients(kind: str, generator: torch.Generator) -> None:
    ensemble = small_ensemble(far_rows(generator), KINDS[kind], generator)
    points = far_points(generator, 3, 2)
    found: list[list[Tensor]] = []
    for device in (torch.device("cpu"), CUDA):
        own, leaf = ensemble.to(device=device), points.to(device, copy=True).requires_grad_()
        posterior = own.posterior(leaf, include_noise=True)
        functions = own.sample(3, torch.Generator().manual_seed(0))
        draws = functions(Measure(leaf.flatten(0, 1)))
        total = posterior.mean.sum() + posterior.covariance.sum() + draws.sum()
        every = [*posterior.tensors(), draws, *torch.autograd.grad(total, leaf)]
        found.append([tensor.detach().cpu() for tensor in every])
    for ours, theirs in zip(found[1], found[0], strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-7, atol=1e-8)


def test_results_are_on_the_device_of_the_inputs() -> None:
    model = small(depth=1, max_iter=2, device="cuda").fit(*make_rows())
    for device in (torch.device("cpu"), CUDA):
        leaf = torch.zeros(3, 2, dtype=torch.float64, device=device, requires_grad=True)
        found, draws = model.posterior(leaf), model.sample_paths(2)(leaf)
        assert {each.device.type for each in (found.mean, found.covariance, draws)} == {device.type}
        (found.mean.sum() + draws.sum()).backward()
        assert leaf.grad is not None
        assert leaf.grad.device.type == device.type
