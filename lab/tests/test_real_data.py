"""On real data, warps predict better than the stationary model."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from lab_builders.datasets import real_split, standardised_rows

from sswim import SSWIMRegressor
from sswim.estimator.evaluation import evaluate
from sswim.members import Architecture, condition, start, train

SMALL = Architecture(n_frequencies=96, n_pseudo=48)


@pytest.mark.parametrize(
    ("repeat", "architecture"),
    [
        (0, SMALL),
        *(pytest.param(repeat, Architecture(), marks=pytest.mark.slow) for repeat in range(10)),
    ],
)
def test_one_layer_beats_none_on_airfoil(repeat: int, architecture: Architecture) -> None:
    rows, test = standardised_rows(real_split("airfoil", repeat))
    errors, densities = [], []
    for depth in (0, 1):
        generator = torch.Generator().manual_seed(repeat)
        model = start(replace(architecture, depth=depth), rows.inputs.mean, 1, generator)
        train(model, rows, device="cpu")
        prediction = condition(model, rows).predict(test.inputs)
        errors.append((prediction.mean - test.targets).square().mean().item())
        densities.append(-prediction.log_density(test.targets).mean().item())
    print(f"airfoil, repeat {repeat}: MSE {errors}, MNLP {densities}")
    assert errors[1] < errors[0]
    assert densities[1] < densities[0]


@pytest.mark.slow
@pytest.mark.parametrize("repeat", range(3))
def test_the_default_beats_the_best_published_on_creep(repeat: int) -> None:
    """The best published mean square error is 279.86, and the best published MNLP 4.21."""
    rows = real_split("creep", repeat)
    regressor = SSWIMRegressor(random_state=repeat, device="cpu").fit(rows.train_x, rows.train_y)
    scores = evaluate(regressor, rows.test_x, rows.test_y, 0.9)
    assert scores.rmse**2 < 279.86
    assert scores.mnlp < 4.21
    assert 0.86 < scores.coverage < 0.97
