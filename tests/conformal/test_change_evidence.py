"""P-values of new scores, and the evidence that they have changed."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from sswim.conformal import STRATEGIES, TAIL, Strategy, find_change, log_evidence, p_values


def uniform(n: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def normal(n: int, seed: int, digits: int = 9) -> torch.Tensor:
    """Return normal scores, with ties if they have few digits."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, generator=generator, dtype=torch.float64).round(decimals=digits)


def ranks(
    reference: torch.Tensor, new: torch.Tensor, weight: torch.Tensor | None = None, seed: int = 3
) -> torch.Tensor:
    weight = torch.ones_like(reference) if weight is None else weight
    return p_values(reference, weight, new, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("n_reference", [0, 1, 30])
@pytest.mark.parametrize(("n", "digits"), [(0, 9), (1, 9), (8, 0), (37, 0), (64, 1), (50, 9)])
def test_p_values_are_ranks_among_all_scores_so_far(n_reference: int, n: int, digits: int) -> None:
    reference, new = normal(n_reference, 1, digits), normal(n, 2, digits)
    tau = uniform(n, 3)
    expected = []
    for t in range(n):
        before = torch.cat((reference, new[: t + 1]))
        below, equal = (before < new[t]).sum(), (before == new[t]).sum()
        expected.append((below + tau[t] * equal) / len(before))
    np.testing.assert_allclose(ranks(reference, new).numpy(), expected, rtol=1e-12)


def test_a_score_of_weight_two_counts_as_two() -> None:
    reference, new = normal(20, 1), normal(30, 2)
    weight = torch.arange(20).remainder(3).double()
    repeated = reference.repeat_interleave(weight.long())
    torch.testing.assert_close(ranks(reference, new, weight), ranks(repeated, new))


@pytest.mark.parametrize("digits", [0, 9])
def test_p_values_of_exchangeable_scores_are_independent_and_uniform(digits: int) -> None:
    # The reference is drawn again for each stream: the guarantee is on average over references.
    scores = [normal(9, 10_000 + seed, digits) for seed in range(600)]
    streams = np.stack([ranks(s[:5], s[5:], seed=seed) for seed, s in enumerate(scores)])
    for column in streams.T:
        assert stats.kstest(column, "uniform").pvalue > 1e-3
    correlation = np.corrcoef(np.hstack((streams, np.abs(2 * streams - 1))).T)
    assert np.abs(correlation - np.eye(8)).max() < 0.16


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
    capital, expected = np.zeros(len(STRATEGIES)), []
    for t in range(1, 41):
        weight = t**-TAIL - (t + 1) ** -TAIL
        bets = [math.exp(strategy.log_bet(u[t - 1 : t]).item()) for strategy in STRATEGIES]
        capital = (capital + weight) * bets
        expected.append(math.log(capital.mean() + (t + 1) ** -TAIL))
    np.testing.assert_allclose(log_evidence(u).numpy(), expected, rtol=1e-9, atol=1e-9)


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
    since, looks = find_change(u[: row + 1])
    assert looks == change
    assert abs(since - 300) < 30
    u = uniform(1000)
    u[::20] *= 1e-4  # rare outliers
    assert log_evidence(u)[-1] > math.log(100)
    assert find_change(u)[1] == "tails"


def test_extreme_scores_and_p_values_give_finite_evidence() -> None:
    new = torch.tensor([torch.inf, -torch.inf], dtype=torch.float64)
    high, low = ranks(normal(99, 0), new).tolist()
    assert 0 < low < 0.01
    assert 0.99 < high < 1
    for value in (0.0, 1e-300, 1.0):
        evidence = log_evidence(torch.full((20_000,), value, dtype=torch.float64))
        assert evidence.isfinite().all()
        assert evidence[-1] > 10_000  # far above what a number can hold without logarithms


def test_false_alarms_are_at_most_as_frequent_as_allowed() -> None:
    highest = torch.stack([log_evidence(uniform(500, seed)).max() for seed in range(400)])
    for alpha in (0.5, 0.2, 0.1):
        false_alarms = int((highest >= -math.log(alpha)).sum())
        assert false_alarms <= 400 * alpha + 3 * math.sqrt(400 * alpha * (1 - alpha))


def test_rare_outliers_are_noticed() -> None:
    u = uniform(1000)
    u[::20] *= 1e-4
    assert log_evidence(u)[-1] > math.log(100)
    assert find_change(u)[1] == "tails"
