"""Our scores beside the published ones."""

from __future__ import annotations

import math

import pytest
from lab_builders.bench import SCORE_ROWS, SCORE_SETS, row, score_table
from sswim_lab.paper.score_table import make_table, method_label


def test_scores_are_means_beside_what_is_published() -> None:
    score = score_table().scores["airfoil", "sswim1-paper", "RMSE"]
    assert score.mean is not None
    assert score.published is not None
    assert score.mean.value == pytest.approx(0.22)
    assert score.mean.std == pytest.approx(0.04 / math.sqrt(2))
    assert (score.published.value, score.published.std) == (0.238, 0.026)
    assert score.z == pytest.approx((0.22 - 0.238) / 0.026)
    assert score.failures == ("RuntimeError: no luck",)
    assert score.repeats == "2 of 3"
    assert (score.ours(), score.theirs()) == (["0.220", "0.028"], ["0.238", "0.026"])


def test_unknown_scores_are_shown_by_a_word() -> None:
    scores = score_table().scores
    assert scores["airfoil", "dkl", "RMSE"].ours() == ["failed"]
    assert scores["airfoil", "dkl", "RMSE"].repeats == "0 of 1"
    assert scores["airfoil", "svgp", "MNLP"].ours() == ["left out"]
    assert scores["ct_slice", "dkl", "RMSE"].ours() == ["–"]
    assert scores["ct_slice", "dkl", "RMSE"].theirs() == ["0.052", "0.008"]
    assert scores["ct_slice", "dkl", "RMSE"].z is None
    assert scores["ct_slice", "dkl", "RMSE"].repeats == "–"
    assert scores["airfoil", "sswim", "RMSE"].theirs() == ["–"]
    assert scores["airfoil", "sswim", "RMSE"].ours() == ["0.210"]  # of one repeat


def test_a_zero_standard_deviation_gives_no_z() -> None:
    table = make_table("", [row("bikeshare", "rffs", rmse=0.004)], ["bikeshare"], ["rffs"])
    assert table.scores["bikeshare", "rffs", "RMSE"].z is None


def test_the_best_of_ours() -> None:
    table = score_table()
    assert table.best("airfoil", "RMSE") == {"sswim"}
    assert table.best("ct_slice", "RMSE") == set()


def test_small_numbers_have_digits() -> None:
    rows = [row("ailerons", "gp", r, mse_original=v) for r, v in enumerate((2.9e-8, 3.1e-8))]
    scores = make_table(
        "", [*SCORE_ROWS, *rows], (*SCORE_SETS, "ailerons"), ["sswim1-paper", "gp"]
    ).scores
    assert scores["bikeshare", "sswim1-paper", "RMSE"].ours() == ["0.00042"]
    assert scores["ailerons", "gp", "MSE"].ours() == ["3.00", "0.14"]
    assert scores["ailerons", "gp", "MSE"].theirs() == ["2.95", "0.16"]
    assert scores["ailerons", "gp", "MNLP"].theirs() == ["−7.30", "0.01"]


def test_labels_are_those_of_the_paper() -> None:
    assert method_label("sswim1-paper") == method_label("sswim1-paper-quick") == "SSWIM1"
    assert method_label("sswim") == "our default"
    assert method_label("lightgbm") == "lightgbm"
