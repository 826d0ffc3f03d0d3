"""Errors on the command line: mistakes of users in one line, bugs with their traceback."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import typer
from builders.commands import invoke, prices, run_command

from sswim.base.cholesky import FactorisationError
from sswim.base.validation import UserError
from sswim.cli.console import user_errors
from sswim.distributed.processes import ProcessError
from sswim.tables import write_table

ESCAPES = "red \x1b[31m, \x9b2J, \r, \x00, \u202e, é"
SHOWN = r"red \x1b[31m, \x9b2J, \r, \x00, \u202e, é"


@pytest.mark.parametrize(
    "kind", [UserError, FileNotFoundError, FactorisationError, ProcessError], ids=str
)
@pytest.mark.parametrize(("text", "shown"), [("take [care]",) * 2, (ESCAPES, SHOWN)])
def test_errors_of_users_and_warnings_are_one_line(
    kind: type[Exception], text: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    @user_errors()
    def command() -> None:
        warnings.warn(text, stacklevel=1)
        raise kind(text)

    with pytest.raises(typer.Exit) as ended:
        command()
    assert ended.value.exit_code == 1
    assert capsys.readouterr().err == f"Warning: {shown}\nError: {shown}\n"


@pytest.mark.parametrize("kind", [ValueError, RuntimeError, KeyError, AssertionError])
def test_bugs_keep_their_traceback(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*arguments: Any, **options: Any) -> None:
        raise kind("a bug")

    monkeypatch.setattr("sswim.tables.open_source", broken)
    with pytest.raises(kind, match="a bug"):
        invoke("fit", "t.csv", "--target", "y", "--out", "m.sswim")
    assert capsys.readouterr().err == ""


def test_a_command_in_a_process_of_its_own_has_one_line(table: Path, tmp_path: Path) -> None:
    """The type checks of the tests would find this mistake first."""
    result = run_command(
        *("fit", table, "--target", "price", "--out", tmp_path / "m", "--kernel", "linear")
    )
    assert result.returncode == 1
    (error,) = result.stderr.splitlines()
    assert error.startswith("Error: kernel must be one of ('rbf', 'matern12'")


FIT = ["fit", "{table}", "--target", "price", "--out", "{tmp}/m.sswim", "--no-verbose"]
PREDICT = ["predict", "{model}", "{table}", "--out", "{tmp}/o.csv"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*FIT, "--target", "prize"], "close to it: 'price'"),
        ([*FIT, "--target", "colour"], "must hold numbers"),
        ([*FIT, "--drop", "w"], "must have columns 'w'"),
        ([*FIT, "--depth", "-1"], "depth must be an integer of at least 0"),
        ([*FIT, "--n-neighbors", "-3"], "n_neighbors must be an integer of at least 1"),
        ([*FIT, "--n-neighbors", "8", "--growing"], "no setting 'growing'. It belongs to Warped"),
        ([*FIT, "--depth", "1", "--no-local-amplitude"], "It belongs to NeighbourGPRegressor"),
        ([*FIT, "--objective", "evidence"], "--depth chooses WarpedGPRegressor"),
        ([*FIT, "--learning-rate", "nan"], "learning_rate must be positive and finite"),
        ([*FIT, "--memory", "much"], "memory must be a number of bytes"),
        ([*FIT, "--resume"], "--checkpoints"),
        ([*FIT, "--checkpoints", "{tmp}/c", "--every", "0"], "every must be an integer"),
        (["fit", "{tmp}/none.csv", *FIT[2:]], "cannot be found"),
        (["predict", "{table}", *PREDICT[2:]], "not a sswim model"),
        ([*PREDICT, "--out", "{tmp}/o.xlsx"], "must end in"),
        ([*PREDICT, "--level", "2"], "level must lie between 0 and 1"),
        (["predict", "{model}", "{no_colour}", *PREDICT[3:]], "must have columns 'colour'"),
        (["predict", "{model}", "{predicted}", *PREDICT[3:]], "--prefix"),
        (["evaluate", "{model}", "{no_price}"], "must have columns 'price'"),
        (["evaluate", "{model}", "{table}", "--blocks", "1"], "give coordinates, or --coordinates"),
        (["evaluate", "{model}", "{table}", "--importance", "--blocks", "1"], "one at a time"),
        (["info", "{tmp}/none"], "cannot be read"),
        (["info", "{tmp}/none.csv"], "cannot be found"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(
    arguments: list[str], message: str, model: Path, table: Path, tmp_path: Path
) -> None:
    rows = prices(8)
    others = {
        "no_colour": rows.drop_columns(["colour"]),
        "no_price": rows.drop_columns(["price"]),
        "predicted": rows.append_column("mean", rows["x"]),
    }
    places = {"table": table, "model": model, "tmp": tmp_path}
    for name, other in others.items():
        places[name] = tmp_path / f"{name}.csv"
        write_table(other, places[name])
    before = sorted(tmp_path.iterdir())
    result = invoke(*(word.format(**places) for word in arguments))
    assert result.exit_code == 1
    *notes, error = result.stderr.splitlines()
    assert error.startswith("Error: ")
    assert message in error
    assert not any(note.startswith(("Error", "Traceback")) for note in notes)
    assert result.stdout == ""
    assert sorted(tmp_path.iterdir()) == before
