from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from sswim.conformal.monitoring import count_earlier, p_values


def draw(n: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def ones(values: torch.Tensor) -> torch.Tensor:
    return torch.ones_like(values)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 8, 37, 64])
@pytest.mark.parametrize("digits", [0, 9])
def test_earlier_values_are_counted_as_by_brute_force(n: int, digits: int) -> None:
    values = draw(n).round(decimals=digits)
    below, equal = count_earlier(values)
    assert below.tolist() == [int((values[:i] < values[i]).sum()) for i in range(n)]
    assert equal.tolist() == [int((values[:i] == values[i]).sum()) for i in range(n)]


@pytest.mark.parametrize("n_reference", [0, 1, 30])
def test_p_values_are_ranks_among_all_scores_so_far(n_reference: int) -> None:
    reference, new = draw(n_reference, 1).round(decimals=1), draw(50, 2).round(decimals=1)
    found = p_values(reference, ones(reference), new, torch.Generator().manual_seed(3))
    tau = torch.rand(50, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    for t in range(50):
        bag = torch.cat((reference, new[: t + 1]))
        below, equal = (bag < new[t]).sum(), (bag == new[t]).sum()
        assert found[t].item() == pytest.approx(((below + tau[t] * equal) / len(bag)).item())


def test_a_score_of_weight_two_counts_as_two() -> None:
    reference, new = draw(20, 1), draw(30, 2)
    weight = torch.arange(20).remainder(3).double()
    repeated = reference.repeat_interleave(weight.long())
    found = p_values(reference, weight, new, torch.Generator().manual_seed(3))
    expected = p_values(repeated, ones(repeated), new, torch.Generator().manual_seed(3))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("digits", [0, 9])
def test_p_values_of_exchangeable_scores_are_independent_and_uniform(digits: int) -> None:
    # The reference is drawn again for each stream: the guarantee is on average over references.
    streams = np.stack(
        [
            p_values(scores[:5], ones(scores[:5]), scores[5:], torch.Generator().manual_seed(seed))
            for seed in range(600)
            for scores in [draw(9, 10_000 + seed).round(decimals=digits)]
        ]
    )
    for column in streams.T:
        assert stats.kstest(column, "uniform").pvalue > 1e-3
    correlation = np.corrcoef(np.hstack((streams, np.abs(2 * streams - 1))).T)
    assert np.abs(correlation - np.eye(8)).max() < 0.16


def test_infinite_scores_have_extreme_p_values(generator: torch.Generator) -> None:
    reference = draw(99)
    new = torch.tensor([torch.inf, -torch.inf], dtype=torch.float64)
    high, low = p_values(reference, ones(reference), new, generator).tolist()
    assert 0.99 < high < 1
    assert 0 < low < 0.01


def test_many_rows_are_ranked_at_once(generator: torch.Generator) -> None:
    new = draw(20_000)
    u = p_values(new[:10], ones(new[:10]), new, generator)
    assert u[-1].item() == pytest.approx((new <= new[-1]).double().mean().item(), abs=2e-3)
