"""Members predict the rows that they left out."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from builders.models import assert_close, normal, small_model, small_rows
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
    condition,
    outside,
)
from sswim.members.density import Density
from sswim.members.model import with_noise_field
from sswim.members.start import start_noise_field
from sswim.rows import Rows, no_scaling
from sswim.warps import log_noise_ratio

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


@torch.no_grad()
def predict(model: SSWIM, rows: Rows, fold: Tensor) -> OutOfFold:
    """Predict a fold in the way of the model."""
    way = NeighbourMember if model.architecture.n_neighbors else FeatureMember
    return way.leave_out([model], training_rows(rows), [fold], []).prediction


def by_hand(model: SSWIM, rows: Rows, fold: Tensor) -> Density:
    """Predict a fold by a model that is conditioned on the other rows."""
    inside = rows.take(fold)
    predictor = condition(model, rows.take(outside(rows, inside)))
    return Density(predictor.predict(inside.inputs), predictor.factors.output, no_scaling(rows))


def test_predictions_are_those_from_the_rows_outside(
    model: SSWIM, rows: Rows, fold: Tensor
) -> None:
    found, expected = predict(model, rows, fold), by_hand(model, rows, fold)
    targets = rows.targets[fold]
    warped, log_slope = expected.output.forward(targets)
    assert torch.allclose(found.residual, warped - expected.warped.mean, rtol=1e-8)
    assert torch.allclose(found.latent_variance, expected.warped.latent_variance, rtol=1e-8)
    assert torch.allclose(found.log_slope, log_slope)
    assert torch.allclose(found.error, expected.mean - targets, rtol=1e-7, atol=1e-9)
    as_learnt = Correction(*torch.zeros(2, 2, dtype=torch.float64))
    density = found.log_density(as_learnt)
    assert torch.allclose(density, expected.log_density(targets), rtol=1e-7)


@pytest.mark.parametrize("varying", [False, True])
@torch.no_grad()
def test_corrections_and_noise_fields_mean_the_same_for_members(
    varying: bool, model: SSWIM, rows: Rows, fold: Tensor, generator: torch.Generator
) -> None:
    """The density that stacking maximises is that of the corrected member."""
    found, correction = predict(model, rows, fold), Correction(*normal(generator, 2, 2))
    model.noise_correction.copy_(correction.noise)
    model.latent_correction.copy_(correction.latent)
    ratio = None
    if varying:
        field = start_noise_field(model.architecture, 2, rows.inputs.mean, generator)
        for parameter in field.parameters():
            parameter.add_(0.3 * normal(generator, *parameter.shape))
        ratio = log_noise_ratio(field.factors()[0], rows.take(fold).inputs)
        assert ratio.std() > 0.01
        model = with_noise_field(model, field)
    expected = by_hand(model, rows, fold).log_density(rows.targets[fold])
    assert torch.allclose(found.log_density(correction, ratio), expected, rtol=1e-7)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_one_value_that_is_not_finite_is_found(value: float, generator: torch.Generator) -> None:
    names = [field.name for field in fields(OutOfFold)]
    rows = OutOfFold(*normal(generator, len(names), 7, 2))
    assert rows.is_finite
    for name in names:
        broken = getattr(rows, name).clone()
        broken[3, 1] = value
        assert not replace(rows, **{name: broken}).is_finite


def test_folds_are_predicted_each_by_its_model(rows: Rows, generator: torch.Generator) -> None:
    folds = list(torch.randperm(40, generator=generator)[:33].split(11))
    models = [neighbour_model(rows, generator, 9) for _ in folds]
    data = training_rows(rows)
    own = NeighbourMember.leave_out(models, data, folds, []).prediction
    alone = [predict(model, rows, fold) for model, fold in zip(models, folds, strict=True)]
    joined = record.concatenate(alone)
    assert_close(own, joined, 0.0)
    shared = NeighbourMember.leave_out(models[:1], data, folds, []).prediction
    assert torch.equal(shared.residual[:11], own.residual[:11])
    assert not torch.equal(shared.residual[11:], own.residual[11:])


def test_chunks_of_a_fold_change_nothing(
    rows: Rows, fold: Tensor, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small_model(rows, generator)
    whole = predict(model, rows, fold)
    monkeypatch.setattr("sswim.members.feature_member.rows_at_once", lambda _: 4)
    assert_close(predict(model, rows, fold), whole, 1e-10)
