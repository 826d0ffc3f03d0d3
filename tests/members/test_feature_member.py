"""Members by features, against the regression on expected features and against draws."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from builders.models import DENSITIES, assert_close, normal, small_model, small_rows

from sswim.members import FeatureMember
from sswim.members.linear_regression import leave_one_out, posterior, statistics
from sswim.members.model import Observations, log_precision, row_features
from sswim.rows import Measure, Rows

condition = FeatureMember.condition_on


@pytest.fixture
def rows(generator: torch.Generator) -> Rows:
    return small_rows(generator, n_targets=2, weighted=True, uncertain=True)


@pytest.fixture
def inputs(generator: torch.Generator) -> Measure:
    return Measure(normal(generator, 11, 3), 0.1 * normal(generator, 11, 3).square())


@pytest.mark.parametrize("density", DENSITIES.values(), ids=DENSITIES.keys())
@torch.no_grad()
def test_predictions_are_those_of_the_regression_on_expected_features(
    rows: Rows, inputs: Measure, density: dict[str, Any], generator: torch.Generator
) -> None:
    model = small_model(rows, generator, depth=2, **density)
    if model.noise_field is not None:
        model.noise_field.temper.copy_(torch.tensor([0.5, 1.0]))
    factors = model.factors()[0]
    features = row_features(factors, rows.inputs)
    targets, log_slope = factors.output.forward(rows.targets)
    precision = log_precision(factors, rows.inputs)
    assert (precision is None) == (not density)
    temper = torch.tensor([0.5, 1.0], dtype=torch.float64) if density else None
    observed = Observations(features, targets, log_slope, precision, rows.weight, temper)
    fitted = posterior(statistics(observed), model.noise(), model.signal())
    predictor = condition(model, rows)
    predicted = fitted.predict(row_features(factors, inputs), log_precision(factors, inputs))
    assert_close(predictor.predict(inputs), predicted, 1e-12)
    assert_close(predictor.leave_one_out(rows), leave_one_out(observed, fitted), 1e-12)
    diagonal = predictor.covariance(inputs).diagonal(dim1=-2, dim2=-1).mT
    assert torch.allclose(diagonal, predictor.predict(inputs).latent_variance, rtol=1e-12)
    assert [measure.mean.shape for measure in predictor.warp(inputs)] == [(11, 3)] * 3


def test_statistics_are_stored_unless_they_follow_from_the_rows(
    rows: Rows, inputs: Measure, generator: torch.Generator
) -> None:
    model = small_model(rows, generator, depth=2, **DENSITIES["tanh"])
    predictor = condition(model, rows)
    assert predictor.bytes_spared_by(rows) > 0
    fewer = rows.map(lambda tensor: tensor[:-1])
    many = rows.map(lambda tensor: tensor.repeat(99, *(1,) * (tensor.ndim - 1)))
    for member, held in ((predictor, rows), (predictor, fewer), (condition(model, many), many)):
        restored = FeatureMember.restore(model, member.stored(held), held)
        assert_close(restored.predict(inputs), member.predict(inputs), 1e-12)
        assert (held is rows) == (member.stored(held) == {})


@pytest.mark.parametrize(("depth", "spread"), [(0, 0.5), (1, 0.02), (2, 0.02)])
def test_uncertain_inputs_against_perturbed_ones(
    depth: int, spread: float, generator: torch.Generator
) -> None:
    """Predictions are exact for a stationary model, and with warps if the uncertainty is small."""
    rows = small_rows(generator, n_targets=2)
    predictor = condition(small_model(rows, generator, perturb=0.2, depth=depth), rows)
    x = normal(generator, 4, 3)
    variance = spread**2 * (0.5 + torch.rand(4, 3, generator=generator, dtype=torch.float64))
    ours = predictor.predict(Measure(x, input_variance=variance))
    n = 100_000
    for row in range(4):
        perturbed = Measure(x[row] + variance[row].sqrt() * normal(generator, n, 3))
        draws = predictor.predict(perturbed)
        mean_error = (draws.mean.mean(0) - ours.mean[row]).abs()
        slack = 4 / n**0.5 + (0.1 if depth else 0)  # in units of the spread
        assert (mean_error < slack * draws.mean.std(0)).all()
        total = draws.observation_variance.mean(0) + draws.mean.var(0)
        assert torch.allclose(ours.observation_variance[row], total, rtol=0.02)


def test_the_joint_covariance_of_uncertain_inputs_against_perturbed_ones(
    generator: torch.Generator,
) -> None:
    rows = small_rows(generator)
    predictor = condition(small_model(rows, generator, depth=0), rows)
    x, variance = normal(generator, 3, 3), torch.full((3, 3), 0.2, dtype=torch.float64)
    ours = predictor.covariance(Measure(x, input_variance=variance))[0]
    # One drawn function for each perturbation: the covariance over both.
    n = 60_000
    perturbed = x + variance.sqrt() * normal(generator, n, 3, 3)
    features = row_features(predictor.factors, Measure(perturbed.flatten(0, 1)))
    weights = predictor.posterior.sample_weights(n, generator)[:, :, 0]
    draws = (features.unflatten(0, (n, 3)) @ weights[:, :, None])[..., 0]
    assert torch.allclose(draws.mT.cov(), ours, atol=0.03 * ours.max().item())
