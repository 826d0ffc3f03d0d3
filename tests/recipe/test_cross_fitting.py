from __future__ import annotations

import pytest
import torch
from builders.models import small_model, small_rows

from sswim.model.observations import observe, row_features
from sswim.model.sswim import SSWIM
from sswim.posterior.conditioning import condition
from sswim.posterior.linear_regression import posterior
from sswim.posterior.statistics import statistics
from sswim.recipe.cross_fitting import NoiseStart, combine_kinds
from sswim.recipe.folds import draw_folds
from sswim.recipe.stacking import OutOfFold, learn_stacking
from sswim.rows.rows import Rows


@pytest.fixture(params=[False, True], ids=["counted once", "weighted"])
def rows(request: pytest.FixtureRequest, generator: torch.Generator) -> Rows:
    return small_rows(generator, n=60, n_targets=2, weighted=request.param)


@pytest.fixture
def folds(rows: Rows, generator: torch.Generator) -> list[torch.Tensor]:
    drawn = draw_folds(rows, 2, generator)
    assert drawn is not None
    return drawn


@pytest.fixture
def models(rows: Rows, generator: torch.Generator) -> list[SSWIM]:
    kinds = ({"depth": 0}, {"output_warp": "sinh-arcsinh"})
    return [small_model(rows, generator, **kind) for kind in kinds for _ in range(2)]


def brute_force(models: list[SSWIM], rows: Rows, folds: list[torch.Tensor]) -> OutOfFold:
    """Predict each fold by a model that is conditioned only on the rows outside it."""
    fields: dict[str, list[torch.Tensor]] = {}
    for first in (0, 2):
        parts: dict[str, list[torch.Tensor]] = {}
        for model, fold in zip(models[first : first + 2], folds, strict=True):
            outside = torch.tensor([i for i in range(len(rows)) if i not in fold.tolist()])
            factors, _ = model.condition()
            known = statistics(observe(factors, rows.take(outside)))
            given = posterior(known, model.noise(), model.signal())
            held = rows.take(fold)
            prediction = given.predict(row_features(factors, held.inputs))
            targets, log_slope = factors.output.forward(held.targets)
            noise = prediction.observation_variance - prediction.latent_variance
            values = (targets - prediction.mean, prediction.latent_variance, noise, log_slope)
            names = ("residual", "latent_variance", "noise", "log_slope")
            for name, value in zip(names, values, strict=True):
                parts.setdefault(name, []).append(value)
        for name, values_of_kind in parts.items():
            fields.setdefault(name, []).append(torch.cat(values_of_kind).detach())
    weight = None if rows.weight is None else torch.cat([rows.weight[fold] for fold in folds])
    return OutOfFold(**{name: torch.stack(v) for name, v in fields.items()}, weight=weight)


def test_kinds_are_combined_by_their_predictions_of_held_out_rows(
    models: list[SSWIM], rows: Rows, folds: list[torch.Tensor]
) -> None:
    expected = learn_stacking(brute_force(models, rows, folds))
    weights = combine_kinds(models, rows, folds).weights
    assert torch.allclose(weights, expected.weights.repeat_interleave(2) / 2)
    assert weights.sum() == pytest.approx(1)
    for number, model in enumerate(models):
        assert torch.allclose(model.calibration, expected.calibration[number // 2])


def test_members_are_conditioned_on_all_rows(
    models: list[SSWIM], rows: Rows, folds: list[torch.Tensor]
) -> None:
    predictors = combine_kinds(models, rows, folds).predictors
    for model, ours in zip(models, predictors, strict=True):
        expected = condition(model, rows)
        for mine, theirs in zip(ours.tensors(), expected.tensors(), strict=True):
            assert torch.allclose(mine, theirs, rtol=1e-8, atol=1e-10)


def test_calibration_changes_the_noise_alone(
    models: list[SSWIM], rows: Rows, folds: list[torch.Tensor]
) -> None:
    as_learnt = combine_kinds(models, rows, folds, calibrate=False).predictors
    calibrated = combine_kinds(models, rows, folds).predictors
    for model, before, after in zip(models, as_learnt, calibrated, strict=True):
        first, second = before.predict(rows.inputs), after.predict(rows.inputs)
        assert torch.allclose(first.mean, second.mean)
        assert torch.allclose(first.latent_variance, second.latent_variance)
        ratio = (second.observation_variance - second.latent_variance) / (
            first.observation_variance - first.latent_variance
        )
        assert torch.allclose(ratio, model.calibration.exp().expand_as(ratio))


def test_equal_weights_where_none_are_learnt(
    models: list[SSWIM], rows: Rows, folds: list[torch.Tensor]
) -> None:
    weights = combine_kinds(models, rows, folds, stack=False).weights
    assert torch.allclose(weights, torch.full((4,), 0.25, dtype=torch.float64))


def test_noise_that_varies_leaves_the_means_as_they_were(
    models: list[SSWIM], rows: Rows, folds: list[torch.Tensor], generator: torch.Generator
) -> None:
    constant = combine_kinds(models, rows, folds)
    start = NoiseStart(rows.inputs.mean, generator)
    varying = combine_kinds(models, rows, folds, noise=start)
    assert torch.equal(varying.weights, constant.weights)
    for model, before, after in zip(
        varying.models, constant.predictors, varying.predictors, strict=True
    ):
        assert model.architecture.noise == "input-dependent"
        first, second = before.predict(rows.inputs), after.predict(rows.inputs)
        assert torch.allclose(first.mean, second.mean)
        assert torch.allclose(first.latent_variance, second.latent_variance)
        ratio = second.observation_variance - second.latent_variance
        ratio = ratio / (first.observation_variance - first.latent_variance)
        assert ratio.std(0).min() > 0
        more = after.update(rows).predict(rows.inputs)
        assert torch.allclose(more.mean, before.update(rows).predict(rows.inputs).mean)
