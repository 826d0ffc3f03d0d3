from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from builders.estimators import skewed_rows, small

from sswim.insight.effect import average_function

SETTINGS: dict[str, dict[str, Any]] = {
    "features": {"depth": 1},
    "output warp": {"depth": 0, "output_warp": "sinh-arcsinh"},
    "neighbours": {"depth": 1, "n_neighbors": 12},
    "mixture": {"depth": 0, "n_members": 3},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_moments_are_those_of_drawn_functions(name: str) -> None:
    """The average of drawn functions over rows, by Monte Carlo."""
    model = small(max_iter=30, **SETTINGS[name]).fit(*skewed_rows(80))
    rows = skewed_rows(15, seed=4)[0]
    sets = []
    for value in (-1.0, 3.0):
        changed = rows.copy()
        changed[:, 1] = value
        sets.append(torch.from_numpy(changed))
    mean, variance = average_function(model._ensemble, sets)
    draws = model.sample_paths(1500, random_state=1)(torch.stack(sets)).mean(-1)  # (n, G)
    deviation = variance[:, 0].sqrt()
    error = 4 * deviation / len(draws) ** 0.5
    assert ((mean[:, 0] - draws.mean(0)).abs() < error).all()
    torch.testing.assert_close(draws.std(0), deviation, rtol=0.1, atol=1e-3)


def test_variance_is_not_the_mean_of_variances() -> None:
    model = small(max_iter=30, depth=0).fit(*skewed_rows(80))
    points = torch.from_numpy(skewed_rows(30, seed=4)[0])
    _, [[variance]] = average_function(model._ensemble, [points])
    posterior = model.posterior(points)
    independent = posterior.variance.mean() / len(points)
    assert independent < variance < posterior.variance.mean()
    ones = np.full(30, 1 / 30)
    np.testing.assert_allclose(variance, ones @ posterior.covariance.numpy() @ ones, rtol=1e-9)
