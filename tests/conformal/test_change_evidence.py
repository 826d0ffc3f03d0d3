from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sswim.conformal.change_evidence import STRATEGIES, TAIL, Strategy, find_change, log_evidence


def uniform(n: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def changed(size: float, scale: float, *, at: int, n: int) -> torch.Tensor:
    """Return p-values of normal scores with another mean and spread from some row on."""
    z = torch.special.ndtri(uniform(n))
    z[at:] = size + scale * z[at:]
    return torch.special.ndtr(z)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_bets_are_fair(strategy: Strategy) -> None:
    # ∫ f(u) du = ∫ f(Φ(z)) φ(z) dz, but for p-values that are not told from zero or one
    z = torch.linspace(-7.9, 7.9, 4001, dtype=torch.float64)
    density = (-0.5 * z.square()).exp() / math.sqrt(2 * math.pi)
    total = torch.trapezoid(strategy.log_bet(torch.special.ndtr(z)).exp() * density, z).item()
    assert 0.999 < total < 1 + 1e-5


def test_the_evidence_follows_its_recursion() -> None:
    u = uniform(40)
    capital, found = np.zeros(len(STRATEGIES)), []
    for t, each in enumerate(u, start=1):
        weight = t**-TAIL - (t + 1) ** -TAIL
        bets = [math.exp(strategy.log_bet(each[None]).item()) for strategy in STRATEGIES]
        capital = (capital + weight) * bets
        found.append(math.log(capital.mean() + (t + 1) ** -TAIL))
    np.testing.assert_allclose(log_evidence(u).numpy(), found, rtol=1e-9, atol=1e-9)


def test_false_alarms_are_at_most_as_frequent_as_allowed() -> None:
    highest = torch.stack([log_evidence(uniform(500, seed)).max() for seed in range(400)])
    for alpha in (0.5, 0.2, 0.1):
        false_alarms = int((highest >= -math.log(alpha)).sum())
        assert false_alarms <= 400 * alpha + 3 * math.sqrt(400 * alpha * (1 - alpha))


@pytest.mark.parametrize(
    ("size", "scale", "change", "delay"),
    [
        (1.0, 1.0, "higher", 60),
        (-1.0, 1.0, "lower", 60),
        (0.0, 2.0, "wider", 60),
        (0.0, 0.5, "narrower", 120),
    ],
)
def test_a_change_is_noticed_soon_and_dated(
    size: float, scale: float, change: str, delay: int
) -> None:
    u = changed(size, scale, at=300, n=600)
    row = int((log_evidence(u) >= math.log(100)).nonzero()[0])
    assert 300 <= row < 300 + delay
    found = find_change(u[: row + 1])
    assert found.change == change
    assert abs(found.row - 300) < 30


def test_rare_outliers_are_noticed() -> None:
    u = uniform(1000)
    u[::20] *= 1e-4
    assert log_evidence(u)[-1] > math.log(100)
    assert find_change(u).change == "tails"


@pytest.mark.parametrize("value", [0.0, 1e-300, 1.0])
def test_extreme_p_values_give_finite_evidence(value: float) -> None:
    evidence = log_evidence(torch.full((20_000,), value, dtype=torch.float64))
    assert evidence.isfinite().all()
    assert evidence[-1] > 10_000  # far above what a number can hold without logarithms
