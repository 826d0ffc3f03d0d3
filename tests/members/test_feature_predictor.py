from __future__ import annotations

from typing import Any

import pytest
import torch
from builders.models import DENSITIES, normal, small_model, small_rows

from sswim.base import record as record_module
from sswim.members import FeatureMember
from sswim.members import feature_member as predictor_module
from sswim.members.linear_regression import leave_one_out, posterior, statistics
from sswim.members.model import Observations, log_precision, row_features
from sswim.rows import Measure, Rows

condition = FeatureMember.condition_on


@pytest.fixture
def rows(generator: torch.Generator) -> Rows:
    return small_rows(generator, n_targets=2, weighted=True, uncertain=True)


@pytest.fixture(params=[*DENSITIES.values()], ids=[*DENSITIES.keys()])
def density(request: pytest.FixtureRequest) -> dict[str, Any]:
    return dict(request.param)


@pytest.fixture
def predictor(rows: Rows, density: dict[str, Any], generator: torch.Generator) -> FeatureMember:
    return condition(small_model(rows, generator, **{"depth": 2, **density}), rows)


@pytest.fixture
def inputs(generator: torch.Generator) -> Measure:
    return Measure(normal(generator, 11, 3), 0.1 * normal(generator, 11, 3).square())


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
    for ours, theirs in (
        (predictor.predict(inputs), predicted),
        (predictor.leave_one_out(rows), leave_one_out(observed, fitted)),
    ):
        for mine, expected in zip(ours.tensors(), theirs.tensors(), strict=True):
            assert torch.allclose(mine, expected, rtol=1e-12)


