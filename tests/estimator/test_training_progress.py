from __future__ import annotations

import io
import time

import pytest
from builders.clock import Clock

from sswim.estimator import progress
from sswim.estimator import training_progress as training_progress_module
from sswim.estimator.training_progress import training_progress
from sswim.training.history import Step


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
                assert capsys.readouterr().err == (
                    "training: the first step took 21 s; about 53 min for 150 steps of 1 member\n"
                )
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "training: 8/150 steps, objective 1.9200, 4 min elapsed, 50 min left"
    assert len(lines) == 18 + 1
    assert lines[-1] == "training: 150/150 steps, objective 0.5000, took 53 min"


def test_a_short_training_has_two_lines(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with training_progress(1, 100) as show:
        for index in range(101):
            clock.now += 0.09
            show(0, step(index, 0.09 * (index + 1)))
    assert capsys.readouterr().err.splitlines() == [
        "training: the first step took 0.1 s; about 9.1 s for 100 steps of 1 member",
        "training: 100/100 steps, objective 1.0000, took 9.1 s",
    ]


def test_members_together_take_the_time_of_one(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with training_progress(3, 10) as show:
        clock.now += 60
        for member in range(3):
            assert capsys.readouterr().err == ""
            show(member, step(0, 60.0, float(member)))
        assert capsys.readouterr().err == (
            "training: the first step took 60 s; about 11 min for 10 steps of 3 members\n"
        )
        clock.now += 60
        for member in range(3):
            show(member, step(1, 120.0, float(member)))
        told = "training: 2/30 steps, objective 1.0000, 2 min elapsed, 9 min left\n"
        assert capsys.readouterr().err == told  # once for all


@pytest.mark.parametrize("together", [1, 2])
def test_members_one_after_another_add_up(
    together: int, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with training_progress(4, 9) as show:
        for index in range(2):  # only the second tells how many there are at a time
            clock.now += 60
            for member in range(together):
                show(member, step(index, 60.0 * (index + 1)))
    whole = {1: "40 min", 2: "20 min"}[together]
    forecast = f"training: the first step took 60 s; about {whole} for 9 steps of 4 members"
    assert capsys.readouterr().err.splitlines()[0] == forecast


def test_members_side_by_side_share_the_time(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with training_progress(4, 9) as show:
        for index in range(2):
            clock.now += 60
            for member in (3, 1):
                show(member, step(index, 60.0 * (index + 1)))
    assert "about 20 min for 9 steps of 4 members" in capsys.readouterr().err


def test_a_resumed_training_goes_on_with_its_estimate(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with training_progress(1, 150) as show:
        for index in range(60, 151):
            clock.now += 21
            show(0, step(index, 21.0 * (index + 1)))
            if index == 60:
                told = "training: resumed at 60/150 steps; about 32 min left\n"
                assert capsys.readouterr().err == told
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "training: 68/150 steps, objective 1.0000, 3 min elapsed, 29 min left"
    assert lines[-1] == "training: 150/150 steps, objective 1.0000, took 32 min"


def test_a_deadline_bounds_the_estimates(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with training_progress(1, 150, deadline=clock.now + 600) as show:
        for index in range(20):
            clock.now += 20
            show(0, step(index, 20.0 * (index + 1)))
    first, second, *_ = capsys.readouterr().err.splitlines()
    assert first.endswith("took 20 s; about 10 min for 150 steps of 1 member")
    assert second.endswith(" left")
    elapsed, left = (int(words.split()[0]) for words in second.split(", ")[2:])
    assert elapsed + left == 10


def test_members_that_an_earlier_run_has_finished_are_done(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with training_progress(3, 99) as show:
        show(0, step(99, 4000.0))
        show(1, step(99, 4000.0))
        clock.now += 60
        show(2, step(0, 60.0))
    assert capsys.readouterr().err.splitlines() == [
        "training: resumed at 198/297 steps; about 1 h 39 min left",
        "training: 198/297 steps, objective 1.0000, took 60 s",
    ]


def test_a_training_that_begins_again_counts_its_time(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with training_progress(1, 99) as show:
        for index in (*range(10), *range(30)):  # in double precision, after single failed
            clock.now += 60
            show(0, step(index, 60.0))
    lines = capsys.readouterr().err.splitlines()
    assert "training: 15/99 steps, objective 1.0000, 26 min elapsed, 84 min left" in lines
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


def test_a_bar_shows_the_estimate_after_the_first_step(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = use_terminal(monkeypatch)
    with training_progress(1, 150) as show:
        clock.now += 21
        show(0, step(0, 21.0, 1.25))
        time.sleep(0.3)  # until it is drawn
        last = terminal.getvalue().splitlines()[-1]
    for words in ("training", "0/150", "objective 1.2500", "about 52 min left"):
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
