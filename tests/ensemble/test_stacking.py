from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from builders.models import assert_close, normal
from torch import Tensor

from sswim.ensemble import stacking as stacking_module
from sswim.ensemble.stacking import (
    PRUNING_LOSS,
    PRUNING_ROWS,
    SQUARED_ERROR_ROWS,
    Stacking,
    equal_stacking,
    learn_stacking,
    mixture_log_density,
    pruned_weights,
)
from sswim.members import Correction, OutOfFold


def gaussian(residual: Tensor, deviation: float | Tensor) -> OutOfFold:
    """Make Gaussian predictions of targets that are not warped, with a known noise."""
    nothing = torch.zeros_like(residual)
    noise = torch.as_tensor(deviation, dtype=torch.float64).square()
    return OutOfFold(residual, nothing + 1e-6, nothing + noise, nothing, -residual)


def kinds(
    generator: torch.Generator, errors: tuple[float, ...], claimed: tuple[float, ...], n: int = 2000
) -> list[OutOfFold]:
    """Make kinds with independent errors of some size that predict noise of another size."""
    return [
        gaussian(error * normal(generator, n, 1), deviation)
        for error, deviation in zip(errors, claimed, strict=True)
    ]


def densities_of(kinds: list[OutOfFold], stacking: Stacking) -> Tensor:
    """Return the log density of every row under every kind."""
    return torch.stack(
        [
            kind.log_density(correction).sum(-1)
            for kind, correction in zip(kinds, stacking.corrections, strict=True)
        ]
    )


def merit(densities: Tensor, errors: Tensor, weights: Tensor) -> float:
    """Return the mean log density of a mixture, less a part of that of its squared error."""
    density = (densities.exp() * weights[:, None]).sum(0).log().mean()
    squares = (weights[:, None, None] * errors).sum(0).square().mean(0)
    n = densities.shape[1]
    importance = n / (n + SQUARED_ERROR_ROWS)
    return (density - 0.5 * importance * squares.log().sum()).item()


def test_the_density_of_a_mixture_is_the_mean_of_its_kinds(generator: torch.Generator) -> None:
    rows = kinds(generator, (0.5, 0.5), (0.5, 0.7), n=10)
    corrections = tuple(Correction(*normal(generator, 2, 1)) for _ in rows)
    weights, ratio = torch.tensor([0.3, 0.7], dtype=torch.float64), normal(generator, 10, 1)
    densities = [
        kind.log_density(correction, ratio)
        for kind, correction in zip(rows, corrections, strict=True)
    ]
    expected = (weights[0] * densities[0].exp() + weights[1] * densities[1].exp()).log()
    assert torch.allclose(
        mixture_log_density(rows, Stacking(weights, corrections), ratio), expected
    )
    # A kind without weight has no part in it.
    broken = rows[1].map(lambda tensor: tensor * torch.nan)
    stacking = Stacking(torch.tensor([1.0, 0.0], dtype=torch.float64), corrections)
    assert torch.equal(mixture_log_density([rows[0], broken], stacking, ratio), densities[0])


def test_the_better_kind_counts_more_and_a_useless_one_is_pruned(
    generator: torch.Generator,
) -> None:
    rows = kinds(generator, (0.1, 1.0), (0.1, 1.0))
    weights = learn_stacking(rows, pruning_loss=None).weights
    assert weights[0] > 0.95
    assert weights.sum() == pytest.approx(1)
    assert (weights > 0).all()
    assert learn_stacking(rows).weights.tolist() == [1.0, 0.0]


def test_weights_are_the_best(generator: torch.Generator) -> None:
    """No other weight of two kinds has more merit and prior density."""
    n = 300
    rows = kinds(generator, (0.5, 0.6), (0.5, 0.6), n=n)
    found = learn_stacking(rows, correct=False, pruning_loss=None)
    densities = densities_of(rows, found)
    errors = torch.stack([kind.error for kind in rows])

    def objective(first: float) -> float:
        weights = torch.tensor([first, 1 - first], dtype=torch.float64)
        return merit(densities, errors, weights) + weights.log().sum().item() / n

    best = objective(found.weights[0].item())
    others = [objective(first) for first in np.linspace(0.01, 0.99, 99)]
    assert max(others) <= best + 1e-9
    assert best - max(others) < 1e-3


@pytest.mark.parametrize("ratio", [0.1, 1.0, 30.0])
def test_a_wrong_noise_level_is_corrected(ratio: float, generator: torch.Generator) -> None:
    [correction] = learn_stacking(kinds(generator, (1.0,), (ratio,))).corrections
    assert correction.noise.item() == pytest.approx(-2 * math.log(ratio), abs=0.15)


@pytest.mark.parametrize("factor", [0.3, 1.0, 3.0])
def test_a_wrong_latent_variance_is_corrected(factor: float, generator: torch.Generator) -> None:
    """The rows tell it from the noise if it varies over them."""
    n = 4000
    latent = normal(generator, n, 1).exp()
    noise = torch.full_like(latent, 0.1)
    residual = (latent + noise).sqrt() * normal(generator, n, 1)
    rows = OutOfFold(residual, latent / factor, noise, torch.zeros_like(latent), -residual)
    [correction] = learn_stacking([rows]).corrections
    assert correction.latent.item() == pytest.approx(math.log(factor), abs=0.1)
    assert correction.noise.item() == pytest.approx(0, abs=0.3)


