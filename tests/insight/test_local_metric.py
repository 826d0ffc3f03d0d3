"""The metric of the warps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from builders.estimators import make_rows, small

from sswim.estimator import BaseRegressor
from sswim.insight import local_metric
from sswim.rows import Measure

SETTINGS: list[dict[str, Any]] = [
    {"depth": 0},
    {"depth": 0, "inputs": "normal-scores"},
    {"depth": 1},
    {"depth": 2, "inputs": "normal-scores", "warps": "joint"},
    {"depth": 1, "n_neighbors": 16},
    {"depth": 1, "warp_matrix": "projected", "warp_dim": 2},
    {"depth": 2, "warp_dim": 4, "warp_matrix": "full"},
]


@pytest.fixture(scope="module", params=SETTINGS, ids=str)
def fitted(request: pytest.FixtureRequest) -> BaseRegressor:
    x, y = make_rows(80, 3)
    x = x * [1.0, 10.0, 0.1] + 3  # units of their own
    return small(max_iter=30, **request.param).fit(x, y)


def points(n: int = 7) -> np.ndarray:
    x, _ = make_rows(n, 3, seed=5)
    return x * [1.0, 10.0, 0.1] + 3


def test_metric_measures_small_steps(fitted: BaseRegressor) -> None:
    """The length of a step is its distance in the warped space, in length-scales."""
    x = points()
    found = fitted.local_metric(x)
    scaling, member = fitted.scaling_, fitted.members_[0]
    scales = member.model.spectrum.length_scales().detach()
    steps = 1e-5 * scaling.input_spread.numpy() * np.random.default_rng(0).normal(size=x.shape)

    def warped(inputs: np.ndarray) -> torch.Tensor:
        standardised = scaling.inputs(Measure(torch.from_numpy(inputs)))
        return member.warp(standardised)[-1].mean / scales

    expected = (warped(x + steps) - warped(x - steps)).square().sum(-1).numpy() / 4
    squared = np.einsum("nd,nde,ne->n", steps, found.metric, steps)
    np.testing.assert_allclose(squared, expected, rtol=1e-3)
    np.testing.assert_allclose(found.metric, found.metric.transpose(0, 2, 1))
    assert np.linalg.eigvalsh(found.metric * np.outer([1, 10, 0.1], [1, 10, 0.1])).min() > -1e-9
    assert found.names == ("x0", "x1", "x2")
    np.testing.assert_array_equal(found.inputs, x)


def test_members_are_mixed_by_weights() -> None:
    x, y = make_rows(60, 2)
    model = small(n_members=2, depth=1).fit(x, y)
    both = model.local_metric(x[:4]).metric
    alone = []
    for number, member in enumerate(model.members_):
        scales = member.model.spectrum.length_scales().detach()
        single = model._ensemble.alone(number)
        alone.append(local_metric(single, [scales], torch.from_numpy(x[:4])).numpy())
    np.testing.assert_allclose(both, np.einsum("m,mnde->nde", model.weights_, alone), rtol=1e-9)


def test_wild_values_have_no_slope() -> None:
    x, y = make_rows(80, 2)
    x[3, 0] = 1e12
    with pytest.warns(UserWarning, match="taken as these limits"):
        model = small(depth=0).fit(x, y)
    found = model.local_metric(x[:5])
    assert np.isinf(found.length_scale[3, 0])
    assert np.isfinite(found.length_scale[4]).all()
