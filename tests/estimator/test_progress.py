from __future__ import annotations

from collections.abc import Callable

import pytest
from builders.clock import Clock

from sswim.estimator import progress
from sswim.estimator.progress import in_words, prediction_progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "perf_counter", clock)
    return clock


def test_rows_are_told_of_now_and_then(clock: Clock) -> None:
    told: list[str] = []
    advance: Callable[[int], None] = prediction_progress(told.append, 1000)
    for _ in range(100):
        clock.now += 6
        advance(10)
    assert told[0] == "predicting: 5%, 30 s elapsed, 10 min left"
    assert told[-1] == "predicting: 95%, 10 min elapsed, 30 s left"
    assert len(told) < 20


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "0.0 s"),
        (2.345, "2.3 s"),
        (9.96, "10 s"),
        (45.0, "45 s"),
        (89.4, "89 s"),
        (90.0, "2 min"),
        (720.0, "12 min"),
        (89.4 * 60, "89 min"),
        (5400.0, "1 h 30 min"),
        (7200.0, "2 h"),
        (12_000.0, "3 h 20 min"),
        (360_000.0, "100 h"),
    ],
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert in_words(seconds) == words
