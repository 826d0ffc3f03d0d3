from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from builders.models import normal, small_rows
from torch import Tensor
from torch.distributions import MultivariateNormal, Normal

from sswim.base.record import concatenate
from sswim.members import Architecture
from sswim.members.start import (
    CERTAINTY,
    FEW_ROWS,
    MAX_ROWS,
    MIN_RIDGE_OF_FEW,
    RIDGES,
    Candidate,
    choose,
    evaluate,
    screen,
    starting_points,
)
from sswim.rows import Rows, as_rows, merge_copies


def standardised(x: np.ndarray, y: np.ndarray) -> Rows:
    return as_rows((x - x.mean(0)) / x.std(0), (y - y.mean()) / y.std())


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture
def features(generator: torch.Generator) -> Tensor:
    return normal(generator, 30, 8)


@pytest.fixture
def targets(features: Tensor, generator: torch.Generator) -> Tensor:
    return features @ normal(generator, 8, 2) + normal(generator, 30, 2)


def test_the_best_signal_and_ridge_are_those_of_the_dense_evidence(
    features: Tensor, targets: Tensor
) -> None:
    """The evidence is that of z ~ N(0, s²ΦΦᵀ + σ²I), and nothing else that is tried is better."""
    found = evaluate(1.0, features, targets)
    total = 0.0
    for target in range(2):
        column = targets[:, target]

        def evidence(signal: float, ridge: float, column: Tensor = column) -> float:
            covariance = features @ features.mT + ridge * torch.eye(30, dtype=torch.float64)
            model = MultivariateNormal(torch.zeros_like(column), signal * covariance)
            return -model.log_prob(column).item()

        signal, ridge = found.signal[target].item(), found.ridge[target].item()
        best = evidence(signal, ridge)
        total += best
        for factor in (0.5, 0.99, 1.01, 2.0):
            assert evidence(factor * signal, ridge) > best
        for other in RIDGES[RIDGES >= MIN_RIDGE_OF_FEW].tolist():
            assert evidence(signal, other) >= best - 1e-9
    assert found.value == pytest.approx(total, rel=1e-10)


def test_rows_are_predicted_without_themselves(features: Tensor, targets: Tensor) -> None:
    """The densities are those of 30 fits, each without one row."""
    found = evaluate(1.0, features, targets)
    for row in range(30):
        kept = torch.arange(30) != row
        expected = 0.0
        for target in range(2):
            ridge = found.ridge[target]
            noise = found.signal[target] * ridge
            known = features[kept]
            precision = known.mT @ known + ridge * torch.eye(8, dtype=torch.float64)
            mean = features[row] @ torch.linalg.solve(precision, known.mT @ targets[kept, target])
            variance = noise * features[row] @ torch.linalg.solve(precision, features[row])
            deviation = (variance + noise).sqrt()
            expected += Normal(mean, deviation).log_prob(targets[row, target]).item()
        assert found.density[row].item() == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(("n", "smallest"), [(FEW_ROWS - 1, MIN_RIDGE_OF_FEW), (FEW_ROWS, 1e-10)])
def test_few_rows_cannot_tell_little_noise_from_none(
    n: int, smallest: float, generator: torch.Generator
) -> None:
    features = normal(generator, n, 8)
    found = evaluate(1.0, features, features @ normal(generator, 8, 1))
    assert found.ridge.item() == pytest.approx(smallest)


def candidate(value: float, density: Tensor) -> Candidate:
    one = torch.ones(1, dtype=torch.float64)
    return Candidate(value, value, one, one, density)


@pytest.mark.parametrize("certain", [False, True])
def test_the_evidence_is_believed_if_rows_left_out_agree(
    certain: bool, generator: torch.Generator
) -> None:
    gain = normal(generator, 400)
    gain = (gain - gain.mean()) / gain.std(correction=0)  # with a standard error of 1/20
    gain = gain + (1.01 if certain else 0.99) * CERTAINTY / 20
    usual = candidate(2.0, torch.zeros_like(gain))
    best, other = candidate(1.0, gain), candidate(3.0, gain + 1)
    assert choose([other, usual, best], usual) is (best if certain else usual)


