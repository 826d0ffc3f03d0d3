from __future__ import annotations

from typing import Any

import pytest
import torch
from builders.models import normal, relative_error, small_model, small_rows

from sswim.kernels.features import (
    TrendFactors,
    expected_features,
    expected_joint_quadratic,
    linear_features,
)
from sswim.members.architecture import Architecture
from sswim.members.feature_predictor import condition_by_features as condition
from sswim.members.model import SSWIM
from sswim.members.objective import MAP, backward
from sswim.members.observations import row_features
from sswim.members.start import start
from sswim.rows.rows import Measure, Rows, as_rows
from sswim.warps.normal_scores import N_KNOTS


def terms(low: float = -1.0, high: float = 2.0) -> TrendFactors:
    ends = torch.ones(3, dtype=torch.float64)
    return TrendFactors(torch.tensor([2.0, 0.5], dtype=torch.float64), low * ends, high * ends)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_linear_features_are_clamped_to_the_range(dtype: torch.dtype) -> None:
    x = torch.tensor([[-9.0, 0.5, 9.0], [1.0, 2.0, -1.0]], dtype=dtype)
    features = linear_features(terms(), Measure(x))
    within = torch.tensor([[-1.0, 0.5, 2.0], [1.0, 2.0, -1.0]], dtype=dtype)
    assert features.dtype == dtype
    assert torch.allclose(features[:, :3], 2 / 3**0.5 * within)
    assert torch.equal(features[:, 3], torch.full((2,), 0.5, dtype=dtype))


def test_features_follow_the_fourier_features(generator: torch.Generator) -> None:
    rows = small_rows(generator)
    model = small_model(rows, generator, depth=0, linear=True)
    factors = model.condition()[0]
    assert factors.trend is not None
    assert torch.equal(factors.trend.low, rows.inputs.mean.amin(0))
    assert torch.equal(factors.trend.high, rows.inputs.mean.amax(0))
    features = row_features(factors, rows.inputs)
    assert features.shape == (23, 12 + 3 + 1)
    assert torch.equal(features[:, :12], expected_features(factors.frequencies, rows.inputs))
    assert torch.equal(features[:, 12:], linear_features(factors.trend, rows.inputs))


def test_a_linear_function_is_recovered(generator: torch.Generator) -> None:
    slopes = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    x = normal(generator, 200, 3)
    rows = as_rows(x, x @ slopes + 3)
    small = torch.tensor([1e-6], dtype=torch.float64)
    large = torch.tensor([1e3], dtype=torch.float64)
    architecture = Architecture(depth=0, n_frequencies=4, linear=True)
    model = start(architecture, x, 1, generator, signal=large, noise=small)
    predictor = condition(model, rows)
    new = 0.5 * normal(generator, 50, 3)
    assert torch.allclose(predictor.predict(Measure(new)).mean[:, 0], new @ slopes + 3, atol=1e-3)
    assert abs(predictor.posterior.mean[-1, 0] - 3) < 0.05


def test_the_amplitudes_gradient_against_finite_differences(generator: torch.Generator) -> None:
    rows = small_rows(generator, weighted=True)
    model = small_model(rows, generator, depth=0, linear=True, inputs="normal-scores")
    assert model.trend is not None
    log_linear = model.trend.log_linear
    for size in (len(rows), 6):  # in one pass, and in two over chunks
        model.zero_grad()
        backward(model, rows, MAP, size)
        assert log_linear.grad is not None
        gradient, step = log_linear.grad.clone(), 1e-5
        differences = []
        for term in range(2):
            values = []
            for sign in (1, -1):
                with torch.no_grad():
                    log_linear[term] += sign * step
                values.append(backward(model, rows, MAP, size))
                with torch.no_grad():
                    log_linear[term] -= sign * step
            differences.append((values[0] - values[1]) / (2 * step))
        assert torch.allclose(gradient, torch.stack(differences), rtol=1e-6)


