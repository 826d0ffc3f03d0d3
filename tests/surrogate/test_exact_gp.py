from __future__ import annotations

import math

import pytest
import torch
from builders.models import normal
from builders.surrogates import KINDS, small_gp, small_rows, uniform
from torch import Tensor

from sswim.kernels.spectrum import Kernel
from sswim.members.exact_members import ExactMembers, Observed
from sswim.members.exact_model import ExactKind, exact_points


def dense_kernel(gp: ExactMembers, member: int, a: Tensor, b: Tensor) -> Tensor:
    """Return s²(k(‖u(a) − u(b)‖) + ρ·k'(‖u(a) − u(b)‖/c)) of one member, written out."""
    factors, kind = gp.factors, gp.kinds[member]
    points = [exact_points(factors, each[None])[member] for each in (a, b)]
    differences = points[0][:, None] - points[1]
    distance = differences.square().sum(-1).sqrt()
    fine = matern52(distance / factors.ripple_scale[member])
    if kind.additive:
        strength = factors.interaction[member]
        singles = 1 + strength * (-0.5 * differences**2).exp()
        smooth = (singles / (1 + strength)).prod(-1)
    else:
        smooth = (-0.5 * distance**2).exp() if kind.kernel == "rbf" else matern52(distance)
    return factors.signal[member] * (smooth + factors.ripple_signal[member] * fine)


def matern52(distance: Tensor) -> Tensor:
    scaled = math.sqrt(5) * distance
    return (1 + scaled + scaled**2 / 3) * (-scaled).exp()


def dense_moments(gp: ExactMembers, rows: Observed, new: Tensor) -> tuple[Tensor, Tensor]:
    """Return means and covariances of all members at new points by inverses."""
    means, covariances = [], []
    for member in range(len(gp.kinds)):
        noise = gp.factors.noise[member].expand(len(rows.inputs))
        if rows.variance is not None:
            noise = noise + rows.variance
        kernel = dense_kernel(gp, member, rows.inputs, rows.inputs)
        inverse = (kernel + noise.diag()).inverse()
        cross = dense_kernel(gp, member, new, rows.inputs)
        centre = gp.factors.mean[member]
        means.append(centre + cross @ inverse @ (rows.targets - centre))
        own = dense_kernel(gp, member, new, new)
        covariances.append(own - cross @ inverse @ cross.mT)
    return torch.stack(means), torch.stack(covariances)


def assert_moments(found: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor]) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.shape == theirs.shape
        assert torch.allclose(ours, theirs, atol=1e-9)


@pytest.mark.parametrize("known", [False, True])
@torch.no_grad()
def test_moments_are_those_of_dense_gps(known: bool, generator: torch.Generator) -> None:
    gp = small_gp(generator, known=known)
    new = uniform(generator, 4, 2) - 0.5
    assert_moments(gp.joint(new[None]), dense_moments(gp, gp.rows, new))


@torch.no_grad()
def test_sets_of_points_equal_a_loop(generator: torch.Generator) -> None:
    gp = small_gp(generator)
    sets = uniform(generator, 2, 3, 1, 4, 2) - 0.5
    means, covariances = gp.joint(sets)
    assert means.shape == (2, 3, len(KINDS), 4)
    for i in range(2):
        for j in range(3):
            assert_moments((means[i, j], covariances[i, j]), gp.joint(sets[i, j]))


@torch.no_grad()
def test_members_may_have_their_own_points(generator: torch.Generator) -> None:
    gp = small_gp(generator)
    points = uniform(generator, len(KINDS), 3, 2) - 0.5
    means, covariances = gp.joint(points)
    for member in range(len(KINDS)):
        mean, covariance = gp.joint(points[member, None])
        assert_moments((means[member], covariances[member]), (mean[member], covariance[member]))


@pytest.mark.parametrize("kernel", ["rbf", "matern52"])
@torch.no_grad()
def test_without_warps_it_is_gpytorchs_gp(kernel: Kernel, generator: torch.Generator) -> None:
    gpytorch = pytest.importorskip("gpytorch", reason="needs the extra gpytorch")
    from builders.gpytorch_models import ExactGP as Peer  # noqa: PLC0415 (imports GPyTorch)

    gp = small_gp(generator, (ExactKind(kernel),))
    settings = {"ard_num_dims": 2}
    base = {
        "rbf": gpytorch.kernels.RBFKernel(**settings),
        "matern52": gpytorch.kernels.MaternKernel(2.5, **settings),
    }
    covariance = gpytorch.kernels.ScaleKernel(base[kernel])
    peer = Peer(gp.rows.inputs, gp.rows.targets, covariance)
    covariance.base_kernel.lengthscale = gp.factors.length_scales[0]
    covariance.outputscale = gp.factors.signal[0]
    peer.mean_module.constant = gp.factors.mean[0]
    peer.likelihood.noise = gp.factors.noise[0]
    peer.eval()
    new = uniform(generator, 5, 2) - 0.5
    found = peer(new)
    assert_moments(gp.joint(new[None]), (found.mean[None], found.covariance_matrix[None]))


