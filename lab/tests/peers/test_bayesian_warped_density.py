"""Densities of the Bayesian warped GP, against integrals."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from builders.models import normal
from lab_builders.peers import fitted_bwgp, scalar, skewed_rows, warp_prior
from scipy import stats
from scipy.integrate import cumulative_trapezoid, quad, trapezoid
from sswim_lab.peers.bayesian_warped_gp import (
    FittedBayesianWarpedGP,
    WarpedMarginals,
    warp_posterior,
)


@pytest.fixture
def fitted() -> FittedBayesianWarpedGP:
    return fitted_bwgp()


def test_nodes_resolve_a_narrow_density(generator: torch.Generator) -> None:
    """Little noise after the warp makes the integrand narrow, which needs more nodes."""
    f = normal(generator, 30)
    wide = warp_posterior(warp_prior(noise=0.5), 20, 2 * f, f, 1e-4 * torch.ones_like(f))
    narrow = warp_posterior(warp_prior(noise=0.02), 20, 2 * f, f, 1e-4 * torch.ones_like(f))
    mean, deviation = f[:5], torch.full_like(f[:5], 0.5)
    marginals = WarpedMarginals(narrow, mean, deviation)
    n_nodes = marginals.n_nodes()
    assert n_nodes > WarpedMarginals(wide, mean, deviation).n_nodes()
    (few,), (many,) = marginals.mixtures(n_nodes), marginals.mixtures(3 * n_nodes)
    y = 2 * mean + 0.3
    assert torch.allclose(few.log_density(y), many.log_density(y), atol=1e-6)


def test_the_density_is_the_integral_over_f(fitted: FittedBayesianWarpedGP) -> None:
    x, y = skewed_rows(6, seed=1)
    predictive, marginals = fitted.predict(x), fitted.marginals(x)
    spread = predictive.scaling.target_spread.item()
    targets = (y - predictive.scaling.target_mean.item()) / spread
    for row, target in enumerate(targets):
        mean, deviation = marginals.mean[row].item(), marginals.deviation[row].item()

        def integrand(
            f: float, mean: float = mean, deviation: float = deviation, target: float = target
        ) -> float:
            warped, variance = fitted.warp.predict(scalar(f))
            total = (variance + fitted.warp.prior.noise_variance).sqrt().item()
            return float(
                stats.norm.pdf(target, warped.item(), total) * stats.norm.pdf(f, mean, deviation)
            )

        ends = (mean - 8 * deviation, mean + 8 * deviation)
        expected, _ = quad(integrand, *ends, limit=200, epsabs=1e-10)
        assert np.exp(predictive.log_density(y))[row] == pytest.approx(
            expected / spread, rel=1e-6, abs=1e-8
        )


def test_density_moments_and_intervals_are_consistent(fitted: FittedBayesianWarpedGP) -> None:
    grid = np.linspace(-10, 20, 3001)
    for row in skewed_rows(2, seed=2)[0]:
        predictive = fitted.predict(np.tile(row, (len(grid), 1)))
        density = np.exp(predictive.log_density(grid))
        assert trapezoid(density, grid) == pytest.approx(1, abs=1e-6)
        mean = trapezoid(grid * density, grid)
        assert predictive.mean[0] == pytest.approx(mean, rel=1e-4)
        variance = trapezoid((grid - mean) ** 2 * density, grid)
        assert predictive.variance[0] == pytest.approx(variance, rel=1e-3)
        below = cumulative_trapezoid(density, grid, initial=0)
        for coverage in (0.5, 0.9):
            (lower,), (upper,) = fitted.predict(row[None]).interval(coverage)
            shares = np.interp([lower, upper], grid, below)
            assert shares == pytest.approx([0.5 * (1 - coverage), 0.5 * (1 + coverage)], abs=1e-3)


def test_predictions_do_not_depend_on_other_rows(
    fitted: FittedBayesianWarpedGP, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = skewed_rows(30, seed=1)
    whole = fitted.predict(x)
    monkeypatch.setattr("sswim_lab.peers.bayesian_warped_gp._CHUNK_NODES", 700)
    parts = fitted.predict(x)
    assert np.allclose(parts.mean, whole.mean, rtol=1e-12)
    assert np.allclose(parts.variance, whole.variance, rtol=1e-10)
    assert np.allclose(parts.log_density(y), whole.log_density(y), rtol=1e-10)
    assert np.allclose(parts.interval(0.9), whole.interval(0.9), rtol=1e-9)