@pytest.mark.parametrize(
    "density",
    [
        *DENSITIES.values(),
        {"inputs": "normal-scores", "n_warp_frequencies": 4},
        {"depth": 0, "inputs": "normal-scores", "noise": "input-dependent"},
    ],
    ids=str,
)
def test_chunks_change_nothing(
    predictor: FeatureMember,
    rows: Rows,
    inputs: Measure,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def everything() -> list[torch.Tensor]:
        draws = predictor.sample(3, torch.Generator().manual_seed(0))
        return [
            *predictor.predict(inputs).tensors(),
            *predictor.predict(Measure(inputs.mean, None, inputs.variance)).tensors(),
            *predictor.leave_one_out(rows).tensors(),
            *predictor.update(rows).posterior.tensors(),
            *(tensor for measure in predictor.warp(inputs) for tensor in measure.tensors()),
            draws(inputs),
        ]

    at_once = everything()
    monkeypatch.setattr(record_module, "CPU_ROWS", 4)
    monkeypatch.setattr(predictor_module, "PAIRS", 4 * 6**2)
    for ours, theirs in zip(everything(), at_once, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-11, atol=1e-13)


def test_updating_equals_conditioning_on_all_rows(
    rows: Rows, inputs: Measure, density: dict[str, Any], generator: torch.Generator
) -> None:
    model = small_model(rows, generator, **density)
    first, second = rows.map(lambda t: t[:8]), rows.map(lambda t: t[8:])
    updated = condition(model, first).update(second).predict(inputs)
    expected = condition(model, rows).predict(inputs)
    for ours, theirs in zip(updated.tensors(), expected.tensors(), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-10)


def test_leaving_one_out_equals_conditioning_on_the_others(
    rows: Rows, density: dict[str, Any], generator: torch.Generator
) -> None:
    model = small_model(rows, generator, **density)
    once = Rows(rows.inputs, rows.targets)
    left_out = condition(model, once).leave_one_out(once)
    for row in (0, 5, 22):
        others = once.map(lambda t, row=row: torch.cat((t[:row], t[row + 1 :])))  # type: ignore[misc]
        refitted = condition(model, others)
        features = row_features(refitted.factors, once.inputs)
        precision = log_precision(refitted.factors, once.inputs)
        expected = refitted.posterior.predict(features, precision)
        for ours, theirs in zip(left_out.tensors(), expected.tensors(), strict=True):
            assert torch.allclose(ours[row], theirs[row], rtol=1e-8)


def test_drawn_observations_have_the_predicted_moments(
    predictor: FeatureMember, inputs: Measure, generator: torch.Generator
) -> None:
    n = 50_000
    draws = predictor.sample(n, generator, include_noise=True)(inputs)
    prediction = predictor.predict(inputs)
    standard_error = (prediction.observation_variance / n).sqrt()
    assert ((draws.mean(0) - prediction.mean).abs() < 4.5 * standard_error).all()
    assert torch.allclose(draws.var(0), prediction.observation_variance, rtol=0.05)


def test_noise_differs_between_inputs_only_where_it_may(
    predictor: FeatureMember, inputs: Measure, density: dict[str, Any]
) -> None:
    for measure in (inputs, Measure(inputs.mean, input_variance=inputs.variance)):
        prediction = predictor.predict(measure)
        noise = prediction.observation_variance - prediction.latent_variance
        ratio = noise.amax(0) / noise.amin(0)
        assert (ratio > 1.1).all() if density else torch.allclose(ratio, torch.ones_like(ratio))


def test_a_drawn_function_is_the_same_wherever_it_is_evaluated(
    predictor: FeatureMember, inputs: Measure, generator: torch.Generator
) -> None:
    functions = predictor.sample(5, generator)
    together = functions(inputs)
    assert together.shape == (5, 11, 2)
    apart = [functions(inputs.map(lambda t, i=i: t[i : i + 1])) for i in range(11)]  # type: ignore[misc]
    assert torch.allclose(torch.cat(apart, dim=1), together, rtol=1e-12)


def test_drawn_functions_have_the_predicted_moments(
    predictor: FeatureMember, inputs: Measure, generator: torch.Generator
) -> None:
    n = 50_000
    draws = predictor.sample(n, generator)(inputs)
    prediction = predictor.predict(inputs)
    standard_error = (prediction.latent_variance / n).sqrt()
    assert ((draws.mean(0) - prediction.mean).abs() < 4.5 * standard_error).all()
    assert torch.allclose(draws.var(0), prediction.latent_variance, rtol=0.05)


def test_the_joint_covariance_has_the_latent_variances(
    predictor: FeatureMember, inputs: Measure
) -> None:
    diagonal = predictor.covariance(inputs).diagonal(dim1=-2, dim2=-1).mT
    assert torch.allclose(diagonal, predictor.predict(inputs).latent_variance, rtol=1e-12)


def test_warp_gives_the_measure_after_each_layer(predictor: FeatureMember, inputs: Measure) -> None:
    measures = predictor.warp(inputs)
    assert [measure.mean.shape for measure in measures] == [(11, 3)] * 3


def test_a_model_may_change_after_conditioning(
    rows: Rows, inputs: Measure, density: dict[str, Any], generator: torch.Generator
) -> None:
    model = small_model(rows, generator, **density)
    predictor = condition(model, rows)
    before = predictor.predict(inputs), predictor.factors.output.forward(rows.targets)[0]
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.add_(1)
    after = predictor.predict(inputs), predictor.factors.output.forward(rows.targets)[0]
    for ours, theirs in zip(after[0].tensors(), before[0].tensors(), strict=True):
        assert torch.equal(ours, theirs)
    assert torch.equal(after[1], before[1])


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


def test_exact_inputs_with_no_variance_predict_as_points(
    predictor: FeatureMember, inputs: Measure
) -> None:
    zero = Measure(inputs.mean, input_variance=torch.zeros_like(inputs.mean))
    ours, theirs = predictor.predict(zero), predictor.predict(Measure(inputs.mean))
    for mine, expected in zip(ours.tensors(), theirs.tensors(), strict=True):
        assert torch.allclose(mine, expected, rtol=1e-6, atol=1e-9)


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


def test_statistics_follow_from_the_same_few_rows(predictor: FeatureMember, rows: Rows) -> None:
    assert predictor._follows_from(rows)
    assert not predictor._follows_from(rows.map(lambda tensor: tensor[:-1]))  # other rows
    n_features = len(predictor.posterior.mean)
    many = rows.map(lambda tensor: tensor.repeat(n_features, *(1,) * (tensor.ndim - 1)))
    assert not predictor._condition_again(many)._follows_from(many)


def test_conditioning_again_is_conditioning(
    predictor: FeatureMember, rows: Rows, inputs: Measure
) -> None:
    first, second = rows.map(lambda tensor: tensor[:8]), rows.map(lambda tensor: tensor[8:])
    updated = predictor._condition_again(first).update(second)
    for ours, theirs in zip(
        updated.predict(inputs).tensors(), predictor.predict(inputs).tensors(), strict=True
    ):
        assert torch.allclose(ours, theirs, rtol=1e-9)
    again = updated._condition_again(rows)
    for ours, theirs in zip(again.tensors(), predictor.tensors(), strict=True):
        assert torch.equal(ours, theirs)
