"""Relevance of columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from builders.estimators import make_rows, skewed_rows, small

from sswim.estimator import BaseRegressor
from sswim.insight import relevance_of
from sswim.members.feature_member import FeatureMember


def jansen(values: np.ndarray, changed: list[np.ndarray]) -> np.ndarray:
    """Return shares of mean squared differences."""
    total = np.array([np.mean((other - values) ** 2) for other in changed])
    return total / total.sum()


@pytest.fixture(scope="module")
def models() -> dict[str, BaseRegressor]:
    x, y = skewed_rows(90)
    return {
        "features": small(max_iter=30, output_warp="sinh-arcsinh").fit(x, y),
        "neighbours": small(max_iter=30, n_neighbors=16, inputs="normal-scores").fit(x, y),
        "mixture": small(depth=0, max_iter=30, n_members=3).fit(x, y),
    }


@pytest.mark.parametrize("name", ["features", "neighbours", "mixture"])
def test_shares_are_total_effects(models: dict[str, BaseRegressor], name: str) -> None:
    """All pairs of rows are the reference of the pairs that are drawn."""
    model = models[name]
    x = skewed_rows(100, seed=2)[0]
    found = relevance_of(model._ensemble, torch.from_numpy(x), [[0], [1]])

    def function(inputs: np.ndarray) -> np.ndarray:
        return model.posterior(torch.from_numpy(inputs)[:, None]).mean[:, 0].numpy()

    values = np.repeat(function(x), len(x))
    rows, others = np.repeat(x, len(x), axis=0), np.tile(x, (len(x), 1))
    first = function(np.column_stack((others[:, 0], rows[:, 1])))
    second = function(np.column_stack((rows[:, 0], others[:, 1])))
    np.testing.assert_allclose(found[0], jansen(values, [first, second]), atol=0.05)
    assert found.shape == (1 + len(model.weights_), 2)
    np.testing.assert_allclose(found.sum(1), 1)


def test_targets_count_alike() -> None:
    x, y = make_rows(80, 2)
    targets = np.column_stack((y, 1000 * np.cos(2 * x[:, 1])))
    model = small(depth=0, max_iter=60).fit(x, targets)
    assert 0.2 < model.relevance(x).relevance[0] < 0.8


def test_no_signal_has_no_relevance() -> None:
    x, y = make_rows(40, 2)
    ensemble = small(depth=0).fit(x, y)._ensemble
    member = ensemble.members[0]
    assert isinstance(member, FeatureMember)
    silent = replace(member.posterior, mean=0 * member.posterior.mean)
    changed = replace(ensemble, members=(replace(member, posterior=silent),))
    assert (relevance_of(changed, torch.from_numpy(x), [[0], [1]]) == 0).all()


def test_members_without_weight_are_left_out(models: dict[str, BaseRegressor]) -> None:
    ensemble = models["mixture"]._ensemble
    weights = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)
    x = torch.from_numpy(skewed_rows(40, seed=2)[0])
    found = relevance_of(replace(ensemble, weights=weights), x, [[0], [1]])
    torch.testing.assert_close(found[0], found[2])
    assert (found[[1, 3]] == 0).all()


def test_linear_function_has_squared_slopes_as_shares() -> None:
    """A function a·x has the shares a_d² Var(x_d)."""
    random = np.random.default_rng(0)
    x = random.normal(size=(300, 3)) * [1.0, 2.0, 1.0]
    model = small(depth=0, max_iter=100, kernel="rbf", length_scale=10.0)
    model.fit(x, x @ [2.0, 0.5, 0.0])
    found = relevance_of(model._ensemble, torch.from_numpy(x), [[0], [1], [2]])[0]
    np.testing.assert_allclose(found, [0.8, 0.2, 0.0], atol=0.05)


def test_inputs_of_one_column_change_together(models: dict[str, BaseRegressor]) -> None:
    """Indicators of levels get those of another row, and never a mixture of two."""
    model = models["mixture"]
    x = torch.from_numpy(skewed_rows(40, seed=2)[0])
    np.testing.assert_allclose(relevance_of(model._ensemble, x, [[0, 1]]), 1.0)
