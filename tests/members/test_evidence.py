from __future__ import annotations

import math

import pytest
import torch
from builders.models import NOISE, SIGNAL, normal, observations, relative_error
from scipy.stats import multivariate_normal
from torch import Tensor

from sswim.members.linear_regression import Statistics, negative_log_evidence, statistics
from sswim.members.model import Observations

pytest_plugins = ("builders.regression_rows",)


def autograd_evidence(total: Statistics, noise: Tensor, signal: Tensor) -> Tensor:
    """Compute the evidence by its formula, for autograd through the factorisation."""
    n_features = total.gram.shape[-1]
    ridge = noise / signal
    identity = torch.eye(n_features, dtype=torch.float64)
    factor = torch.linalg.cholesky(total.gram + ridge[..., None, None] * identity)
    moment = total.moment.mT[..., None]
    explained = torch.linalg.solve_triangular(factor, moment, upper=False).square().sum((-2, -1))
    return (
        0.5 * (total.energy - explained) / noise
        + factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        - 0.5 * n_features * ridge.log()
        + 0.5 * total.count[..., None] * (2 * math.pi * noise).log()
        - total.log_scale
    ).sum(-1)


@pytest.mark.parametrize("n", [4, 15])  # fewer rows than features, and more
def test_evidence_against_the_dense_covariance(features: Tensor, targets: Tensor, n: int) -> None:
    features, targets = features[:n], targets[:n]
    dense = -sum(
        multivariate_normal.logpdf(
            targets[:, t].numpy(),
            cov=(
                SIGNAL[t] * features @ features.mT + NOISE[t] * torch.eye(n, dtype=torch.float64)
            ).numpy(),
        )
        for t in range(2)
    )
    ours = negative_log_evidence(statistics(observations(features, targets)), NOISE, SIGNAL)
    assert ours.item() == pytest.approx(dense, rel=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
def test_slopes_of_an_output_warp_shift_the_evidence_by_their_sum(
    features: Tensor, targets: Tensor, weight: Tensor, log_precision: Tensor, weighted: bool
) -> None:
    times = weight if weighted else None
    log_slope = log_precision.flip(0)
    warped = Observations(features, targets, log_slope, log_precision, times)
    plain = observations(features, targets, times, log_precision)
    ours, theirs = (
        negative_log_evidence(statistics(rows), NOISE, SIGNAL) for rows in (warped, plain)
    )
    counted = log_slope * weight[:, None] if weighted else log_slope
    assert (theirs - ours).item() == pytest.approx(counted.sum().item(), rel=1e-12)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("n_targets", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_gradients_in_closed_form_are_those_of_autograd(
    batch: tuple[int, ...],
    n_targets: int,
    weighted: bool,
    shared: bool,
    generator: torch.Generator,
) -> None:
    """There are enough features to compute products in panels, which have different sizes."""
    n, n_features = 40, 131
    rows = () if shared else batch
    phi = normal(generator, *batch, n, n_features)
    z = normal(generator, *rows, n, n_targets)
    log_slope, log_precision = normal(generator, 2, *rows, n, n_targets)
    count = normal(generator, *rows, n).exp()
    noise, signal = normal(generator, 2, *batch, n_targets).exp()
    given = [phi, z, log_slope, noise, signal] + ([log_precision, count] if weighted else [])
    given = [tensor.clone().requires_grad_() for tensor in given]

    def observed(values: list[Tensor]) -> Observations:
        return Observations(*values[:3], *values[5:])

    ours = negative_log_evidence(statistics(observed(given)), given[3], given[4])
    ours_gradients = torch.autograd.grad(ours.sum(), given)
    others = [tensor.detach().clone().requires_grad_() for tensor in given]
    again = observed(others)
    weight = again.weight()
    wide = torch.ones(n, 1, dtype=torch.float64) if weight is None else weight
    total = statistics(again)
    exact = Statistics(
        gram=torch.einsum("...ni,...ng,...nj->...gij", again.features, wide, again.features),
        moment=again.features.mT @ (wide * again.targets),
        energy=(wide * again.targets.square()).sum(-2).expand(*batch, -1),
        log_scale=total.log_scale,
        count=total.count,
    )
    expected = autograd_evidence(exact, others[3], others[4])
    assert torch.allclose(ours, expected, rtol=1e-10)
    for mine, theirs in zip(
        ours_gradients, torch.autograd.grad(expected.sum(), others), strict=True
    ):
        assert relative_error(mine, theirs) < 1e-10
