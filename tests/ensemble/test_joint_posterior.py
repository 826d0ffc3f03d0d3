from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

import pytest
import torch
from builders.cores import use_threads
from builders.models import OUTPUT_WARPS, assert_close, normal, random_warp
from builders.posteriors import KINDS, far_points, far_rows, small_ensemble
from torch import Tensor

from sswim.ensemble import Ensemble, JointPosterior
from sswim.ensemble import ensemble as ensemble_module
from sswim.ensemble.joint_posterior import mapped_moments
from sswim.members import pathwise
from sswim.rows import Measure, Rows
from sswim.warps import OutputWarpName

Map = Callable[[Tensor], Tensor]
NOISE = pytest.mark.parametrize("include_noise", [False, True], ids=["function", "observations"])


@pytest.fixture
def rows(generator: torch.Generator) -> Rows:
    return far_rows(generator)


@pytest.fixture(params=[*KINDS.values()], ids=[*KINDS.keys()])
def ensemble(rows: Rows, generator: torch.Generator, request: pytest.FixtureRequest) -> Ensemble:
    return small_ensemble(rows, request.param, generator)


@pytest.fixture
def mixture(rows: Rows, generator: torch.Generator) -> Ensemble:
    return small_ensemble(rows, KINDS["mixture"], generator)


def moments(ensemble: Ensemble, points: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
    found = ensemble.posterior(points, **options)
    return found.mean, found.covariance


@NOISE
def test_gradients(ensemble: Ensemble, include_noise: bool, generator: torch.Generator) -> None:
    points = far_points(generator, 2, 2).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x: moments(ensemble, x, include_noise=include_noise), points, atol=1e-6
    )


def test_gradients_of_drawn_functions(ensemble: Ensemble, generator: torch.Generator) -> None:
    functions = ensemble.sample(3, generator)
    points = far_points(generator, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: functions(Measure(x)), points, atol=1e-6)
    plain = functions(Measure(points.detach()))
    assert not plain.requires_grad
    assert torch.allclose(plain, functions(Measure(points)), rtol=1e-10, atol=1e-12)


def test_gradients_near_uncertain_rows(rows: Rows, generator: torch.Generator) -> None:
    ensemble = small_ensemble(rows, KINDS["neighbours"], generator, uncertain=True)
    points = far_points(generator, 1, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: moments(ensemble, x), points, atol=1e-6)


@NOISE
def test_a_set_has_the_moments_of_the_mixture(
    ensemble: Ensemble, include_noise: bool, rows: Rows, generator: torch.Generator
) -> None:
    """With a local amplitude and an output warp, a Gaussian stands for the Student-t.

    Covariances are positive also where points are equal, nearly equal, or rows of the fit.
    """
    some = far_points(generator, 3)
    points = torch.cat((some, some[:1], some[:1] + 1e-7, rows.inputs.mean[:2]))
    ours = ensemble.posterior(points, include_noise=include_noise)
    mixture = ensemble.predict(Measure(points))
    mixture = mixture if include_noise else mixture.without_noise()
    assert torch.allclose(ours.mean, mixture.mean, rtol=1e-9)
    assert torch.allclose(ours.variance, mixture.observation_variance, rtol=1e-7)
    assert torch.allclose(ours.standard_deviation, ours.variance.sqrt(), rtol=1e-12)
    theirs = ensemble.covariance(Measure(points), include_noise=include_noise)
    assert torch.allclose(ours.covariance, theirs, rtol=1e-7, atol=1e-8)
    assert torch.equal(ours.covariance, ours.covariance.mT)
    scale = ours.covariance.diagonal(dim1=-2, dim2=-1).max()
    assert torch.linalg.eigvalsh(ours.covariance).min() > -1e-10 * scale


def test_batches_equal_a_loop(ensemble: Ensemble, generator: torch.Generator) -> None:
    points = far_points(generator, 2, 3, 4)
    together = ensemble.posterior(points)
    assert together.mean.shape == (2, 3, 4, 2)
    assert together.covariance.shape == (2, 3, 2, 4, 4)
    for i in range(2):
        for j in range(3):
            alone = ensemble.posterior(points[i, j])
            assert_close(together.map(itemgetter((i, j))), alone, 1e-9)
    one_each = ensemble.posterior(points[..., None, :])
    assert torch.allclose(one_each.mean[..., 0, :], together.mean, rtol=1e-9)
    assert torch.allclose(one_each.variance[..., 0, :], together.variance, rtol=1e-8, atol=1e-10)


