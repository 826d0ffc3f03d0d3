from __future__ import annotations

import io
import time

import pytest
from builders.clock import Clock

from sswim.estimator import progress
from sswim.estimator import progress as training_progress_module
from sswim.estimator.progress import ProgressTracker, training_progress
from sswim.members.checkpoints import Step


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (progress, training_progress_module):
        monkeypatch.setattr(module, "perf_counter", clock)
    return clock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def use_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Replace the standard error stream; a fixture cannot, because pytest replaces it later."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    for name, value in {"TERM": "xterm", "COLUMNS": "120"}.items():
        monkeypatch.setenv(name, value)
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return terminal


def step(index: int, seconds: float, value: float = 1.0) -> Step:
    return Step(index, value, 0.1, seconds)


def test_lines_of_a_training_that_takes_long(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with training_progress(1, 150) as show:
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


def test_a_short_training_has_two_lines(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with training_progress(1, 100) as show:
        for index in range(101):
            clock.now += 0.09
            show(0, step(index, 0.09 * (index + 1)))
    assert capsys.readouterr().err.splitlines() == [
        "training: 100 steps of 1 member; the first took 0.1 s",
        "training: 100/100 steps, objective 1.0000, took 9.1 s",
    ]


def test_a_slow_first_step_makes_no_estimate(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    tracker = ProgressTracker(4, [100] * 4)
    clock.now += 1.4
    tracker.add(0, step(0, 1.4))
    assert tracker.left == ""
    for member in range(4):
        for index in range(member == 0, 101):
            clock.now += 0.01
            tracker.add(member, step(index, 0.01))
            if tracker.left:
                left = 0.01 * (4 * 100 - tracker.n_done)
                assert tracker.seconds_left == pytest.approx(left, rel=0.02, abs=0.02)
    assert capsys.readouterr().err == ""


def test_a_slow_first_step_is_not_multiplied(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first step of 400 takes a second, and the others a second in all."""
    with training_progress(4, 100) as show:
        for member in range(4):
            for index in range(101):
                clock.now += 0.0025 if member or index else 1.0
                show(member, step(index, 0.0025))
    told = capsys.readouterr().err
    assert "min" not in told
    assert "about" not in told


def test_kinds_that_have_not_begun_make_the_estimate_a_bound(clock: Clock) -> None:
    tracker = ProgressTracker(2, [50, 50], kinds=[0, 1])
    for index in range(30):
        clock.now += 1
        tracker.add(0, step(index, index + 1.0))
    assert not tracker.founded
    assert tracker.left == "more than 21 s left"
    for index in range(30, 51):
        clock.now += 1
        tracker.add(0, step(index, index + 1.0))
    assert tracker.left == ""
    for index in range(11):
        clock.now += 0.1
        tracker.add(1, step(index, 0.1))
    assert tracker.left == "about 4.0 s left"


def test_members_together_take_the_time_of_one(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with training_progress(3, 10) as show:
        for index in range(3):
            clock.now += 60
            for member in range(3):
                show(member, step(index, 60.0 * (index + 1), float(member)))
        assert capsys.readouterr().err.splitlines() == [
            "training: 10 steps of 3 members; the first took 60 s",
            "training: 2/30 steps, objective 1.0000, 2 min elapsed",
            "training: 4/30 steps, objective 1.0000, 3 min elapsed, about 9 min left",
        ]


@pytest.mark.parametrize("together", [1, 2])
def test_members_one_after_another_add_up(together: int, clock: Clock) -> None:
    tracker = ProgressTracker(4, 9)
    for index in range(3):
        clock.now += 60
        for member in range(together):
            tracker.add(member, step(index, 60.0 * (index + 1)))
    assert tracker.left == {1: "about 34 min left", 2: "about 16 min left"}[together]


def test_members_of_different_speed_side_by_side_share_the_time(clock: Clock) -> None:
    """Two cores, one with steps of 1 s and one with steps of 0.1 s, 20 s and 2 s in all."""
    tracker = ProgressTracker(2, [20, 20], kinds=[0, 1])
    for tick in range(21):
        clock.now += 0.1
        tracker.add(1, step(tick, 0.1))
        if tick % 10 == 0:
            tracker.add(0, step(tick // 10, 1.0))
    assert not tracker.founded  # two steps of the slow member are too few
    for index in range(3, 21):
        clock.now += 1
        tracker.add(0, step(index, 1.0))
        if tracker.founded:
            assert tracker.seconds_left == pytest.approx(20 - index, rel=0.15)


def test_a_member_that_ended_early_has_nothing_left(clock: Clock) -> None:
    tracker = ProgressTracker(2, [100, 100])
    for member, n_steps in enumerate((30, 50)):
        for index in range(n_steps + 1):
            clock.now += 1
            tracker.add(member, step(index, index + 1.0))
    assert tracker.seconds_left == pytest.approx(50, rel=0.1)


def test_a_resumed_training_goes_on_with_its_estimate(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with training_progress(1, 150) as show:
        for index in range(60, 151):
            clock.now += 21
            show(0, step(index, 21.0 * (index + 1)))
            if index == 60:
                assert capsys.readouterr().err == "training: resumed at 60/150 steps\n"
    lines = capsys.readouterr().err.splitlines()
    assert lines[1] == "training: 70/150 steps, objective 1.0000, 4 min elapsed, about 28 min left"
    assert lines[-1] == "training: 150/150 steps, objective 1.0000, took 32 min"


def test_a_deadline_bounds_the_estimates(clock: Clock) -> None:
    tracker = ProgressTracker(1, 150, deadline=clock.now + 600)
    for index in range(20):
        clock.now += 20
        tracker.add(0, step(index, 20.0 * (index + 1)))
        if index == 0:
            assert tracker.left == "at most 10 min left"
    assert tracker.left == "about 3 min left"


def test_members_that_an_earlier_run_has_finished_are_done(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with training_progress(3, 99) as show:
        show(0, step(99, 4000.0))
        show(1, step(99, 4000.0))
        for index in range(3):
            clock.now += 60
            show(2, step(index, 60.0))
    assert capsys.readouterr().err.splitlines() == [
        "training: resumed at 198/297 steps",
        "training: 200/297 steps, objective 1.0000, 3 min elapsed, about 1 h 37 min left",
        "training: 200/297 steps, objective 1.0000, took 3 min",
    ]


def test_a_training_that_begins_again_counts_its_time(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with training_progress(1, 99) as show:
        for index in (*range(10), *range(30)):  # in double precision, after single failed
            clock.now += 60
            show(0, step(index, 60.0))
    lines = capsys.readouterr().err.splitlines()
    assert "training: 12/99 steps, objective 1.0000, 23 min elapsed, about 87 min left" in lines
    assert lines[-1] == "training: 29/99 steps, objective 1.0000, took 40 min"


def test_a_training_without_steps_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with training_progress(2, 0):
        pass
    assert capsys.readouterr().err == "training: 0/0 steps, took 0.0 s\n"
    with training_progress(1, 0) as show:
        show(0, step(0, 0.0))
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_a_failure_is_not_told_as_an_end(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RuntimeError), training_progress(1, 10):
        raise RuntimeError
    assert capsys.readouterr().err == ""


def test_a_bar_shows_the_estimate_once_it_is_founded(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = use_terminal(monkeypatch)
    with training_progress(1, 150) as show:
        for index in range(3):
            clock.now += 21
            show(0, step(index, 21.0 * (index + 1), 1.25))
        time.sleep(0.3)  # until it is drawn
        last = terminal.getvalue().splitlines()[-1]
    for words in ("training", "2/150", "objective 1.2500", "about 52 min left"):
        assert words in last


def test_a_bar_ends_full(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = use_terminal(monkeypatch)
    with training_progress(2, 150) as show:
        clock.now += 100
        show(1, step(30, 100.0))
    for words in ("300/300", "took 2 min"):
        assert words in terminal.getvalue()


@pytest.mark.parametrize("variable", ["FORCE_COLOR", "TTY_COMPATIBLE"])
def test_a_log_has_no_bar_whatever_colours_are_asked_for(
    variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, "1")
    with training_progress(1, 10) as show:
        show(0, step(0, 1.0))
    assert "\x1b" not in capsys.readouterr().err
