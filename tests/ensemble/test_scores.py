"""The CRPS against closed forms and integrals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from builders.crps import Array, integrated_crps
from scipy import stats

from sswim.ensemble.scores import mixture_crps

MIXTURES: dict[str, list[tuple[float, Any]]] = {
    "gaussian": [(1.0, stats.norm(1, 2))],
    "heavy tails": [(1.0, stats.t(3))],
    "wide, narrow and distant": [
        (0.5, stats.norm(0, 1)),
        (0.3, stats.norm(0.3, 0.02)),
        (0.2, stats.norm(4, 0.5)),
    ],
}
"""Weights and densities of the components."""


@pytest.mark.parametrize("name", MIXTURES)
def test_the_crps_of_a_mixture_is_its_integral(name: str) -> None:
    densities = MIXTURES[name]
    y = np.array([-30.0, -3, -2, 0, 0.3, 1, 5, 8])

    def quantiles(level: float) -> torch.Tensor:
        values = [density.ppf(level) for _, density in densities]
        return torch.tensor(values, dtype=torch.float64).expand(len(y), -1)

    def cdf(values: Array) -> Array:
        return np.asarray(sum(weight * density.cdf(values) for weight, density in densities))

    weights = torch.tensor([weight for weight, _ in densities], dtype=torch.float64)
    ours = mixture_crps(quantiles, weights, torch.tensor(y)[:, None]).numpy()
    assert ours == pytest.approx(integrated_crps(cdf, y, -300, 300), rel=1e-3)
