"""Conformal quantiles, and the ensembles that have not seen a fold."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from builders.estimators import make_rows
from builders.models import normal
from torch import Tensor

from sswim import Recipe
from sswim.base.validation import UserError
from sswim.conformal import (
    Spreads,
    conformal_predictor,
    cross_quantiles,
    fold_ensembles,
    least_rows,
)
from sswim.ensemble.ensemble import Ensemble
from sswim.estimator import BaseRegressor, make_estimator
from sswim.members import condition

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
    weights = [torch.ones(size, dtype=torch.float64) for size in sizes]
    quantiles = cross_quantiles(spreads, scores, weights, LEVELS)
    for row in range(5):
        for target in range(2):
            parts = []
            for spread, score in zip(spreads, scores, strict=True):
                s = score[:, target]
                side = torch.where(s < 0, spread.below[row, target], spread.above[row, target])
                parts.append(spread.median[row, target] + s * side)
            expected = torch.stack([order_statistic(torch.cat(parts), p) for p in LEVELS])
            assert torch.allclose(quantiles[row, target], expected, rtol=1e-12, atol=1e-12)


def test_a_row_of_weight_two_is_the_same_as_the_row_twice(generator: torch.Generator) -> None:
    spreads = [random_spreads(generator, 4, 1)]
    scores = normal(generator, 30, 1)
    weight = torch.ones(30, dtype=torch.float64)
    weight[:10] = 2
    twice = torch.cat((scores, scores[:10]))
    by_weight = cross_quantiles(spreads, [scores], [weight], LEVELS)
    by_copies = cross_quantiles(spreads, [twice], [torch.ones(40).double()], LEVELS)
    assert torch.allclose(by_weight, by_copies, rtol=1e-12)


@pytest.mark.parametrize("probability", [0.05, 0.95, 0.1, 0.5])
def test_least_rows_are_just_enough(probability: float, generator: torch.Generator) -> None:
    n = round(least_rows(probability))
    spreads = [random_spreads(generator, 3, 1)]
    scores = normal(generator, n, 1)
    quantile = cross_quantiles(spreads, [scores], [torch.ones(n).double()], [probability])
    end = scores.amin() if probability < 0.5 else scores.amax()
    expected = spreads[0].values(end.expand(3, 1))
    assert torch.allclose(quantile[..., 0], expected, rtol=1e-12)


def test_split_intervals_cover_as_promised_under_a_wrong_model(generator: torch.Generator) -> None:
    """The model predicts nonsense, and noise has no variance: coverage holds all the same."""
    n_tables, n, coverage = 4000, 30, 0.8
    x = normal(generator, n + 1, n_tables)
    y = 3 * x + normal(generator, n + 1, n_tables) / normal(generator, n + 1, n_tables)  # Cauchy
    nonsense = Spreads(-x, x.exp(), 1 + x.square())  # each table is a target here
    scores = nonsense.scores(y)[:n]
    new = nonsense.map(lambda tensor: tensor[n:])
    ends = [0.5 * (1 - coverage), 0.5 * (1 + coverage)]
    low, high = cross_quantiles([new], [scores], [torch.ones(n).double()], ends)[0].unbind(-1)
    share = ((low <= y[n]) & (y[n] <= high)).double().mean().item()
    error = math.sqrt(coverage * (1 - coverage) / n_tables)
    # Split conformal intervals cover between coverage and coverage + 2/(n + 1).
    assert coverage - 4 * error <= share <= coverage + 2 / (n + 1) + 4 * error


@cache
def fitted() -> BaseRegressor:
    recipe = Recipe(kinds=("features-1", "neighbours-0-rough"), pruning=False)
    x, y = make_rows(90)
    return make_estimator(max_iter=3, recipe=recipe, random_state=0, device="cpu").fit(x, y)


def ensemble() -> Any:
    return fitted()._ensemble


def test_members_of_a_fold_left_it_out_and_are_conditioned_on_the_others() -> None:
    whole = ensemble()
    rows, folds = whole.rows, whole.folds
    fold_of = folds.fold_of(rows.inputs.mean)
    assert fold_of.unique().tolist() == [-1, 0, 1, 2]
    shares = [kind.weight for kind in fitted().kinds_]
    for number, weights in enumerate(folds.weights.tolist()):
        expected = [0.0] * 6
        expected[number], expected[3 + number] = shares
        assert weights == pytest.approx(expected)
    at = replace(rows.inputs, mean=rows.inputs.mean[:7] + 0.1)
    for number, outside in enumerate(fold_ensembles(whole)):
        known = rows.take((fold_of != number).nonzero()[:, 0])
        models = [fitted().members_[member].model for member in (number, 3 + number)]
        for member, model in zip(outside.members, models, strict=True):
            dense = condition(model, known).predict(at)
            for mine, theirs in zip(member.predict(at).tensors(), dense.tensors(), strict=True):
                assert torch.allclose(mine, theirs, rtol=1e-9)


def test_held_out_rows_are_scored_in_every_fold() -> None:
    held_out = conformal_predictor(ensemble()).held_out
    assert held_out.fold.bincount().tolist() == [22, 22, 22]
    assert bool(held_out.scores.isfinite().all())
    assert bool(((held_out.pit >= 0) & (held_out.pit <= 1)).all())
    for lost in (replace(ensemble(), folds=None), replace(ensemble(), rows=None)):
        with pytest.raises(UserError, match="call calibrate"):
            fold_ensembles(lost)


def test_scores_do_not_depend_on_the_targets_of_their_own_fold() -> None:
    """A row's score is as good as that of a new row: its ensemble knows nothing of its fold."""
    whole = ensemble()
    folds, rows = whole.folds, whole.rows
    fold_of = folds.fold_of(rows.inputs.mean)
    inside = fold_of == 1
    targets = torch.where(inside[:, None], rows.targets + 7.0, rows.targets)
    others = replace(rows, targets=targets)
    members = tuple(condition(member.model, others) for member in fitted().members_)
    changed = Ensemble(whole.scaling, members, whole.weights, others, folds)
    at = replace(rows.inputs, mean=rows.inputs.mean[:7] + 0.1)
    before, after = (fold_ensembles(each)[1].predict(at).mean for each in (whole, changed))
    assert torch.allclose(before, after, rtol=1e-9)
