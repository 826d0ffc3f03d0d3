from __future__ import annotations

import pytest
import torch
from builders.models import normal
from builders.surrogates import uniform
from torch import Tensor

from sswim.members.exact_members import Observed
from sswim.surrogate.fitting import SMALLEST_COMPARED, choose_map
from sswim.surrogate.target_map import LogarithmicMap
from sswim.warps.output_warp import OutputMap

N_STEPS = 60


def rows_of(generator: torch.Generator, n_rows: int = 30) -> tuple[Tensor, Tensor]:
    """Return inputs, and a smooth function of them."""
    inputs = uniform(generator, n_rows, 2) - 0.5
    return inputs, (4 * inputs[:, 0]).sin() + (3 * inputs[:, 1]).cos()


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("known", [False, True])
def test_values_over_orders_of_magnitude_get_a_logarithmic_map(
    sign: int, known: bool, generator: torch.Generator
) -> None:
    inputs, smooth = rows_of(generator)
    targets = sign * (4 * smooth).exp()
    variance = 1e-8 * targets.square() if known else None
    found = choose_map(Observed(inputs, targets, variance), N_STEPS).warp
    assert isinstance(found, LogarithmicMap)
    assert found.direction == -sign  # the end near zero is stretched
    assert found.strength >= 100


def test_a_smooth_function_keeps_its_values(generator: torch.Generator) -> None:
    found = choose_map(Observed(*rows_of(generator), None), N_STEPS)
    assert type(found.warp) is OutputMap


def test_noise_keeps_its_values(generator: torch.Generator) -> None:
    rows = Observed(uniform(generator, 40, 2) - 0.5, normal(generator, 40), None)
    assert type(choose_map(rows, N_STEPS).warp) is OutputMap


def test_a_far_value_is_squeezed(generator: torch.Generator) -> None:
    inputs, targets = uniform(generator, 40, 2) - 0.5, normal(generator, 40)
    targets[3] = -100
    found = choose_map(Observed(inputs, targets, None), N_STEPS)
    assert isinstance(found.warp, LogarithmicMap)
    assert found.warp.direction == 1
    assert torch.allclose(found.inverse(found.forward(targets)[0]), targets)


def test_few_or_constant_rows_are_only_standardised(generator: torch.Generator) -> None:
    inputs, smooth = rows_of(generator, SMALLEST_COMPARED - 1)
    few = choose_map(Observed(inputs, (4 * smooth).exp(), None), N_STEPS)
    assert type(few.warp) is OutputMap
    inputs, smooth = rows_of(generator)
    equal = torch.full_like(smooth, 7.3)
    for rounding in (0.0, 1e-15):  # rounding is no signal
        constant = choose_map(Observed(inputs, equal + rounding * smooth, None), N_STEPS)
        assert type(constant.warp) is OutputMap
