from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from builders.models import normal, small_model, small_rows
from builders.neighbours import neighbour_model
from builders.training import training_rows
from torch import Tensor

from sswim.base import record
from sswim.members import (
    SSWIM,
    Correction,
    FeatureMember,
    NeighbourMember,
    OutOfFold,
    Prediction,
    condition,
)
from sswim.members.density import Density
from sswim.members.model import with_noise_field
from sswim.members.start import start_noise_field
from sswim.rows import Rows, no_scaling
from sswim.warps.noise_field import log_noise_ratio


def predictions(
    generator: torch.Generator, n: int = 7, n_targets: int = 2, *, student_t: bool, rounded: bool
) -> OutOfFold:
    """Draw predictions of rows at random."""
    shape = n, n_targets
    return OutOfFold(
        residual=normal(generator, *shape),
        latent_variance=normal(generator, *shape).square(),
        noise=normal(generator, *shape).square(),
        log_slope=normal(generator, *shape),
        error=normal(generator, *shape),
        rounding=normal(generator, *shape).square() if rounded else None,
        degrees=2.5 + normal(generator, *shape).square() if student_t else None,
    )


def draw_correction(generator: torch.Generator, n_targets: int = 2) -> Correction:
    return Correction(normal(generator, n_targets), normal(generator, n_targets))


@pytest.mark.parametrize("student_t", [False, True])
@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("varying", [False, True])
def test_densities_are_those_of_predictions_with_corrected_variances(
    student_t: bool, rounded: bool, varying: bool, generator: torch.Generator
) -> None:
    rows = predictions(generator, student_t=student_t, rounded=rounded)
    correction = draw_correction(generator)
    ratio = normal(generator, 7, 2) if varying else None
    latent = rows.latent_variance * correction.latent.exp()
    observation = latent + rows.noise * correction.noise.exp() * (
        1 if ratio is None else ratio.exp()
    )
    if rows.rounding is not None:
        observation = observation + rows.rounding
    mean = normal(generator, 7, 2)
    prediction = Prediction(mean, latent, observation, rows.degrees)
    expected = prediction.log_density(mean + rows.residual) + rows.log_slope
    assert torch.allclose(rows.log_density(correction, ratio), expected, rtol=1e-10)


@pytest.mark.parametrize("name", [field.name for field in fields(OutOfFold)])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_one_value_that_is_not_finite_is_found(
    name: str, value: float, generator: torch.Generator
) -> None:
    rows = predictions(generator, student_t=True, rounded=True)
    assert rows.is_finite
    broken = getattr(rows, name).clone()
    broken[3, 1] = value
    assert not replace(rows, **{name: broken}).is_finite


ARCHITECTURES: dict[str, dict[str, Any]] = {
    "features": {},
    "features, output warp": {"depth": 0, "output_warp": "sinh-arcsinh"},
    "neighbours": {"n_neighbors": 9},
    "neighbours, output warp": {"n_neighbors": 9, "depth": 1, "output_warp": "sinh-arcsinh"},
    "neighbours, one amplitude": {"n_neighbors": 9, "local_amplitude": False},
}


@pytest.fixture
def rows(generator: torch.Generator) -> Rows:
    return small_rows(generator, n=40, n_targets=2, weighted=True)


@pytest.fixture
def fold(generator: torch.Generator) -> Tensor:
    return torch.randperm(40, generator=generator)[:11]


@pytest.fixture(params=ARCHITECTURES)
def model(request: pytest.FixtureRequest, rows: Rows, generator: torch.Generator) -> SSWIM:
    changes = ARCHITECTURES[request.param]
    if "n_neighbors" not in changes:
        return small_model(rows, generator, **changes)
    made = neighbour_model(rows, generator, **changes)
    made.resolution.copy_(torch.tensor([0.3, 0.0]))  # the first target is rounded
    return made


def others(rows: Rows, fold: Tensor) -> Rows:
    return rows.take(torch.tensor([row for row in range(len(rows)) if row not in fold.tolist()]))


@torch.no_grad()
def predict(model: SSWIM, rows: Rows, fold: Tensor) -> OutOfFold:
    """Predict a fold in the way of the model."""
    way = NeighbourMember if model.architecture.n_neighbors else FeatureMember
    return way.leave_out([model], training_rows(rows), [fold], []).prediction


def by_hand(model: SSWIM, rows: Rows, fold: Tensor) -> Density:
    """Predict a fold by a model that is conditioned on the other rows."""
    predictor = condition(model, others(rows, fold))
    inside = rows.take(fold)
    return Density(predictor.predict(inside.inputs), predictor.factors.output, no_scaling(rows))


