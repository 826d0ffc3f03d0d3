from __future__ import annotations

import io
import math
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from builders.clock import Clock

from sswim.estimator import progress
from sswim.estimator.progress import ProgressTracker, in_words, prediction_progress, show_progress
from sswim.members.checkpoints import MemberCallback, Step

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "perf_counter", clock)
    return clock


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "0.0 s"),
        (2.345, "2.3 s"),
        (9.96, "10 s"),
        (89.4, "89 s"),
        (90.0, "2 min"),
        (89.4 * 60, "89 min"),
        (5400.0, "1 h 30 min"),
        (7200.0, "2 h"),
        (360_000.0, "100 h"),
    ],
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


def test_lines_of_a_prediction_come_now_and_then(clock: Clock) -> None:
    told: list[str] = []
    advance = prediction_progress(told.append, 1000)
    for _ in range(100):
        clock.now += 6
        advance(10)
    assert told[0] == "predicting: 5%, 30 s elapsed, 10 min left"
    assert told[-1] == "predicting: 95%, 10 min elapsed, 30 s left"
    assert len(told) < 20


def shown(n_members: int, n_steps: int) -> AbstractContextManager[MemberCallback]:
    return show_progress(True, n_members, [n_steps])


def step(index: int, seconds: float = 1.0, value: float = 1.0) -> Step:
    return Step(index, value, 0.1, seconds)


def advance(show: Any, clock: Clock, member: int, steps: Iterable[int], seconds: float) -> None:
    """Report steps of a member, each of which takes so many seconds."""
    for index in steps:
        clock.now += seconds
        show(member, step(index, seconds))


def test_lines_of_a_training_that_takes_long(clock: Clock, capsys: Capture) -> None:
    with shown(1, 150) as show:
        clock.now += 30  # what comes before the first step
        for index in range(151):
            clock.now += 21
            show(0, step(index, 21.0 * (index + 1), 2 - index / 100))
            if index == 0:
                told = "training: 150 steps of 1 member; the first took 21 s\n"
                assert capsys.readouterr().err == told
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == [
        "training: 2/150 steps, objective 1.9800, 2 min elapsed, about 52 min left",
        "training: 10/150 steps, objective 1.9000, 4 min elapsed, about 49 min left",
    ]
    assert len(lines) == 1 + 18 + 1
    assert lines[-1] == "training: 150/150 steps, objective 0.5000, took 53 min"


def test_kinds_that_have_not_begun_make_the_estimate_a_bound(clock: Clock) -> None:
    tracker = ProgressTracker(2, [50, 50], kinds=[0, 1])
    advance(tracker.add, clock, 0, range(30), 1.0)
    assert not tracker.founded
    assert tracker.left == "more than 21 s left"
    advance(tracker.add, clock, 0, range(30, 51), 1.0)
    assert tracker.left == ""
    advance(tracker.add, clock, 1, range(11), 0.1)
    assert tracker.left == "about 4.0 s left"


def test_members_together_take_the_time_of_one(clock: Clock, capsys: Capture) -> None:
    with shown(3, 10) as show:
        for index in range(3):
            clock.now += 60
            for member in range(3):
                show(member, step(index, 60.0 * (index + 1), float(member)))
        assert capsys.readouterr().err.splitlines() == [
            "training: 10 steps of 3 members; the first took 60 s",
            "training: 2/30 steps, objective 1.0000, 2 min elapsed",
            "training: 4/30 steps, objective 1.0000, 3 min elapsed, about 9 min left",
        ]


def test_members_of_different_speed_side_by_side_share_the_time(clock: Clock) -> None:
    """Two cores, one with steps of 1 s and one with steps of 0.1 s, 20 s and 2 s in all."""
    tracker = ProgressTracker(2, [20, 20], kinds=[0, 1])
    for tick in range(21):
        advance(tracker.add, clock, 1, [tick], 0.1)
        if tick % 10 == 0:
            tracker.add(0, step(tick // 10))
    assert not tracker.founded  # two steps of the slow member are too few
    for index in range(3, 21):
        advance(tracker.add, clock, 0, [index], 1.0)
        if tracker.founded:
            assert tracker.seconds_left == pytest.approx(20 - index, rel=0.15)


def test_a_deadline_bounds_the_estimates_and_ends_the_training(clock: Clock) -> None:
    deadline = clock.now + 600
    tracker = ProgressTracker(1, [150], deadline)
    advance(tracker.add, clock, 0, [0], 20.0)
    assert tracker.left == "at most 10 min left"
    advance(tracker.add, clock, 0, range(1, 20), 20.0)
    assert tracker.left == "about 3 min left"
    with show_progress(False, 1, [150], lambda member, step: step.index == 7, deadline) as call:
        assert [call(0, step(index)) for index in (6, 7)] == [False, True]
        clock.now = math.nextafter(deadline, math.inf)
        assert call(0, step(6))


def test_a_resumed_training_goes_on_with_its_estimate(clock: Clock, capsys: Capture) -> None:
    with shown(1, 150) as show:
        advance(show, clock, 0, range(60, 151), 21.0)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "training: resumed at 60/150 steps"
    assert lines[2] == "training: 70/150 steps, objective 1.0000, 4 min elapsed, about 28 min left"
    assert lines[-1] == "training: 150/150 steps, objective 1.0000, took 32 min"


def test_a_training_without_steps_has_a_line_and_a_failure_none(capsys: Capture) -> None:
    with shown(2, 0):
        pass
    assert capsys.readouterr().err == "training: 0/0 steps, took 0.0 s\n"
    with shown(1, 0) as show:
        show(0, step(0, 0.0))
    assert len(capsys.readouterr().err.splitlines()) == 2
    with pytest.raises(RuntimeError), shown(1, 10):
        raise RuntimeError
    assert capsys.readouterr().err == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_shows_the_estimate_and_ends_full(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    for name, value in {"TERM": "xterm", "COLUMNS": "120"}.items():
        monkeypatch.setenv(name, value)
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    with shown(1, 150) as show:
        for index in range(3):
            clock.now += 21
            show(0, step(index, 21.0 * (index + 1), 1.25))
        time.sleep(0.3)  # until it is drawn
        last = terminal.getvalue().splitlines()[-1]
    for words in ("training", "2/150", "objective 1.2500", "about 52 min left"):
        assert words in last
    for words in ("150/150", "took 63 s"):
        assert words in terminal.getvalue()


@pytest.mark.parametrize("variable", ["FORCE_COLOR", "TTY_COMPATIBLE"])
def test_a_log_has_no_bar_whatever_colours_are_asked_for(
    variable: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv(variable, "1")
    with shown(1, 10) as show:
        show(0, step(0))
    assert "\x1b" not in capsys.readouterr().err
