from __future__ import annotations

import numpy as np
import pytest
import torch
from builders.models import normal
from builders.surrogates import uniform
from scipy import optimize, special

from sswim.surrogate.fitting import SMALLEST_WEIGHT, assign_folds, stacked_weights


def test_weights_maximise_the_likelihood_of_the_mixture(generator: torch.Generator) -> None:
    densities = normal(generator, 3, 60)  # of kinds that are equally good
    found = stacked_weights(densities)
    assert torch.allclose(found.sum(), torch.ones(()).double())

    def loss(logits: np.ndarray) -> float:
        weights = special.log_softmax(logits)[:, None]
        return -float(special.logsumexp(densities.numpy() + weights, axis=0).sum())

    best = optimize.minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-8})
    expected = special.softmax(best.x)
    assert np.abs(found.numpy() - expected).max() < 1e-3
    assert abs(loss(found.log().numpy()) - best.fun) < 1e-4


def test_weights_of_two_kinds_are_the_best_of_a_grid(generator: torch.Generator) -> None:
    densities = normal(generator, 2, 25) + torch.tensor([[0.0], [0.3]]).double()
    grid = torch.linspace(0.001, 0.999, 999, dtype=torch.float64)
    weights = torch.stack((grid, 1 - grid))
    likelihood = (densities[:, None] + weights.log()[..., None]).logsumexp(0).sum(-1)
    assert abs(stacked_weights(densities)[0] - grid[likelihood.argmax()]) < 2e-3


@pytest.mark.parametrize("bad", [-1e6, -1e300, -torch.inf])
def test_hopeless_kinds_are_left_out(bad: float, generator: torch.Generator) -> None:
    densities = normal(generator, 3, 20)
    densities[1] = bad
    weights = stacked_weights(densities)
    assert weights[1] == 0
    assert (weights[[0, 2]] > SMALLEST_WEIGHT).all()
    assert torch.allclose(weights.sum(), torch.ones(()).double())
    alone = stacked_weights(densities[[0, 2]])
    assert torch.allclose(weights[[0, 2]], alone, atol=1e-6)


def test_equal_kinds_have_equal_weights(generator: torch.Generator) -> None:
    weights = stacked_weights(normal(generator, 20).expand(5, -1))
    assert torch.allclose(weights, torch.full((5,), 0.2).double())


def test_rows_with_equal_inputs_share_a_fold(generator: torch.Generator) -> None:
    distinct = uniform(generator, 10, 2)
    copies = torch.randint(10, (50,), generator=generator)
    fold = assign_folds(distinct[copies], 4, generator)
    for number in copies.unique():
        assert len(fold[copies == number].unique()) == 1
    assert sorted(fold.unique().tolist()) == [0, 1, 2, 3]


def test_folds_are_random_and_of_equal_sizes(generator: torch.Generator) -> None:
    inputs = uniform(generator, 20, 3)
    first, second = assign_folds(inputs, 4, generator), assign_folds(inputs, 4, generator)
    assert first.bincount().tolist() == second.bincount().tolist() == [5, 5, 5, 5]
    assert not torch.equal(first, second)
    assert assign_folds(inputs, 1, generator).tolist() == [0] * 20