def test_nothing_to_learn_leaves_all_as_it_is(generator: torch.Generator) -> None:
    rows = kinds(generator, (0.3, 0.5), (0.1, 0.5))
    stacking, expected = learn_stacking(rows, stack=False, correct=False), equal_stacking(rows)
    assert_close(stacking, expected, 0.0)
    assert torch.equal(learn_stacking(rows, stack=False).weights, expected.weights)
    for correction in learn_stacking(rows, correct=False).corrections:
        assert not correction.noise.any()
        assert not correction.latent.any()


@pytest.mark.parametrize("n", [50, 300])
def test_equal_weights_of_rows_have_no_influence(n: int, generator: torch.Generator) -> None:
    rows = kinds(generator, (0.3, 0.5), (0.1, 0.5), n=n)
    weighted = learn_stacking(rows, torch.full((n,), 7.0, dtype=torch.float64))
    assert_close(weighted, learn_stacking(rows))


def test_rows_count_by_their_weight(generator: torch.Generator) -> None:
    """One kind is better in the first half of the rows, and the other in the second."""
    n = 400
    first = (torch.arange(n) < n // 2)[:, None]
    residuals = [torch.where(each, 0.1, 1.0) * normal(generator, n, 1) for each in (first, ~first)]
    rows = [gaussian(residual, 0.5) for residual in residuals]
    weight = torch.where(first[:, 0], 3.0, 1.0).double()
    weighted = learn_stacking(rows, weight, correct=False).weights
    assert abs(learn_stacking(rows, correct=False).weights[0].item() - 0.5) < 0.1
    assert weighted[0] > 0.6
    repeated = [
        kind.map(lambda tensor: tensor.repeat_interleave(weight.long(), 0)) for kind in rows
    ]
    copies = learn_stacking(repeated, correct=False).weights
    assert torch.allclose(weighted, copies, atol=0.01)  # but for the prior


def test_one_of_two_equal_kinds_is_pruned(generator: torch.Generator) -> None:
    [kind, other] = kinds(generator, (0.3, 3.0), (0.3, 3.0))
    weights = learn_stacking([kind, other, kind]).weights
    assert sorted(weights.tolist()) == pytest.approx([0.0, 0.0, 1.0])
    assert weights[1] == 0


@pytest.mark.parametrize("n", [PRUNING_ROWS - 1, PRUNING_ROWS])
def test_few_rows_do_not_prune(n: int, generator: torch.Generator) -> None:
    weights = learn_stacking(kinds(generator, (0.1, 1.0), (0.1, 1.0), n=n)).weights
    assert (weights > 0).all() == (n < PRUNING_ROWS)


def test_pruning_costs_no_more_than_it_may(generator: torch.Generator) -> None:
    n, scales = 1000, (0.4, 0.5, 0.6, 0.7, 1.5)
    common = normal(generator, n, 1)
    rows = [gaussian(0.3 * common + scale * normal(generator, n, 1), scale) for scale in scales]
    stacking = learn_stacking(rows, pruning_loss=None)
    densities = densities_of(rows, stacking)
    errors = torch.stack([kind.error for kind in rows])
    share = torch.full((n,), 1 / n, dtype=torch.float64)
    whole = merit(densities, errors, stacking.weights)
    counts = []
    for loss in (0.0, PRUNING_LOSS, 0.05, 0.5, 100.0):
        weights = pruned_weights(densities, errors, share, stacking.weights, loss)
        assert weights.sum() == pytest.approx(1)
        assert merit(densities, errors, weights) >= whole - loss
        counts.append(int((weights > 0).sum()))
    assert counts == sorted(counts, reverse=True)
    assert counts[1] < 5
    assert counts[-1] == 1


def test_means_that_are_far_off_at_times_cost_weight(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kind that says how uncertain it is has a good density, whatever its mean there."""
    n = 2000
    far = (torch.arange(n) % 20 == 0)[:, None]
    steady = gaussian(0.55 * normal(generator, n, 1), 0.55)
    deviation = torch.where(far, 20.0, 0.5).double()
    daring = gaussian(deviation * normal(generator, n, 1), deviation)
    rows = [steady, daring]
    errors = torch.stack([kind.error for kind in rows])[..., 0]

    def squared_error(weights: Tensor) -> float:
        return (weights @ errors).square().mean().item()

    weights = learn_stacking(rows, correct=False, pruning_loss=None).weights
    monkeypatch.setattr(stacking_module, "SQUARED_ERROR_ROWS", math.inf)
    by_density = learn_stacking(rows, correct=False, pruning_loss=None).weights
    assert weights[1] < 0.5 * by_density[1]
    assert squared_error(weights) < 0.5 * squared_error(by_density)


def test_perfect_means_are_no_problem(generator: torch.Generator) -> None:
    """The log of a squared error of zero is limited."""
    rows = [gaussian(torch.zeros(300, 1, dtype=torch.float64), 0.1) for _ in range(2)]
    stacking = learn_stacking(rows)
    assert all(tensor.isfinite().all() for tensor in stacking.tensors())
    assert stacking.weights.sum() == pytest.approx(1)


def test_the_mean_stays_only_if_it_lowers_the_squared_error(generator: torch.Generator) -> None:
    target = normal(generator, 60, 1)

    def kind(error: Tensor, variance: float) -> OutOfFold:
        noise = torch.full_like(error, variance)
        return OutOfFold(-error, torch.zeros_like(error), noise, torch.zeros_like(error), error)

    mean = kind(-target, 1.0)
    good = kind(-0.3 * target, 0.09)
    overfitted = kind(-target + 0.7 * normal(generator, 60, 1), 1.4)
    assert learn_stacking([mean, good], None, 0).weights.tolist() == [0.0, 1.0]
    assert learn_stacking([mean, good]).weights[0] > 0
    assert learn_stacking([mean, overfitted], None, 0).weights[0] > 0.5
