from __future__ import annotations

import math

import pytest
import torch
from builders.models import normal
from torch import Tensor

from sswim.conformal.cross_quantiles import cross_quantiles, least_rows, sort_scores
from sswim.conformal.scoring import Spreads

LEVELS = (0.05, 0.1, 0.3, 0.5, 0.75, 0.9, 0.95)


def random_spreads(generator: torch.Generator, n: int, n_targets: int) -> Spreads:
    below, above = normal(generator, 2, n, n_targets).exp()
    return Spreads(normal(generator, n, n_targets), below, above)


def order_statistic(values: Tensor, probability: float) -> Tensor:
    rank = probability * (len(values) + 1)
    place = math.floor(rank + 1e-9) if probability < 0.5 else math.ceil(rank - 1e-9)
    return values.sort().values[place - 1]


@pytest.mark.parametrize("sizes", [(40,), (25, 19), (11, 20, 29), (19, 0)])
def test_quantiles_are_order_statistics_of_the_suggested_values(
    sizes: tuple[int, ...], generator: torch.Generator
) -> None:
    spreads = [random_spreads(generator, 5, 2) for _ in sizes]
    scores = [2 * normal(generator, size, 2) for size in sizes]
    folds = [sort_scores(each, torch.ones(len(each), dtype=torch.float64)) for each in scores]
    found = cross_quantiles(spreads, folds, LEVELS)
    for row in range(5):
        for target in range(2):
            parts = []
            for spread, score in zip(spreads, scores, strict=True):
                s = score[:, target]
                side = torch.where(s < 0, spread.below[row, target], spread.above[row, target])
                parts.append(spread.median[row, target] + s * side)
            expected = torch.stack([order_statistic(torch.cat(parts), p) for p in LEVELS])
            assert torch.allclose(found[row, target], expected, rtol=1e-12, atol=1e-12)


def test_a_row_of_weight_two_is_the_same_as_the_row_twice(generator: torch.Generator) -> None:
    spreads = [random_spreads(generator, 4, 1)]
    scores = normal(generator, 30, 1)
    weight = torch.ones(30, dtype=torch.float64)
    weight[:10] = 2
    twice = torch.cat((scores, scores[:10]))
    by_weight = cross_quantiles(spreads, [sort_scores(scores, weight)], LEVELS)
    by_copies = cross_quantiles(spreads, [sort_scores(twice, torch.ones(40).double())], LEVELS)
    assert torch.allclose(by_weight, by_copies, rtol=1e-12)


@pytest.mark.parametrize("probability", [0.05, 0.95, 0.1, 0.5])
def test_least_rows_are_just_enough(probability: float, generator: torch.Generator) -> None:
    n = round(least_rows(probability))
    spreads = [random_spreads(generator, 3, 1)]
    scores = normal(generator, n, 1)
    found = cross_quantiles(
        spreads, [sort_scores(scores, torch.ones(n, dtype=torch.float64))], [probability]
    )
    end = scores.amin() if probability < 0.5 else scores.amax()
    expected = spreads[0].values(end.expand(3, 1))
    assert torch.allclose(found[..., 0], expected, rtol=1e-12)


def test_split_intervals_cover_as_promised_under_a_wrong_model(generator: torch.Generator) -> None:
    """The model predicts nonsense, and noise has no variance: coverage holds all the same."""
    n_tables, n, coverage = 4000, 30, 0.8
    x = normal(generator, n + 1, n_tables)
    y = 3 * x + normal(generator, n + 1, n_tables) / normal(generator, n + 1, n_tables)  # Cauchy
    nonsense = Spreads(-x, x.exp(), 1 + x.square())  # each table is a target here
    folds = [sort_scores(nonsense.scores(y)[:n], torch.ones(n, dtype=torch.float64))]
    new = nonsense.map(lambda tensor: tensor[n:])
    ends = [0.5 * (1 - coverage), 0.5 * (1 + coverage)]
    low, high = cross_quantiles([new], folds, ends)[0].unbind(-1)
    share = ((low <= y[n]) & (y[n] <= high)).double().mean().item()
    error = math.sqrt(coverage * (1 - coverage) / n_tables)
    # Split conformal intervals cover between coverage and coverage + 2/(n + 1).
    assert coverage - 4 * error <= share <= coverage + 2 / (n + 1) + 4 * error