def test_predictions_are_those_from_the_rows_outside(
    model: SSWIM, rows: Rows, fold: Tensor, generator: torch.Generator
) -> None:
    found, expected = predict(model, rows, fold), by_hand(model, rows, fold)
    targets = rows.targets[fold]
    warped, log_slope = expected.output.forward(targets)
    assert found.is_finite
    assert torch.allclose(found.residual, warped - expected.warped.mean, rtol=1e-8)
    assert torch.allclose(found.latent_variance, expected.warped.latent_variance, rtol=1e-8)
    assert torch.allclose(found.log_slope, log_slope)
    assert torch.allclose(found.error, expected.mean - targets, rtol=1e-7, atol=1e-9)
    as_learnt = Correction(*torch.zeros(2, 2, dtype=torch.float64))
    density = found.log_density(as_learnt)
    assert torch.allclose(density, expected.log_density(targets), rtol=1e-7)


def test_corrections_mean_the_same_for_predictors(
    model: SSWIM, rows: Rows, fold: Tensor, generator: torch.Generator
) -> None:
    """The density that stacking maximises is that of the corrected member."""
    found, correction = predict(model, rows, fold), draw_correction(generator)
    model.noise_correction.copy_(correction.noise)
    model.latent_correction.copy_(correction.latent)
    expected = by_hand(model, rows, fold).log_density(rows.targets[fold])
    assert torch.allclose(found.log_density(correction), expected, rtol=1e-7)


@torch.no_grad()
def test_a_noise_field_means_the_same_for_predictors(
    model: SSWIM, rows: Rows, fold: Tensor, generator: torch.Generator
) -> None:
    found, correction = predict(model, rows, fold), draw_correction(generator)
    model.noise_correction.copy_(correction.noise)
    model.latent_correction.copy_(correction.latent)
    field = start_noise_field(model.architecture, 2, rows.inputs.mean, generator)
    for parameter in field.parameters():
        parameter.add_(0.3 * normal(generator, *parameter.shape))
    ratio = log_noise_ratio(field.factors()[0], rows.take(fold).inputs)
    noisy = with_noise_field(model, field)
    expected = by_hand(noisy, rows, fold).log_density(rows.targets[fold])
    assert ratio.std() > 0.01
    assert torch.allclose(found.log_density(correction, ratio), expected, rtol=1e-7)


def test_folds_are_predicted_each_by_its_model(rows: Rows, generator: torch.Generator) -> None:
    folds = list(torch.randperm(40, generator=generator)[:33].split(11))
    models = [neighbour_model(rows, generator, 9) for _ in folds]
    data = training_rows(rows)
    own = NeighbourMember.leave_out(models, data, folds, []).prediction
    alone = [predict(model, rows, fold) for model, fold in zip(models, folds, strict=True)]
    joined = record.concatenate(alone)
    for ours, theirs in zip(own.tensors(), joined.tensors(), strict=True):
        assert torch.equal(ours, theirs)
    shared = NeighbourMember.leave_out(models[:1], data, folds, []).prediction
    assert torch.equal(shared.residual[:11], own.residual[:11])
    assert not torch.equal(shared.residual[11:], own.residual[11:])


def test_neighbours_may_be_rows_that_are_kept_but_not_in_the_sample(
    rows: Rows, fold: Tensor, generator: torch.Generator
) -> None:
    model = neighbour_model(rows, generator, 9)
    places = torch.randperm(40, generator=generator)
    sample = rows.take(torch.cat((fold, others_of(fold)[:5])))  # the fold first
    data = replace(training_rows(sample), kept=rows.take(places), n_rows=len(rows))
    found = NeighbourMember.leave_out([model], data, [torch.arange(11)], []).prediction
    expected = predict(model, rows, fold)
    assert torch.allclose(found.residual, expected.residual)
    assert torch.allclose(found.latent_variance, expected.latent_variance)


def others_of(fold: Tensor) -> Tensor:
    return torch.tensor([row for row in range(40) if row not in fold.tolist()])


def test_chunks_of_a_fold_change_nothing(
    rows: Rows, fold: Tensor, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small_model(rows, generator)
    whole = predict(model, rows, fold)
    monkeypatch.setattr("sswim.members.feature_member.rows_at_once", lambda _: 4)
    for ours, theirs in zip(predict(model, rows, fold).tensors(), whole.tensors(), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-10)
