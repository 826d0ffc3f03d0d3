"""Means over repeats, wins, comparisons with peers and published scores, and their tables."""

from __future__ import annotations

import math

import pytest
from lab_builders.bench import CRPS_ROWS, WIN_ROWS, row
from sswim_lab.bench.runner import SETS
from sswim_lab.bench.summary import (
    LABELS,
    Wins,
    best_published,
    published,
    published_score,
    summarise,
)
from sswim_lab.bench.table import markdown, rich_table


def test_means_over_repeats_and_their_errors() -> None:
    summary = summarise([row("airfoil", "sswim", r, rmse=v) for r, v in enumerate((0.1, 0.2, 0.6))])
    mean = summary.cells[0].means["sswim"]
    assert mean.value == pytest.approx(0.3)
    assert mean.n == 3
    assert mean.error == pytest.approx(math.sqrt(0.07 / 3))
    assert mean.std == pytest.approx(math.sqrt(0.07))
    repeated = summarise([row("airfoil", "sswim", rmse=v) for v in (0.1, 0.3)])
    only = repeated.cells[0].means["sswim"]  # the later row of a repeated fit
    assert (only.value, only.n) == (0.3, 1)
    assert math.isnan(only.error)


def test_failures_are_shown_and_not_averaged() -> None:
    rows = [
        row("airfoil", "sswim", 0, rmse=0.2),
        row("airfoil", "sswim", 1, "RuntimeError: no luck"),
        row("airfoil", "lightgbm", 0, "MemoryError: too much"),
    ]
    assert markdown(summarise(rows)).splitlines()[2:5] == [
        "| airfoil | RMSE | **0.200** | failed | 0.235 (SSWIM2) |",
        "| airfoil | MNLP | **1.000** | failed | 0.105 (SSWIM2) |",
        "|  | repeats | 1 of 2 | 0 of 1 |  |",
    ]
    assert summarise([*rows, row("airfoil", "sswim", 1)]).cells[0].failures["sswim"] == 0
    assert summarise(rows[1:2]).cells[0].best == set()


def test_wins_are_counted() -> None:
    summary = summarise(WIN_ROWS)
    assert summary.methods == ("sswim", "lightgbm", "exact-gp", "sswim-other")
    assert summary.wins == (
        Wins("sswim", reached=4, n_cells=6, errors=2, densities=1, both=1, n_sets=2),
        Wins("sswim-other", reached=2, n_cells=2, errors=1, densities=1, both=1, n_sets=1),
    )
    best = [set(cell.best) for cell in summary.cells[:4]]
    assert best == [{"sswim-other"}, {"sswim-other"}, {"sswim"}, {"sswim"}]


def test_markdown() -> None:
    more = [row("airfoil", "lightgbm", 1, rmse=0.24, mnlp=0.1)]
    lines = markdown(summarise([*WIN_ROWS, *more])).splitlines()
    assert lines[:10] == [
        "| set | metric | sswim | lightgbm | exact-gp | sswim-other | best published |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| airfoil | RMSE | 0.235 | 0.240 | – | **0.200** | 0.235 (SSWIM2) |",
        "| airfoil | MNLP | 0.200 | 0.100 | – | **0.050** | 0.105 (SSWIM2) |",
        "|  | repeats | 1 | 2 | – | 1 |  |",
        "| creep | MSE | **300.0** | – | – | – | 279.86 (SSWIM2) |",
        "| creep | MNLP | **4.000** | – | – | – | 4.21 (MLWGP3) |",
        "|  | repeats | 1 | – | – | – |  |",
        "| ailerons | MSE, 10⁻⁸ | **2.70** | 2.80 | 2.75 | – | 2.8 (MLWGP3) |",
        "| ailerons | MNLP | **−7.500** | −7.400 | −7.450 | – | −7.45 (MLWGP20) |",
    ]
    assert "**0.00042**" in markdown(summarise([row("bikeshare", "sswim", rmse=0.000421)]))
    unknown = summarise([row("boston", "sswim"), row("boston", "ridge", rmse=0.5)])
    assert "| boston | RMSE | 1.000 | **0.500** | – |" in markdown(unknown)
    assert unknown.wins[0].n_cells == 0


def test_sets_with_crps_have_a_line_more_and_a_comparison() -> None:
    lines = markdown(summarise(CRPS_ROWS)).splitlines()
    shown = [line for line in lines if "CRPS" in line and line.startswith("|")]
    assert shown == [
        "| airfoil | CRPS | **0.100** | 0.200 | – | – | – |",
        "| creep | CRPS | **3.000** | – | – | – | – |",
        "| ailerons | CRPS, 10⁻⁴ | 5.000 | **4.000** | – | – | – |",
        "| kin8nm | CRPS | **0.00400** | 0.00500 | – | failed | – |",
    ]
    assert lines[-1].endswith(
        "Compared with every other method here on 3 sets: RMSE best or within 1 % of the best on "
        "2, MNLP best on 1, CRPS best on 2, coverage of 90 % intervals between 87 and 93 % on 2; "
        "largest gap to the best RMSE 10.0 % (ailerons)."
    )
    assert rich_table(summarise(CRPS_ROWS)).row_count == len(shown) * 4
    assert rich_table(summarise(WIN_ROWS)).row_count == 3 * 3


def test_published_scores_are_of_the_named_sets() -> None:
    assert {score.set for score in published()} >= set(SETS[:10])
    assert len({(s.set, s.method, s.metric) for s in published()}) == len(published()) == 196
    assert {score.method for score in published()} == set(LABELS.values())
    assert best_published("boston", "RMSE") is None
    score = published_score("song", LABELS["dkl"], "MNLP")
    assert score is not None
    assert (score.value, score.std) == (4.264, 4.477)
    assert published_score("song", "GP", "MNLP") is None
