"""Means over repeats, and numbers of wins."""

from __future__ import annotations

import math

import pytest
from lab_builders.bench import WIN_ROWS, row
from sswim_lab.bench.summary import Wins, summarise
from sswim_lab.bench.table import markdown


def test_means_over_repeats_and_their_errors() -> None:
    summary = summarise([row("airfoil", "sswim", r, rmse=v) for r, v in enumerate((0.1, 0.2, 0.6))])
    error, _ = summary.cells
    mean = error.means["sswim"]
    assert mean.value == pytest.approx(0.3)
    assert mean.error == pytest.approx(math.sqrt(0.07 / 3))
    assert mean.std == pytest.approx(math.sqrt(0.07))
    assert mean.n == 3
    (only,) = summarise([row("airfoil", "sswim")]).cells[0].means.values()
    assert math.isnan(only.error)


def test_the_later_row_of_a_repeated_fit_counts() -> None:
    summary = summarise([row("airfoil", "sswim", rmse=0.1), row("airfoil", "sswim", rmse=0.3)])
    assert summary.cells[0].means["sswim"].value == 0.3
    assert summary.cells[0].means["sswim"].n == 1


def test_failures_are_shown_and_not_averaged() -> None:
    rows = [
        row("airfoil", "sswim", 0, rmse=0.2),
        row("airfoil", "sswim", 1, "RuntimeError: no luck"),
        row("airfoil", "lightgbm", 0, "MemoryError: too much"),
    ]
    summary = summarise(rows)
    error, _ = summary.cells
    assert error.means["sswim"].value == 0.2
    assert error.means["sswim"].n == 1
    assert error.failures == {"sswim": 1, "lightgbm": 1}
    assert error.best == {"sswim"}
    assert markdown(summary).splitlines()[2:5] == [
        "| airfoil | RMSE | **0.200** | failed | 0.235 (SSWIM2) |",
        "| airfoil | MNLP | **1.000** | failed | 0.105 (SSWIM2) |",
        "|  | repeats | 1 of 2 | 0 of 1 |  |",
    ]
    assert summarise([*rows, row("airfoil", "sswim", 1)]).cells[0].failures["sswim"] == 0
    assert summarise(rows[1:2]).cells[0].best == set()


def test_cells_are_on_the_scale_of_what_is_published() -> None:
    scores = {"rmse": 1.0, "mnlp": 2.0, "mse_original": 3.0, "mnlp_original": 4.0}
    summary = summarise([row(name, "sswim", 0, **scores) for name in ("creep", "airfoil")])
    shown = [(cell.set, cell.metric, cell.means["sswim"].value) for cell in summary.cells]
    assert shown == [
        ("airfoil", "RMSE", 1.0),
        ("airfoil", "MNLP", 2.0),
        ("creep", "MSE", 3.0),
        ("creep", "MNLP", 4.0),
    ]


def test_wins_are_counted() -> None:
    summary = summarise(WIN_ROWS)
    assert summary.methods == ("sswim", "lightgbm", "exact-gp", "sswim-other")
    assert summary.wins == (
        Wins("sswim", reached=4, n_cells=6, errors=2, densities=1, both=1, n_sets=2),
        Wins("sswim-other", reached=2, n_cells=2, errors=1, densities=1, both=1, n_sets=1),
    )
    assert [cell.best for cell in summary.cells[:4]] == [
        {"sswim-other"},
        {"sswim-other"},
        {"sswim"},
        {"sswim"},
    ]
