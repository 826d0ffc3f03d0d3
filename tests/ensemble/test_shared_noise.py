from __future__ import annotations

from dataclasses import replace

import torch
from builders.models import SMALL, normal

from sswim.ensemble.stacking import (
    Stacking,
    equal_stacking,
    learn_shared_noise,
    mixture_log_density,
)
from sswim.members import OutOfFold
from sswim.rows import Measure
from sswim.warps.noise_field import log_noise_ratio

ARCHITECTURE = replace(SMALL, n_noise_frequencies=16)


def growing_noise(
    generator: torch.Generator, growth: float, n: int = 1500
) -> tuple[Measure, list[OutOfFold]]:
    """Make residuals that two kinds share, with noise of the log variance ``growth``·x."""
    x = normal(generator, n, 1)
    residual = (0.5 * growth * x).exp() * normal(generator, n, 1)
    nothing = torch.zeros_like(residual)
    kind = OutOfFold(residual, nothing + 1e-6, nothing + 1.0, nothing, -residual)
    return Measure(x), [kind, kind]


@torch.no_grad()
def learnt_ratio(
    inputs: Measure, rows: list[OutOfFold], stacking: Stacking, generator: torch.Generator
) -> torch.Tensor:
    field = learn_shared_noise(inputs, rows, None, stacking, ARCHITECTURE, inputs.mean, generator)
    assert not field.temper.any()  # the means do not change
    return log_noise_ratio(field.factors()[0], inputs)


def test_noise_that_grows_is_found(generator: torch.Generator) -> None:
    inputs, rows = growing_noise(generator, growth=1.2)
    stacking = equal_stacking(rows)
    ratio = learnt_ratio(inputs, rows, stacking, generator)
    inner = inputs.mean.abs() < 2
    assert (ratio - 1.2 * inputs.mean)[inner].abs().mean() < 0.15
    gain = mixture_log_density(rows, stacking, ratio) - mixture_log_density(rows, stacking)
    assert gain.mean() > 0.2
    noisy = [replace(kind, noise=kind.noise * ratio.exp()) for kind in rows]
    assert torch.allclose(
        mixture_log_density(rows, stacking, ratio), mixture_log_density(noisy, stacking)
    )


def test_constant_noise_stays_nearly_constant(generator: torch.Generator) -> None:
    inputs, rows = growing_noise(generator, growth=0.0)
    assert learnt_ratio(inputs, rows, equal_stacking(rows), generator).std() < 0.15


def test_a_row_of_weight_two_is_the_row_twice(generator: torch.Generator) -> None:
    inputs, rows = growing_noise(generator, growth=1.0, n=100)
    weight = torch.full((100,), 2.0, dtype=torch.float64)
    repeated = [kind.map(lambda tensor: torch.cat([tensor] * 2)) for kind in rows]
    twice = inputs.map(lambda tensor: torch.cat([tensor] * 2))
    ours, theirs = (
        learn_shared_noise(
            measure,
            each,
            counts,
            equal_stacking(each),
            ARCHITECTURE,
            inputs.mean,
            torch.Generator().manual_seed(0),
        )
        for measure, each, counts in ((inputs, rows, weight), (twice, repeated, None))
    )
    for name, tensor in theirs.state_dict().items():
        assert torch.allclose(ours.state_dict()[name], tensor, atol=1e-6), name