@pytest.mark.parametrize("full", [False, True])
def test_expected_quadratics_against_a_million_draws(
    full: bool, generator: torch.Generator
) -> None:
    """With jointly Gaussian u and x, and a range so wide that it has no effect."""
    frequencies, mean = normal(generator, 4, 3), normal(generator, 2, 3)
    wide = terms(-100, 100)
    root = normal(generator, 12, 12)
    form = root @ root.mT
    slopes = 0.5 + torch.rand(2, 3, generator=generator, dtype=torch.float64)
    spread = 0.4 * normal(generator, 2, 3, 3)
    covariance = spread @ spread.mT
    variance = covariance if full else covariance.diagonal(dim1=-2, dim2=-1)
    if not full:
        covariance = variance.diag_embed()
    scored = covariance * slopes[..., :, None] * slopes[..., None, :]
    ours = expected_joint_quadratic(
        frequencies,
        wide,
        Measure(mean.cos(), input_variance=scored if full else variance * slopes.square()),
        Measure(mean, input_variance=variance),
        slopes[..., None] * covariance,
        form,
    )
    for row in range(2):
        normals = normal(generator, 1_000_000, 3) @ torch.linalg.cholesky(covariance[row]).mT
        fourier = expected_features(frequencies, Measure(mean[row].cos() + slopes[row] * normals))
        linear = linear_features(wide, Measure(mean[row] + normals))
        features = torch.cat((fourier, linear), dim=-1)
        draws = ((features @ form) * features).sum(-1)
        assert (draws.mean() - ours[row]).abs() < 4 * draws.std() / 1000


def trained(generator: torch.Generator, **changes: Any) -> tuple[SSWIM, Rows]:
    rows = small_rows(generator, n=60, n_targets=2)
    return small_model(rows, generator, 0.2, depth=0, linear=True, **changes), rows


@pytest.mark.parametrize("inputs", ["standardised", "normal-scores"])
def test_uncertain_inputs_against_perturbed_ones(inputs: str, generator: torch.Generator) -> None:
    """Exact where the range has no effect and the normal scores have no kink nearby."""
    model, rows = trained(generator, inputs=inputs)
    assert model.trend is not None
    model.trend.low.fill_(-100)
    model.trend.high.fill_(100)
    if model.normal_scores is not None:
        slopes = torch.tensor([0.5, 1.0, 1.5], dtype=torch.float64)
        model.normal_scores.knots.copy_(torch.linspace(-100, 100, N_KNOTS, dtype=torch.float64))
        model.normal_scores.scores.copy_(slopes[:, None] * model.normal_scores.knots - 1)
    predictor = condition(model, rows)
    x = normal(generator, 4, 3)
    variance = 0.25 * (0.5 + torch.rand(4, 3, generator=generator, dtype=torch.float64))
    ours = predictor.predict(Measure(x, input_variance=variance))
    n = 100_000
    for row in range(4):
        draws = predictor.predict(Measure(x[row] + variance[row].sqrt() * normal(generator, n, 3)))
        error = (draws.mean.mean(0) - ours.mean[row]).abs()
        assert (error < 4 / n**0.5 * draws.mean.std(0)).all()
        total = draws.latent_variance.mean(0) + draws.mean.var(0)
        assert torch.allclose(ours.latent_variance[row], total, rtol=0.02)


def test_the_trend_is_not_uncertain_out_of_range(generator: torch.Generator) -> None:
    model, rows = trained(generator)
    predictor = condition(model, rows)
    far = torch.full((1, 3), 50.0, dtype=torch.float64) * torch.tensor([1.0, -1.0, 1.0])
    variance = torch.full((1, 3), 1.0, dtype=torch.float64)
    ours = predictor.predict(Measure(far, input_variance=variance))
    draws = predictor.predict(Measure(far + normal(generator, 100_000, 3)))
    total = draws.latent_variance.mean(0) + draws.mean.var(0)
    assert torch.allclose(ours.latent_variance[0], total, rtol=0.02)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("inputs", ["standardised", "normal-scores"])
def test_no_variance_predicts_as_points(
    dtype: torch.dtype, inputs: str, generator: torch.Generator
) -> None:
    model, rows = trained(generator, inputs=inputs)
    predictor = condition(model, rows)
    x = normal(generator, 11, 3).to(dtype)
    ours = predictor.predict(Measure(x, input_variance=torch.zeros_like(x)))
    theirs = predictor.predict(Measure(x))
    for mine, expected in zip(ours.tensors(), theirs.tensors(), strict=True):
        assert relative_error(mine, expected) < (1e-9 if dtype == torch.float64 else 1e-4)
