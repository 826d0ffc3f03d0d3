from __future__ import annotations

import pytest
import torch
from builders.models import normal
from builders.surrogates import KINDS, small_gp, uniform

from sswim.members.exact_members import Observed
from sswim.members.exact_model import (
    SMALLEST_NOISE,
    exact_points,
    kernel_within,
    negative_log_noise_prior,
)
from sswim.surrogate.fitting import LEVELS, refit_noise


@pytest.mark.parametrize("noise", [1e-7, 1e-4, 1e-2])
@torch.no_grad()
def test_the_noise_of_drawn_rows_is_found(noise: float, generator: torch.Generator) -> None:
    gp = small_gp(generator, noise=1e-5)
    inputs = uniform(generator, 20, 2).repeat(8, 1) - 0.5
    points = exact_points(gp.factors, inputs[None])
    for member in range(len(KINDS)):
        kernel = kernel_within(gp.kinds, gp.factors, points)[member]
        kernel.diagonal().add_(1e-9)
        function = torch.linalg.cholesky(kernel) @ normal(generator, len(inputs))
        targets = gp.factors.mean[member] + function + noise**0.5 * normal(generator, len(inputs))
        found = refit_noise(gp.factors, gp.kinds, Observed(inputs, targets, None)).noise[member]
        assert 0.3 < found / noise < 3


@torch.no_grad()
def test_it_is_the_most_probable_level(generator: torch.Generator) -> None:
    gp = small_gp(generator, noise=1e-3)
    rows = gp.rows
    found = refit_noise(gp.factors, gp.kinds, rows)
    kernel = kernel_within(gp.kinds, gp.factors, gp.points)
    costs = []
    for level in LEVELS:
        matrix = kernel + (level + SMALLEST_NOISE) * torch.eye(len(rows.targets))
        density = torch.distributions.MultivariateNormal(
            gp.factors.mean[:, None].expand(-1, len(rows.targets)), matrix
        ).log_prob(rows.targets)
        costs.append(negative_log_noise_prior(level.log()) - density)
    expected = LEVELS[torch.stack(costs).argmin(0)] + SMALLEST_NOISE
    assert torch.allclose(found.noise, expected)
    assert found.length_scales is gp.factors.length_scales
