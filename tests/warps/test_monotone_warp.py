from __future__ import annotations

import math

import numpy as np
import torch
from builders.models import normal
from scipy import integrate, stats

from sswim.warps import MonotoneWarps, monotone_warp
from sswim.warps.monotone_warp import LENGTH_SCALE, N_CELLS, SMOOTHNESS


def warps(generator: torch.Generator, used: list[bool], n_inputs: int) -> MonotoneWarps:
    module = MonotoneWarps(torch.tensor(used), n_inputs)
    with torch.no_grad():
        module.whitened.copy_(normal(generator, *module.whitened.shape))
    return module


def test_it_is_the_integral_of_smoothed_steps(generator: torch.Generator) -> None:
    log_slopes = normal(generator, 1, 1, N_CELLS)
    ends = np.array([-np.inf, *(np.arange(1, N_CELLS) / N_CELLS - 0.5), np.inf])
    width = SMOOTHNESS / N_CELLS

    def slope(x: float) -> float:
        shares = np.diff(stats.norm.cdf((ends - x) / width))  # of the cells, in a Gaussian at x
        return float((shares * log_slopes[0, 0].exp().numpy()).sum())

    points = [-1.3, -0.5, -0.21, 0.0, 0.07, 0.5, 0.9]
    values = monotone_warp(log_slopes, torch.tensor(points, dtype=torch.float64)[:, None])[0, :, 0]
    for low, high, rise in zip(points, points[1:], values.diff().tolist(), strict=False):
        assert math.isclose(integrate.quad(slope, low, high)[0], rise, rel_tol=1e-8)


def test_outside_the_cells_it_is_finite_and_straight(generator: torch.Generator) -> None:
    log_slopes = normal(generator, 2, 1, N_CELLS)
    inputs = torch.tensor([-1e6, -1e3, 1e3, 1e6], dtype=torch.float64)[:, None]
    values = monotone_warp(log_slopes, inputs)[..., 0]
    assert values.isfinite().all()
    for pair, cell in (((0, 1), 0), ((2, 3), -1)):
        slope = (values[:, pair[1]] - values[:, pair[0]]) / (1e6 - 1e3)
        assert torch.allclose(slope, log_slopes[:, 0, cell].exp())


@torch.no_grad()
def test_at_zero_it_is_the_identity(generator: torch.Generator) -> None:
    inputs = normal(generator, 7, 2)
    fresh = MonotoneWarps(torch.tensor([True, True]), 2)
    assert torch.equal(monotone_warp(fresh.factors()[0], inputs), inputs.expand(2, 7, 2))
    bent = monotone_warp(warps(generator, [True, False], 2).factors()[0], inputs)
    assert not torch.allclose(bent[0], inputs)
    assert torch.equal(bent[1], inputs)  # a member without a warp


def test_members_may_have_their_own_inputs(generator: torch.Generator) -> None:
    log_slopes, inputs = normal(generator, 3, 2, N_CELLS), normal(generator, 3, 5, 2)
    own = monotone_warp(log_slopes, inputs)
    for member in range(3):
        single = monotone_warp(log_slopes[member, None], inputs[member])
        assert torch.allclose(own[member], single[0], rtol=1e-13)
    assert monotone_warp(log_slopes, inputs[0, :0]).shape == (3, 0, 2)


def test_gradients_are_exact(generator: torch.Generator) -> None:
    log_slopes = normal(generator, 2, 2, N_CELLS).requires_grad_()
    inputs = (0.5 * normal(generator, 3, 2)).requires_grad_()
    assert torch.autograd.gradcheck(monotone_warp, (log_slopes, inputs))


@torch.no_grad()
def test_log_slopes_are_smooth_and_have_unit_variance(generator: torch.Generator) -> None:
    module = MonotoneWarps(torch.ones(2000, dtype=torch.bool), 1)
    module.whitened.copy_(normal(generator, 2000, 1, N_CELLS))
    log_slopes, prior = module.factors()
    assert torch.allclose(prior, 0.5 * module.whitened.square().sum((-2, -1)))
    moments = log_slopes[:, 0].T.cov()
    distances = (torch.arange(N_CELLS)[:, None] - torch.arange(N_CELLS)) / N_CELLS
    expected = (-0.5 * (distances.double() / LENGTH_SCALE).square()).exp()
    assert (moments - expected).abs().max() < 5 * math.sqrt(2 / 2000)
