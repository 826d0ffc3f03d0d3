"""Ctrl-C and SIGTERM at any time of a command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.commands import prices, write_price_model, write_prices

from sswim import SSWIMRegressor
from sswim.cli import entry
from sswim.cli.entry import Interruption, stop_on_interrupt
from sswim.members.history import Step
from sswim.tables import write_table

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
LINES = {signal.SIGINT: "Interrupted.\n", signal.SIGTERM: "Terminated.\n"}
SIGNALS = pytest.mark.parametrize("number", list(CODES))

BEFORE = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
NUMBER = int(sys.argv.pop(1))

def send():
    os.kill(os.getpid(), NUMBER)

def send_before(owner, name):
    function = getattr(owner, name)
    setattr(owner, name, lambda *given, **options: (send(), function(*given, **options))[1])
"""
"""Lets a program send a signal to itself."""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_prices(tmp_path)


@pytest.fixture
def default_handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in CODES}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    entry.Interrupted.received = None


def run(program: str, number: int, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command ``sswim`` after a piece of a program, which may send it a signal."""
    program = f"{BEFORE}\n{program}\nfrom sswim.cli.entry import main\nmain()"
    return subprocess.run(
        [sys.executable, "-c", program, str(int(number)), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def fit_arguments(table: Path, out: Path) -> list[str | Path]:
    options = ["--depth", "1", "--max-iter", "100000", "--n-components", "64", "--quiet"]
    return ["fit", table, "--target", "price", "--drop", "id", "--out", out, *options]


@pytest.mark.usefixtures("default_handlers")
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


@pytest.mark.usefixtures("default_handlers")
def test_before_the_first_step_there_is_no_model() -> None:
    with stop_on_interrupt() as interruption:
        interruption(0, Step(0, 1.0, 1.0, 1.0))
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert not interruption.requested


def test_a_signal_after_the_last_step_changes_nothing() -> None:
    interruption = Interruption()
    interruption(0, Step(1, 1.0, 1.0, 1.0))
    interruption.requested = True
    assert not interruption.stopped


@pytest.mark.usefixtures("default_handlers")
def test_a_signal_that_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with stop_on_interrupt() as interruption:
        signal.raise_signal(signal.SIGINT)
    assert not interruption.requested


@SIGNALS
def test_during_imports_there_is_one_line(number: signal.Signals) -> None:
    program = """
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            send()
sys.meta_path.insert(0, Finder())
"""
    ended = run(program, number, "--version")
    assert (ended.returncode, ended.stdout, ended.stderr) == (CODES[number], "", LINES[number])


@SIGNALS
def test_at_exit_nothing_changes(number: signal.Signals) -> None:
    ended = run("import atexit\natexit.register(send)", number, "--version")
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    ("number", "module", "name"),
    [
        (signal.SIGINT, "sswim.tables.table_source", "open_source"),
        (signal.SIGTERM, "sswim.estimator.regressor", "fit_members"),
    ],
)
def test_a_fit_without_a_step_writes_nothing(
    number: signal.Signals, module: str, name: str, table: Path, tmp_path: Path
) -> None:
    out = tmp_path / "model.sswim"
    program = f"import {module} as owner\nsend_before(owner, {name!r})"
    ended = run(program, number, *fit_arguments(table, out))
    assert (ended.returncode, ended.stdout, ended.stderr) == (CODES[number], "", LINES[number])
    assert list(tmp_path.iterdir()) == [table]


@SIGNALS
def test_a_stopped_fit_keeps_the_best_so_far(
    number: signal.Signals, table: Path, tmp_path: Path
) -> None:
    out = tmp_path / "model.sswim"
    program = """
from sswim.cli.entry import Interruption
call = Interruption.__call__
def after_step(self, member, step):
    found = call(self, member, step)
    if step.index == 3:
        send()
    return found
Interruption.__call__ = after_step
"""
    ended = run(program, number, *fit_arguments(table, out))
    assert ended.returncode == 3, ended.stderr
    assert "keeping the best" in ended.stderr
    assert "Training was stopped after 4 steps" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "wrote" in ended.stdout
    assert SSWIMRegressor.load(out).n_iter_ == 4


@pytest.mark.parametrize(
    ("number", "command"), [(signal.SIGINT, "predict"), (signal.SIGTERM, "evaluate")]
)
def test_other_commands_end_with_one_line_and_no_file(
    number: signal.Signals, command: str, tmp_path: Path
) -> None:
    model, table = write_price_model(tmp_path), tmp_path / "table.csv"
    write_table(prices(), table)  # predictions of CSV files are written as they are made
    program = """
from sswim.estimator.regressor import SSWIMRegressor
send_before(SSWIMRegressor, "predict_distribution")
"""
    out = ["--out", str(tmp_path / "out.csv")] if command == "predict" else []
    ended = run(program, number, command, model, table, *out)
    assert (ended.returncode, ended.stdout, ended.stderr) == (CODES[number], "", LINES[number])
    assert sorted(tmp_path.iterdir()) == [model, table]
