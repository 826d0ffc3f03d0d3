"""Comparisons of a method with its peers."""

from __future__ import annotations

from lab_builders.bench import CRPS_ROWS, WIN_ROWS
from sswim_lab.bench.summary import Comparison, SetScores, compare, describe_comparison, summarise


def test_sets_with_a_crps_of_the_method_and_of_a_peer_count() -> None:
    (wins,) = summarise(CRPS_ROWS).wins
    found = wins.comparison
    assert found is not None
    assert (found.near, found.mnlp, found.crps, found.covered, found.n_sets) == (2, 1, 2, 2, 3)
    assert round(found.gap, 6) == 0.1
    assert found.gap_set == "ailerons"


def test_results_without_crps_have_no_comparison() -> None:
    assert [wins.comparison for wins in summarise(WIN_ROWS).wins] == [None, None]


def test_a_method_that_is_always_best_has_no_gap() -> None:
    scores = {"a": 0.1, "b": 0.2, "other": 0.01}
    found = compare("a", ["b"], [SetScores("airfoil", scores, scores, scores, {"a": 0.9})])
    assert found == Comparison(1, 1, 1, 1, 1, 0.0, "")
    assert describe_comparison(found).endswith("largest gap to the best RMSE 0.0 %.")