def test_many_sets_are_cut_into_chunks(
    mixture: Ensemble, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = far_points(generator, 9, 4).requires_grad_()
    whole = mixture.posterior(points)
    monkeypatch.setattr(ensemble_module, "rows_at_once", lambda _: 9)
    monkeypatch.setattr(pathwise, "PAIRS", 100)
    monkeypatch.setattr("sswim.members.neighbour_member.ENTRIES", {"cpu": 1})
    with use_threads(4):  # they record gradients
        parts = mixture.posterior(points)
    assert_close(whole, parts, 1e-9)
    first, second = (
        torch.autograd.grad(each.mean.sum() + each.covariance.sum(), points)[0]
        for each in (whole, parts)
    )
    assert torch.allclose(first, second, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0,), (0, 2, 1)])
def test_no_points(mixture: Ensemble, shape: tuple[int, ...], generator: torch.Generator) -> None:
    points = far_points(generator, *shape).requires_grad_()
    found = mixture.posterior(points)
    *batch, q = shape
    assert found.mean.shape == (*shape, 2)
    assert found.covariance.shape == (*batch, 2, q, q)
    assert found.standard_deviation.shape == (*shape, 2)
    (found.mean.sum() + found.covariance.sum()).backward()
    assert points.grad is not None


def test_equal_points_and_rows_of_the_fit_have_finite_gradients(
    ensemble: Ensemble, rows: Rows
) -> None:
    points = rows.inputs.mean[[0, 1, 0]].clone().requires_grad_()
    found = ensemble.posterior(points, include_noise=True)
    loss = found.mean.sum() + found.covariance.sum() + found.standard_deviation.sum()
    (gradient,) = torch.autograd.grad(loss, points)
    assert gradient.isfinite().all()


def test_flat_targets_have_no_axis(mixture: Ensemble, generator: torch.Generator) -> None:
    found = mixture.posterior(far_points(generator, 3, 2))
    flat = found.of_flat_targets()
    assert torch.equal(flat.mean, found.mean[..., 0])
    assert torch.equal(flat.covariance, found.covariance[:, 0])
    assert torch.equal(flat.variance, found.variance[..., 0])
    assert torch.equal(flat.standard_deviation, found.standard_deviation[..., 0])
    nothing = torch.zeros(2, 2, dtype=torch.float64, requires_grad=True)  # has no variance
    JointPosterior(nothing.sum(-1), nothing, flat_targets=True).standard_deviation.sum().backward()
    assert nothing.grad is not None
    assert (nothing.grad == 0).all()


def test_single_precision(rows: Rows, generator: torch.Generator) -> None:
    for kind in ("depth 2", "neighbours"):
        ensemble = small_ensemble(rows, KINDS[kind], generator)
        points = far_points(generator, 2, 3)
        gradients: list[Tensor] = []
        for dtype in (torch.float64, torch.float32):
            leaf = points.to(dtype).requires_grad_()
            found = ensemble.posterior(leaf)
            assert found.covariance.dtype == torch.float64
            loss = found.mean.sum() + found.standard_deviation.sum()
            gradients += torch.autograd.grad(loss, leaf)
        assert gradients[1].dtype == torch.float32
        assert torch.allclose(gradients[1].double(), gradients[0], rtol=1e-3, atol=1e-3)


# Moments under a map.


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
def test_mapped_moments_are_those_of_draws(
    kind: Any, n_terms: int, generator: torch.Generator
) -> None:
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


def test_mapped_moments_of_exponential_and_affine_maps_in_closed_form(
    generator: torch.Generator,
) -> None:
    mean, covariance = random_moments(generator, 2, 3, 4)
    found, joint = mapped_moments(torch.exp, mean, covariance)
    expected = (mean + 0.5 * covariance.diagonal(dim1=-2, dim2=-1)).exp()
    assert torch.allclose(found, expected, rtol=1e-9)
    outer = expected[..., :, None] * expected[..., None, :]
    assert torch.allclose(joint, outer * covariance.expm1(), rtol=1e-8)
    found, joint = mapped_moments(lambda z: 3 - 2 * z, mean, covariance)
    assert torch.allclose(found, 3 - 2 * mean, rtol=1e-12)
    assert torch.allclose(joint, 4 * covariance, rtol=1e-10, atol=1e-14)


def test_gradients_of_mapped_moments(generator: torch.Generator) -> None:
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
