from __future__ import annotations

import math

import pytest
import torch
from builders.models import normal
from scipy.stats import norm

from sswim.recipe.stacking import (
    OutOfFold,
    Stacking,
    equal_stacking,
    learn_stacking,
    mixture_log_density,
)


def kinds(
    generator: torch.Generator, errors: tuple[float, ...], claimed: tuple[float, ...], n: int = 2000
) -> OutOfFold:
    """Make kinds with independent errors of some size that predict noise of another size."""
    truth = torch.tensor(errors, dtype=torch.float64)[:, None, None]
    noise = torch.tensor(claimed, dtype=torch.float64).square()[:, None, None]
    residual = truth * normal(generator, len(errors), n, 1)
    nothing = torch.zeros_like(residual)
    return OutOfFold(residual, nothing + 1e-6, nothing + noise, nothing)


def test_densities_are_those_of_scipy(generator: torch.Generator) -> None:
    shape = (2, 5, 3)
    rows = OutOfFold(
        normal(generator, *shape),
        normal(generator, *shape).square(),
        normal(generator, *shape).square(),
        normal(generator, *shape),
    )
    calibration = normal(generator, 2, 3)
    weights = torch.tensor([0.3, 0.7], dtype=torch.float64)
    spread = (rows.latent_variance + rows.noise * calibration.exp()[:, None]).sqrt()
    each = torch.from_numpy(norm.logpdf(rows.residual, scale=spread)) + rows.log_slope
    assert torch.allclose(rows.log_density(calibration), each)
    expected = (weights[:, None, None] * each.exp()).sum(0).log()
    assert torch.allclose(mixture_log_density(rows, Stacking(weights, calibration)), expected)


def test_the_better_kind_counts_more(generator: torch.Generator) -> None:
    stacking = learn_stacking(kinds(generator, (0.1, 1.0), (0.1, 1.0)))
    assert stacking.weights[0] > 0.95
    assert stacking.weights.sum() == pytest.approx(1)
    assert (stacking.weights > 0).all()


@pytest.mark.parametrize("ratio", [0.1, 1.0, 30.0])
def test_a_wrong_noise_level_is_corrected(ratio: float, generator: torch.Generator) -> None:
    rows = kinds(generator, (1.0,), (ratio,))
    stacking = learn_stacking(rows)
    assert stacking.calibration.item() == pytest.approx(-2 * math.log(ratio), abs=0.15)


def test_an_overconfident_kind_with_the_better_mean_is_not_lost(
    generator: torch.Generator,
) -> None:
    """Without calibration the honest kind has more weight; with it the better one has."""
    rows = kinds(generator, (0.3, 1.0), (0.01, 1.0))
    assert learn_stacking(rows, calibrate=False).weights[0] < 0.5
    assert learn_stacking(rows).weights[0] > 0.9


def test_what_is_learnt_is_better_than_what_is_not(generator: torch.Generator) -> None:
    rows = kinds(generator, (0.3, 0.5, 1.0), (0.1, 0.5, 2.0))
    densities = [
        mixture_log_density(rows, learn_stacking(rows, stack=weigh, calibrate=calibrate)).mean()
        for weigh, calibrate in ((False, False), (True, False), (True, True))
    ]
    assert densities[0] < densities[1] < densities[2]


def test_nothing_to_learn_leaves_all_as_it_is(generator: torch.Generator) -> None:
    rows = kinds(generator, (0.3, 0.5), (0.1, 0.5))
    stacking, expected = learn_stacking(rows, stack=False, calibrate=False), equal_stacking(2, 1)
    assert torch.equal(stacking.weights, expected.weights)
    assert torch.equal(stacking.calibration, expected.calibration)
    assert torch.equal(learn_stacking(rows, stack=False).weights, expected.weights)
    assert (learn_stacking(rows, calibrate=False).calibration == 0).all()


def test_a_row_of_weight_two_is_the_row_twice(generator: torch.Generator) -> None:
    rows = kinds(generator, (0.3, 0.5), (0.1, 0.5), n=50)
    twice = rows.map(lambda tensor: torch.cat((tensor, tensor), dim=1))
    weight = torch.full((50,), 2.0, dtype=torch.float64)
    weighted = OutOfFold(rows.residual, rows.latent_variance, rows.noise, rows.log_slope, weight)
    ours, theirs = learn_stacking(weighted), learn_stacking(twice)
    assert torch.allclose(ours.weights, theirs.weights)
    assert torch.allclose(ours.calibration, theirs.calibration)
