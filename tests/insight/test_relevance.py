from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from builders.estimators import make_rows, skewed_rows, small

from sswim import SSWIMRegressor
from sswim.insight.relevance import relevance_of
from sswim.insight.slopes import mean_slopes
from sswim.posterior.feature_predictor import FeaturePredictor


@pytest.fixture(scope="module")
def models() -> dict[str, SSWIMRegressor]:
    x, y = skewed_rows(90)
    return {
        "features": small(max_iter=30, output_warp="sinh-arcsinh").fit(x, y),
        "neighbours": small(max_iter=30, n_neighbors=16, inputs="normal-scores").fit(x, y),
        "mixture": small(depth=0, max_iter=30, n_members=3).fit(x, y),
    }


@pytest.mark.parametrize("name", ["features", "neighbours", "mixture"])
def test_slopes_are_those_of_finite_differences(
    models: dict[str, SSWIMRegressor], name: str
) -> None:
    model = models[name]
    x = skewed_rows(6, seed=3)[0] + 0.01
    found = mean_slopes(model._ensemble, torch.from_numpy(x))
    mixed = torch.einsum("m,mntd->ntd", model._ensemble.weights, found)[:, 0].numpy()
    for place in range(2):
        step = np.zeros(2)
        step[place] = 1e-5
        ends = [model.posterior(torch.from_numpy(x + sign * step)).mean for sign in (1, -1)]
        expected = (ends[0] - ends[1]).numpy() / 2e-5
        np.testing.assert_allclose(mixed[:, place], expected, rtol=1e-3, atol=1e-4)


def test_shares_are_mean_squared_slopes_in_spreads(models: dict[str, SSWIMRegressor]) -> None:
    model = models["mixture"]
    x = skewed_rows(40, seed=2)[0]
    found = relevance_of(model._ensemble, torch.from_numpy(x), [[0], [1]])
    slopes = mean_slopes(model._ensemble, torch.from_numpy(x))[:, :, 0].numpy()
    mixed = np.einsum("m,mnd->nd", model.weights_, slopes)
    expected = np.square(mixed * x.std(0)).mean(0)
    np.testing.assert_allclose(found[0], expected / expected.sum(), rtol=1e-9)
    for number in range(3):
        alone = np.square(slopes[number] * x.std(0)).mean(0)
        np.testing.assert_allclose(found[1 + number], alone / alone.sum(), rtol=1e-9)


def test_inputs_of_one_column_count_together(models: dict[str, SSWIMRegressor]) -> None:
    """A linear function of inputs that cancel each other makes no variance."""
    model = models["mixture"]
    x = torch.from_numpy(skewed_rows(40, seed=2)[0])
    both = relevance_of(model._ensemble, x, [[0, 1]])
    np.testing.assert_allclose(both, 1.0)
    slopes = mean_slopes(model._ensemble, x)
    mixed = torch.einsum("m,mntd->ntd", model._ensemble.weights, slopes)[:, 0]
    centred = x - x.mean(0)
    expected = (mixed @ centred.T).square().mean()  # over all pairs of slopes and rows
    covariance = centred.T @ centred / len(x)
    found = ((mixed @ covariance) * mixed).sum(-1).mean()
    torch.testing.assert_close(found, expected)


def test_targets_count_alike() -> None:
    x, y = make_rows(80, 2)
    targets = np.column_stack((y, 1000 * np.cos(2 * x[:, 1])))
    model = small(depth=0, max_iter=60).fit(x, targets)
    found = model.relevance(x)
    assert 0.2 < found.relevance[0] < 0.8


def test_no_signal_has_no_relevance() -> None:
    x, y = make_rows(40, 2)
    model = small(depth=0).fit(x, y)
    ensemble = model._ensemble
    member = ensemble.members[0]
    assert isinstance(member, FeaturePredictor)
    silent = replace(member.posterior, mean=0 * member.posterior.mean)
    member = replace(member, posterior=silent)
    found = relevance_of(replace(ensemble, members=(member,)), torch.from_numpy(x), [[0], [1]])
    assert (found == 0).all()
