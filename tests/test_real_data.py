"""What the method is for: on real data, warps predict better than the stationary model."""

from __future__ import annotations

import pytest
import torch
from real_data import split, standardised

from sswim import Architecture, condition, mnlp, rmse, start, train


@pytest.mark.parametrize(
    "repeat", [0, *(pytest.param(repeat, marks=pytest.mark.slow) for repeat in range(1, 10))]
)
def test_one_layer_beats_none_on_airfoil(repeat: int) -> None:
    rows, test = standardised(split("airfoil", repeat))
    errors, densities = [], []
    for depth in (0, 1):
        generator = torch.Generator().manual_seed(repeat)
        model = start(Architecture(depth=depth), rows.inputs.mean, 1, generator)
        train(model, rows, device="cpu")
        prediction = condition(model, rows).predict(test.inputs)
        errors.append(rmse(prediction, test.targets))
        densities.append(mnlp(prediction, test.targets))
    print(f"airfoil, repeat {repeat}: RMSE {errors}, MNLP {densities}")
    assert errors[1] < errors[0]
    assert densities[1] < densities[0]