def joined(first: Observed, *others: Observed) -> Observed:
    """Return the rows of several sets that have no axes of batches."""
    variances = [
        torch.zeros_like(each.targets) if each.variance is None else each.variance
        for each in (first, *others)
    ]
    return Observed(
        torch.cat([each.inputs for each in (first, *others)]),
        torch.cat([each.targets for each in (first, *others)]),
        torch.cat(variances),
    )


@pytest.mark.parametrize("known", [(False, False), (True, True), (False, True), (True, False)])
@torch.no_grad()
def test_an_update_conditions_on_all_rows(
    known: tuple[bool, bool], generator: torch.Generator
) -> None:
    gp = small_gp(generator, known=known[0])
    first, second = (small_rows(generator, n, known=known[1]) for n in (3, 2))
    new = uniform(generator, 4, 2) - 0.5
    updated = gp.update(first).update(second)
    expected = dense_moments(gp, joined(gp.rows, first, second), new)
    assert updated.batch_shape == ()
    assert_moments(updated.joint(new[None]), expected)
    assert updated.factor.shape[-1] == 14


@torch.no_grad()
def test_batched_updates_condition_each_entry(generator: torch.Generator) -> None:
    gp = small_gp(generator)
    inputs, variance = uniform(generator, 3, 2, 2) - 0.5, uniform(generator, 3, 2)
    fantasies = normal(generator, 4, 3, 2)  # four sets of targets for the same inputs
    more = Observed(uniform(generator, 3, 1, 2) - 0.5, normal(generator, 4, 3, 1), None)
    once = gp.update(Observed(inputs, fantasies, variance))
    twice = once.update(more)
    assert once.batch_shape == twice.batch_shape == (4, 3)
    new = uniform(generator, 3, 5, 2) - 0.5
    found = once.joint(new[:, None]), twice.joint(new[:, None])
    for i in range(4):
        for j in range(3):
            rows = joined(gp.rows, Observed(inputs[j], fantasies[i, j], variance[j]))
            expected = dense_moments(gp, rows, new[j])
            assert_moments((found[0][0][i, j], found[0][1][i, j]), expected)
            rows = joined(rows, Observed(more.inputs[j], more.targets[i, j], None))
            expected = dense_moments(gp, rows, new[j])
            assert_moments((found[1][0][i, j], found[1][1][i, j]), expected)


@torch.no_grad()
def test_axes_of_points_and_updates_are_broadcast(generator: torch.Generator) -> None:
    gp = small_gp(generator)
    rows = Observed(uniform(generator, 3, 1, 2) - 0.5, normal(generator, 4, 1, 1), None)
    updated = gp.update(rows)
    points = uniform(generator, 5, 1, 1, 1, 2, 2) - 0.5
    means, covariances = updated.joint(points)
    assert means.shape == (5, 4, 3, len(KINDS), 2)
    assert covariances.shape == (5, 4, 3, len(KINDS), 2, 2)
    single = gp.update(Observed(rows.inputs[2], rows.targets[1, 0], None))
    assert_moments((means[3, 1, 2], covariances[3, 1, 2]), single.joint(points[3, 0, 0]))


@torch.no_grad()
def test_targets_alone_may_be_batched(generator: torch.Generator) -> None:
    gp = small_gp(generator)
    rows = small_rows(generator, 2)
    targets = normal(generator, 3, 2)
    updated = gp.update(Observed(rows.inputs, targets, None))
    new = uniform(generator, 1, 4, 2) - 0.5
    means, covariances = updated.joint(new)
    for i in range(3):
        single = gp.update(Observed(rows.inputs, targets[i], None))
        assert_moments((means[i], covariances[i]), single.joint(new))


@torch.no_grad()
def test_chosen_members_may_repeat(generator: torch.Generator) -> None:
    gp = small_gp(generator)
    indices = torch.tensor([0, 0, 2, 3, 5, 5])
    new = uniform(generator, 1, 4, 2) - 0.5
    means, covariances = gp.joint(new)
    assert_moments(gp.select(indices).joint(new), (means[indices], covariances[indices]))


def test_gradients_are_exact(generator: torch.Generator) -> None:
    gp = small_gp(generator)
    new = (uniform(generator, 2, 1, 2, 2) - 0.5).requires_grad_()
    assert torch.autograd.gradcheck(gp.joint, (new,))
    further = (uniform(generator, 2, 1, 2) - 0.5).requires_grad_()
    targets = normal(generator, 3, 2, 1).requires_grad_()

    def updated(inputs: Tensor, values: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        return gp.update(Observed(inputs, values, None)).joint(points)

    assert torch.autograd.gradcheck(updated, (further, targets, new))


def test_equal_points_have_finite_gradients(generator: torch.Generator) -> None:
    gp = small_gp(generator)
    points = gp.rows.inputs[:1].repeat(2, 1)[None].requires_grad_()
    mean, covariance = gp.joint(points)
    (mean.sum() + covariance.sum()).backward()
    assert points.grad is not None
    assert points.grad.isfinite().all()
