"""The published scores."""

from __future__ import annotations

import pytest
from sswim_lab.bench.runner import SETS
from sswim_lab.bench.summary import LABELS, best_published, published, published_score


@pytest.mark.parametrize(
    ("name", "metric", "error", "mnlp"),
    [
        ("airfoil", "RMSE", 0.235, 0.105),
        ("concrete", "RMSE", 0.301, 0.283),
        ("elevators", "RMSE", 0.274, 0.116),
        ("parkinsons", "RMSE", 0.755, 1.191),
        ("protein", "RMSE", 0.580, 0.882),
        ("supercond", "RMSE", 0.302, 0.282),
        ("bikeshare", "RMSE", 0.003, -2.77),
        ("abalone", "MSE", 4.50, 1.97),
        ("creep", "MSE", 279.86, 4.21),
        ("ailerons", "MSE", 2.80e-8, -7.45),
    ],
)
def test_the_best_published(name: str, metric: str, error: float, mnlp: float) -> None:
    for wanted, value in ((metric, error), ("MNLP", mnlp)):
        best = best_published(name, wanted)
        assert best is not None
        assert best.value == value


def test_published_scores_are_of_the_named_sets() -> None:
    assert {score.set for score in published()} >= set(SETS[:10])
    assert len({(s.set, s.method, s.metric) for s in published()}) == len(published()) == 196
    assert {score.method for score in published()} == set(LABELS.values())
    assert best_published("boston", "RMSE") is None


def test_a_published_score() -> None:
    score = published_score("song", LABELS["dkl"], "MNLP")
    assert score is not None
    assert (score.value, score.std) == (4.264, 4.477)
    assert published_score("song", "GP", "MNLP") is None
