from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from builders.models import OUTPUT_WARPS, normal, random_warp
from torch import Tensor

from sswim.ensemble.joint_posterior import mapped_moments
from sswim.warps.output_warp import OutputWarpName

Map = Callable[[Tensor], Tensor]


def cubic(z: Tensor) -> Tensor:
    return z + 0.1 * z**3


def random_moments(generator: torch.Generator, *shape: int) -> tuple[Tensor, Tensor]:
    """Return means (*B, N) and positive definite covariances with deviations of about 0.5."""
    root = 0.5 * normal(generator, *shape, shape[-1]) / shape[-1] ** 0.5
    return normal(generator, *shape), root @ root.mT


def unwarping(kind: OutputWarpName, n_terms: int, generator: torch.Generator) -> Map:
    """Return the inverse of a random output warp of one target."""
    with torch.no_grad():
        output = random_warp(kind, n_terms, generator, n_targets=1, spread=0.3).factors()[0]
    return lambda z: output.inverse(z[..., None])[..., 0]


@pytest.mark.parametrize(("kind", "n_terms"), [("cubic", 0), *OUTPUT_WARPS])
def test_moments_are_those_of_draws(kind: Any, n_terms: int, generator: torch.Generator) -> None:
    """Up to four standard errors of many draws."""
    map_ = unwarping(kind, n_terms, generator) if n_terms else cubic
    mean, covariance = random_moments(generator, 3)
    n = 100_000
    draws = map_(mean + normal(generator, n, 3) @ torch.linalg.cholesky(covariance).mT)
    found, joint = mapped_moments(map_, mean, covariance)
    assert ((draws.mean(0) - found).abs() < 4 * draws.std(0) / n**0.5).all()
    centred = draws - draws.mean(0)
    products = centred[:, :, None] * centred[:, None, :]
    assert ((products.mean(0) - joint).abs() < 4 * products.std(0) / n**0.5).all()


def test_moments_of_exponential_and_affine_maps_in_closed_form(generator: torch.Generator) -> None:
    mean, covariance = random_moments(generator, 2, 3, 4)
    found, joint = mapped_moments(torch.exp, mean, covariance)
    expected = (mean + 0.5 * covariance.diagonal(dim1=-2, dim2=-1)).exp()
    assert torch.allclose(found, expected, rtol=1e-9)
    outer = expected[..., :, None] * expected[..., None, :]
    assert torch.allclose(joint, outer * covariance.expm1(), rtol=1e-8)
    found, joint = mapped_moments(lambda z: 3 - 2 * z, mean, covariance)
    assert torch.allclose(found, 3 - 2 * mean, rtol=1e-12)
    assert torch.allclose(joint, 4 * covariance, rtol=1e-10, atol=1e-14)


def test_gradients(generator: torch.Generator) -> None:
    mean, covariance = random_moments(generator, 2, 3)
    root = torch.linalg.cholesky(covariance).requires_grad_()

    def moments(mean: Tensor, root: Tensor) -> tuple[Tensor, ...]:
        return mapped_moments(torch.exp, mean, root @ root.mT)

    assert torch.autograd.gradcheck(moments, (mean.requires_grad_(), root))


def test_values_without_variance_have_finite_gradients(generator: torch.Generator) -> None:
    """To first order Cov(g(z), g(z')) = g'(z)g'(z')cov(z, z'), also at a variance of zero."""
    mean, covariance = random_moments(generator, 3)
    covariance[0] = covariance[:, 0] = 0
    mean.requires_grad_()
    covariance.requires_grad_()
    found, joint = mapped_moments(torch.exp, mean, covariance)
    assert torch.allclose(found[0], mean[0].exp(), rtol=1e-7)
    assert (joint[0] == 0).all()
    of_mean, of_covariance = torch.autograd.grad(joint[0, 0] + found[0], (mean, covariance))
    assert torch.allclose(of_covariance[0, 0], (2 * mean[0]).exp(), rtol=1e-6)
    assert torch.allclose(of_mean[0], mean[0].exp(), rtol=1e-6)
    both = torch.autograd.grad(mapped_moments(torch.exp, mean, covariance)[1].sum(), covariance)
    assert both[0].isfinite().all()
    nothing = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
    found, joint = mapped_moments(cubic, mean, nothing)
    assert (joint == 0).all()
    for gradient in torch.autograd.grad(found.sum() + joint.sum(), (mean, nothing)):
        assert gradient.isfinite().all()
