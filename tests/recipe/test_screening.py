from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from builders.models import normal, observations, small_rows

from sswim.model.architecture import Architecture
from sswim.posterior.linear_regression import negative_log_evidence
from sswim.posterior.statistics import statistics
from sswim.recipe.screening import (
    MAX_ROWS,
    MIN_RIDGE_OF_FEW,
    RIDGES,
    best_signals,
    screen,
    starting_points,
)
from sswim.rows.rows import Rows, as_rows


def standardised(x: np.ndarray, y: np.ndarray) -> Rows:
    return as_rows((x - x.mean(0)) / x.std(0), (y - y.mean()) / y.std())


@pytest.mark.parametrize("weighted", [False, True])
def test_the_best_signal_and_ridge_are_those_of_the_evidence(
    weighted: bool, generator: torch.Generator
) -> None:
    features, targets = normal(generator, 30, 8), normal(generator, 30, 2)
    weight = torch.rand(30, generator=generator, dtype=torch.float64) if weighted else None
    summed = statistics(observations(features, targets, weight))
    values, signals, ridges = best_signals(summed)
    for target in range(2):
        one = statistics(observations(features, targets[:, target : target + 1], weight))

        def evidence(signal: float, ridge: float, one=one) -> float:  # type: ignore[no-untyped-def]
            s2 = torch.tensor([signal], dtype=torch.float64)
            return negative_log_evidence(one, ridge * s2, s2).item()

        best = evidence(signals[target].item(), ridges[target].item())
        assert values[target].item() == pytest.approx(best, rel=1e-10)
        for ridge in RIDGES[RIDGES >= MIN_RIDGE_OF_FEW].tolist():
            for factor in (0.5, 0.99, 1.01, 2.0):
                assert evidence(factor * signals[target].item(), ridges[target].item()) > best
            assert evidence(signals[target].item(), ridge) >= best - 1e-9


def test_a_fast_oscillation_on_a_trend_is_found() -> None:
    random = np.random.default_rng(0)
    x = random.uniform(0, 10, (800, 1))
    y = 2 * x[:, 0] + np.sin(8 * math.pi * x[:, 0]) + 0.1 * random.normal(size=800)
    point = screen(standardised(x, y), "matern32", torch.Generator().manual_seed(0))
    period = 0.25 / x.std()
    assert 0.1 * period < point.length_scale < period
    assert point.noise.item() < 0.02


def test_a_smooth_function_of_many_columns_is_found() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(800, 40))
    y = np.tanh(x @ random.normal(size=40) / 10) + 0.1 * random.normal(size=800)
    point = screen(standardised(x, y), "matern32", torch.Generator().manual_seed(0))
    assert point.length_scale >= math.sqrt(40)
    assert 0.02 < point.noise.item() < 0.2


def test_targets_without_noise_start_without_any() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(500, 5))
    rows = standardised(x, x @ random.normal(size=5))
    point = screen(rows, "matern32", torch.Generator().manual_seed(0))
    assert point.noise.item() < 1e-9


def test_rows_that_count_twice_are_rows_twice(generator: torch.Generator) -> None:
    rows = small_rows(generator, n=50, n_targets=2)
    twice = rows.map(lambda tensor: torch.cat((tensor, tensor)))
    weighted = as_rows(rows.inputs.mean, rows.targets, torch.full((50,), 2.0))
    ours, theirs = (
        screen(each, "rbf", torch.Generator().manual_seed(0)) for each in (weighted, twice)
    )
    assert ours.length_scale == theirs.length_scale
    assert torch.allclose(ours.signal, theirs.signal, rtol=1e-3)  # all but noiseless: rounding
    assert torch.allclose(ours.noise, theirs.noise, rtol=1e-3)


def test_of_many_rows_some_are_enough(generator: torch.Generator) -> None:
    x = normal(generator, 10 * MAX_ROWS, 2)
    point = screen(as_rows(x, x[:, 0].sin()), "rbf", generator)
    assert point.noise.item() < 1e-3  # the targets have none
    assert point.length_scale > 0.5


def test_there_is_a_starting_point_for_each_way_to_see_the_inputs(
    generator: torch.Generator,
) -> None:
    rows = small_rows(generator, n=100)
    rows = as_rows(rows.inputs.mean.exp(), rows.targets)  # skewed
    plain, scored = Architecture(), Architecture(inputs="normal-scores")
    points = starting_points([plain, scored, plain], rows, rows.inputs.mean, generator)
    assert set(points) == {"standardised", "normal-scores"}
