"""Ctrl-C and SIGTERM at any time of a command."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders.commands import FAST, run_python

from sswim import load
from sswim.cli import entry
from sswim.cli.entry import Interruption, stop_on_interrupt
from sswim.members.checkpoints import Step

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
LINES = {signal.SIGINT: "Interrupted.\n", signal.SIGTERM: "Terminated.\n"}
SIGNALS = pytest.mark.parametrize("number", list(CODES))


@pytest.fixture(autouse=True)
def _default_handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in CODES}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    entry.Interrupted.received = None


@SIGNALS
def test_the_second_signal_ends_the_program(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(number)
    with stop_on_interrupt() as interruption:
        assert not interruption(0, Step(0, 1.0, 1.0, 1.0))
        assert not interruption(0, Step(1, 1.0, 1.0, 1.0))
        signal.raise_signal(number)
        assert interruption.requested
        assert not interruption.stopped
        assert interruption(0, Step(2, 1.0, 1.0, 1.0))
        assert interruption.stopped
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        assert signal.getsignal(number) is entry.end_at_once
    assert signal.getsignal(number) == before
    assert "Ctrl-C again to give up" in capsys.readouterr().err


def test_signals_before_the_first_and_after_the_last_step_change_nothing() -> None:
    with stop_on_interrupt() as interruption:
        interruption(0, Step(0, 1.0, 1.0, 1.0))
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert not interruption.requested
    interruption(0, Step(1, 1.0, 1.0, 1.0))
    interruption.requested = True
    assert not interruption.stopped
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # what is ignored stays ignored
    with stop_on_interrupt() as interruption:
        signal.raise_signal(signal.SIGINT)
    assert not interruption.requested


IN_IMPORTS = """
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            signal.raise_signal(number)
sys.meta_path.insert(0, Finder())
"""
AT_EXIT = "import atexit\natexit.register(signal.raise_signal, number)"


@SIGNALS
def test_in_imports_a_signal_is_one_line_and_at_exit_nothing(number: signal.Signals) -> None:
    for program, expected in (
        (IN_IMPORTS, (CODES[number], LINES[number])),
        (AT_EXIT, (0, "")),
    ):
        start = "import signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        start += f"number = {int(number)}\n{program}\nfrom sswim.cli.entry import main\nmain()"
        ended = run_python("-c", start, "--version")
        assert (ended.returncode, ended.stderr) == expected


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command ``sswim``; return its exit code and what it prints."""

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["sswim", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            entry.main()
        return int(ended.value.code or 0), *capsys.readouterr()

    return run


def fit_arguments(table: Path, out: Path) -> list[str | Path]:
    options = ("--target", "price", "--drop", "id", *FAST, "--max-iter", "100000")
    return ["fit", table, "--out", out, *options]


def send_at(monkeypatch: pytest.MonkeyPatch, index: int, number: signal.Signals) -> None:
    """Send a signal after a training step."""
    call = Interruption.__call__

    def after_step(self: Interruption, member: int, step: Step) -> bool:
        stops = call(self, member, step)
        if step.index == index:
            signal.raise_signal(number)
        return stops

    monkeypatch.setattr(Interruption, "__call__", after_step)


@SIGNALS
def test_a_fit_without_a_step_writes_nothing(
    number: signal.Signals, run: Run, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_at(monkeypatch, 0, number)
    assert run(*fit_arguments(table, table.parent / "model")) == (CODES[number], "", LINES[number])
    assert list(table.parent.iterdir()) == [table]


@SIGNALS
def test_a_stopped_fit_keeps_the_best_so_far(
    number: signal.Signals, run: Run, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = table.parent / "model.sswim"
    send_at(monkeypatch, 3, number)
    code, printed, errors = run(*fit_arguments(table, out))
    assert code == entry.STOPPED, errors
    assert "keeping the best" in errors
    assert "Training was stopped after 4 steps" in errors
    assert "Traceback" not in errors
    assert "wrote" in printed
    assert load(out).n_iter_ == 4
