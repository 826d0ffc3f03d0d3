"""Tests of the scripts that measure relevance and effects: what they draw and print."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import effects
import numpy as np
import pytest
import relevance
from relevance import FUNCTIONS, N_RELEVANT, Case, make_table


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("correlated", [False, True])
def test_ten_inputs_matter(function: str, correlated: bool) -> None:
    table = make_table(Case(function, correlated, 300, 0))
    assert table.train_x.shape == (300, 30)
    assert (table.shares > 0).sum() == table.relevant.sum() == N_RELEVANT
    np.testing.assert_array_equal(table.shares > 0, table.relevant)
    np.testing.assert_allclose(table.shares.sum(), 1)
    between = np.corrcoef(table.train_x.T)
    assert (np.abs(np.diagonal(between, 1)).mean() > 0.5) == correlated


def test_scores_of_rankings() -> None:
    table = make_table(Case("additive", False, 300, 0))
    best = relevance.score(table.shares, table)
    np.testing.assert_allclose(list(best.values()), [0, 1, 0, 0], atol=1e-12)
    worst = relevance.score(np.where(table.relevant, 0.0, 1.0), table)
    np.testing.assert_allclose([worst[key] for key in ("error", "irrelevant", "distance")], 1.0)


def found_lines() -> list[dict[str, Any]]:
    table = make_table(Case("additive", False, 300, 0))
    ways = [*relevance.WAYS, "permutation, LightGBM"]
    values = {way: relevance._found(table.shares, table, 1.0) for way in ways}
    return [
        {"function": "additive", "n_rows": 500, "rmse": 0.5, "tree_rmse": 0.6, "ways": values}
        | {"relevant": np.flatnonzero(table.relevant).tolist()}
    ]


def test_relevance_is_printed_and_drawn(tmp_path: Path) -> None:
    printed = relevance.table_of(found_lines())
    assert "| relevance | 0.000 | – | – | 0.000 | 1.000 | 0.0% | 0.00 | 1.0 |" in printed
    assert "1 tables of 500 rows" in printed
    relevance.draw(found_lines(), tmp_path / "ways.png")
    assert (tmp_path / "ways.png").stat().st_size > 1000


def test_averages_of_an_additive_function() -> None:
    rows = np.random.default_rng(0).uniform(size=(20, effects.N_INPUTS))
    found = effects.averages(lambda x: 2 * x[:, 3] + x[:, 4], rows, 3)
    np.testing.assert_allclose(found, 2 * effects.GRID + rows[:, 4].mean())


def test_effects_are_printed_and_drawn(tmp_path: Path) -> None:
    truth = effects.GRID.tolist()
    curve = {"truth": truth, "mean": truth, "lower": truth, "trees": [each + 0.9 for each in truth]}
    inputs = [curve | {"upper": truth, "deviation": truth}] * effects.N_INPUTS
    line = {"rows": 300, "seed": 0, "seconds": 20.0, "inputs": inputs}
    assert "| 300 | 1 | 0.0% | 100.0% | 0.0% | 100.0% | 100% | 100% | 2.0 |" in effects.table_of(
        [line]
    )
    effects.draw([line], tmp_path / "effects.png")
    assert (tmp_path / "effects.png").stat().st_size > 1000