def test_the_usual_length_scale_is_kept_if_it_is_the_best(generator: torch.Generator) -> None:
    usual = candidate(1.0, normal(generator, 50))
    other = candidate(2.0, usual.density + 1)
    assert choose([usual, other], usual) is usual


@pytest.mark.parametrize("n", [200, 800])
def test_a_fast_oscillation_on_a_trend_is_found(n: int) -> None:
    random = np.random.default_rng(0)
    x = random.uniform(0, n / 80, (n, 1))
    y = 2 * x[:, 0] + np.sin(8 * math.pi * x[:, 0]) + 0.1 * random.normal(size=n)
    point = screen(standardised(x, y), "matern32", seeded())
    assert point is not None
    period = 0.25 / x.std()
    assert 0.1 * period < point.length_scale < period
    assert point.noise.item() < 0.05


def test_a_smooth_function_of_many_columns_is_found() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(800, 40))
    y = np.tanh(x @ random.normal(size=40) / 10) + 0.1 * random.normal(size=800)
    point = screen(standardised(x, y), "matern32", seeded())
    assert point is not None
    assert point.length_scale >= math.sqrt(40)
    assert 0.02 < point.noise.item() < 0.2


def test_targets_without_noise_start_without_any() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(500, 5))
    point = screen(standardised(x, x @ random.normal(size=5)), "matern32", seeded())
    assert point is not None
    assert point.noise.item() < 1e-9


@pytest.mark.parametrize("n", [50, 1000])
@pytest.mark.parametrize("d", [1, 10])
def test_noise_alone_has_no_starting_point(n: int, d: int) -> None:
    random = np.random.default_rng(n + d)
    rows = standardised(random.normal(size=(n, d)), random.normal(size=n))
    assert screen(rows, "matern32", seeded()) is None


@pytest.mark.parametrize("times", [2, 5])
def test_copies_are_no_proof_that_there_is_no_noise(times: int) -> None:
    """Copies are merged before, and every distinct row counts once, whatever its weight."""
    random = np.random.default_rng(0)
    x = random.normal(size=(150, 2))
    rows = standardised(x, np.sin(x[:, 0]) + 0.5 * random.normal(size=150))
    copies = merge_copies(concatenate([rows] * times))
    assert len(copies) == 150
    once, again = (screen(each, "matern32", seeded()) for each in (rows, copies))
    assert once is not None
    assert again is not None
    assert again.length_scale == once.length_scale
    assert torch.allclose(again.signal, once.signal, rtol=1e-6)
    assert torch.allclose(again.noise, once.noise, rtol=1e-6)
    assert again.noise.item() > 0.1


def test_of_many_rows_some_are_enough(generator: torch.Generator) -> None:
    x = normal(generator, 10 * MAX_ROWS, 2)
    point = screen(as_rows(x, x[:, 0].sin()), "rbf", generator)
    assert point is not None
    assert point.noise.item() < 1e-3  # the targets have none
    assert point.length_scale > 0.5


def test_there_is_a_starting_point_for_each_form_of_the_inputs(
    generator: torch.Generator,
) -> None:
    rows = small_rows(generator, n=100)
    rows = as_rows(rows.inputs.mean.exp(), rows.targets)  # skewed
    plain, scored = Architecture(), Architecture(inputs="normal-scores")
    points = starting_points([plain, scored, plain], rows, rows.inputs.mean, generator)
    assert set(points) == {"standardised", "normal-scores"}


def test_there_is_none_for_a_form_of_the_inputs_that_shows_noise_alone() -> None:
    random = np.random.default_rng(0)
    x = np.exp(6 * random.normal(size=(400, 1)))  # standardised, all but a few values are alike
    rows = standardised(x, np.sin(np.log(x[:, 0])) + 0.1 * random.normal(size=400))
    plain, scored = Architecture(), Architecture(inputs="normal-scores")
    points = starting_points([plain, scored], rows, rows.inputs.mean, seeded())
    assert set(points) == {"normal-scores"}
