"""Errors on the command line: mistakes of users in one line, bugs with their traceback."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import typer
from builders.commands import (
    invoke,
    prices,
    run_command,
    run_python,
    write_price_model,
    write_prices,
)
from typer.testing import CliRunner

from sswim.base.cholesky import FactorisationError
from sswim.base.validation import UserError
from sswim.cli.app import app
from sswim.cli.console import user_errors
from sswim.distributed.processes import ProcessError
from sswim.estimator.model_file import ModelFileError
from sswim.members.checkpoints import CheckpointError
from sswim.tables import TableError, write_table

PROGRAM = """
import sys
import sswim.tables.table_source
from sswim.cli.app import app

def broken(*arguments, **options):
    raise ValueError("a bug")

sswim.tables.open_source = broken
app(sys.argv[1:])
"""
FIT = ["fit", "{table}", "--target", "y", "--out", "{folder}/m.sswim", "--quiet"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_prices(tmp_path)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_price_model(tmp_path)


@pytest.mark.parametrize(
    "kind",
    [
        UserError,
        TableError,
        ModelFileError,
        CheckpointError,
        FileNotFoundError,
        FactorisationError,
        ProcessError,
    ],
)
def test_errors_of_users_are_one_line(
    kind: type[Exception], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as caught, user_errors():
        raise kind("choose [another]")
    assert caught.value.exit_code == 1
    assert capsys.readouterr().err == "Error: choose [another]\n"


ESCAPES = "red \x1b[31m, \x9b2J, \r, \x00, \u202e, é"
SHOWN = r"red \x1b[31m, \x9b2J, \r, \x00, \u202e, é"


def test_control_characters_are_shown_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit), user_errors():
        raise UserError(ESCAPES)
    with user_errors():
        warnings.warn(ESCAPES, stacklevel=1)
    assert capsys.readouterr().err == f"Error: {SHOWN}\nWarning: {SHOWN}\n"


def test_names_of_columns_do_not_write_to_the_terminal(tmp_path: Path) -> None:
    name = "x\x1b]0;owned\x07"
    table = pa.table({name: [0.0, 1.0, 2.0, 3.0], "y": [1.0, 3.0, 2.0, 4.0]})
    write_table(table, tmp_path / "t.parquet")
    given = str(tmp_path / "t.parquet")
    shown = [
        invoke("info", given),
        invoke("fit", given, "--target", "z", "--out", str(tmp_path / "m.sswim")),
    ]
    assert all("\x1b]" not in each.output and "\x07" not in each.output for each in shown)
    assert all(r"\x1b" in each.output for each in shown)


@pytest.mark.parametrize("kind", [ValueError, RuntimeError, KeyError, AssertionError])
def test_bugs_keep_their_traceback(
    kind: type[Exception], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(kind), user_errors():
        raise kind("bug")
    assert capsys.readouterr().err == ""


def test_warnings_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with user_errors():
        warnings.warn("Take [care].", stacklevel=1)
    assert capsys.readouterr().err == "Warning: Take [care].\n"


def test_a_bug_in_a_command_shows_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: Any, **options: Any) -> None:
        raise ValueError("a bug")

    command = ["fit", "t.csv", "--target", "y", "--out", str(tmp_path / "m.sswim")]
    shown = run_python("-c", PROGRAM, *command)
    assert shown.returncode == 1
    assert "Traceback" in shown.stderr
    assert "ValueError: a bug" in shown.stderr
    monkeypatch.setattr("sswim.tables.open_source", broken)
    result = CliRunner().invoke(app, command)
    assert isinstance(result.exception, ValueError)
    assert "Error: " not in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*FIT, "--target", "z"], "must have columns 'z'"),
        ([*FIT, "--drop", "w"], "must have columns 'w'"),
        ([*FIT, "--depth", "-1"], "depth must be an integer of at least 0"),
        ([*FIT, "--length-scale", "0"], "length_scale must be positive"),
        ([*FIT, "--length-scale", "inf"], "length_scale must be positive and finite"),
        ([*FIT, "--learning-rate", "nan"], "learning_rate must be positive and finite"),
        ([*FIT, "--depth", "1", "--learning-rate", "-1"], "learning_rate must be positive"),
        ([*FIT, "--memory", "much"], "memory must be a number of bytes"),
        ([*FIT, "--device", "gpu"], 'device must be "auto" or a device that this machine has'),
        ([*FIT, "--device", "cuda:99"], 'device must be "auto" or a device that this machine has'),
        ([*FIT, "--resume"], "--checkpoint"),
        ([*FIT, "--checkpoint", "{folder}/c", "--every", "0"], "every must be an integer"),
        (["fit", "{folder}/none.csv", *FIT[2:]], "cannot be found"),
        (["fit", "{table}", "--target", "y", "--out", "{folder}/no/m"], "folder"),
        (["predict", "{folder}/none", "{table}", "--out", "{folder}/o.csv"], "cannot be read"),
        (["predict", "{table}", "{table}", "--out", "{folder}/o.csv"], "not a sswim model"),
        (["evaluate", "{folder}/none", "{table}"], "cannot be read"),
        (["info", "{folder}/none"], "cannot be read"),
        (["datasets", "boston"], "A data set must be one of"),
        (["bench", "accuracy", "--methods", "xgboost"], "A method must be one of"),
        (["bench", "accuracy", "--sets", "boston"], "A data set must be one of"),
        (["bench", "accuracy", "--workers", "0"], "workers must be at least 1"),
        (["bench", "table", "{folder}/none.csv"], "does not exist"),
        (["bench", "table", "{table}"], "must start with the columns"),
        (["reproduce", "table-9"], "An experiment must be one of"),
        (["reproduce", "all", "--methods", "sswim"], "--sets and --methods"),
        (["reproduce", "figure-warp-1d", "--sets", "concrete", "--out", "{folder}/p"], "figure"),
    ],
)
def test_typical_mistakes_are_one_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    write_table(pa.table({"x": [0.0, 1.0, 2.0, 3.0], "y": [1.0, 3.0, 2.0, 4.0]}), table)
    result = invoke(*(each.format(table=table, folder=tmp_path) for each in arguments))
    assert result.exit_code == 1
    *notes, error = result.stderr.splitlines()
    assert error.startswith("Error: ")
    assert message in error
    assert not any(note.startswith(("Error", "Traceback")) for note in notes)
    assert result.stdout == ""


def test_a_setting_of_no_choice_is_one_line(tmp_path: Path) -> None:
    """In a process of its own, without the type checks of the tests."""
    table = tmp_path / "t.csv"
    write_table(pa.table({"x": [0.0, 1.0, 2.0], "y": [1.0, 3.0, 2.0]}), table)
    command = [each.format(table=table, folder=tmp_path) for each in FIT]
    result = run_command(*command, "--kernel", "linear")
    assert result.returncode == 1
    (error,) = result.stderr.splitlines()
    assert error.startswith("Error: kernel must be one of ('rbf', 'matern12'")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "nowhere.csv", "--target", "y", "--out", "m.sswim"], "cannot be found"),
        (["fit", "{table}", "--target", "prize", "--out", "{tmp}/m"], "close to it: 'price'"),
        (["fit", "{table}", "--target", "colour", "--out", "{tmp}/m"], "must hold numbers"),
        (["fit", "{table}", "--target", "price", "--out", "{tmp}/no/m"], "folder that exists"),
        (
            ["fit", "{table}", "--target", "price", "--out", "{tmp}/m", "--n-components", "0"],
            "n_components must be an integer of at least 1",
        ),
        (
            ["fit", "{table}", "--target", "price", "--out", "{tmp}/m", "--learning-rate", "-1"],
            "learning_rate must be positive",
        ),
        (["predict", "{table}", "{table}", "--out", "{tmp}/o.csv"], "not a sswim model"),
        (["predict", "{model}", "{table}", "--out", "{tmp}/o.xlsx"], "must end in"),
        (["predict", "{model}", "{table}", "--out", "{tmp}/o.csv", "--coverage", "2"], "coverage"),
        (["predict", "{model}", "{other}", "--out", "{tmp}/o.csv"], "must have columns 'colour'"),
        (["predict", "{model}", "{predicted}", "--out", "{tmp}/o.csv"], "--prefix"),
        (["info", "{tmp}/none.sswim"], "cannot be read"),
        (["evaluate", "{model}", "{untargeted}"], "must have columns 'price'"),
    ],
)
def test_user_errors_are_told_without_a_traceback(
    arguments: list[str], message: str, model: Path, table: Path, tmp_path: Path
) -> None:
    rows = prices(8)
    write_table(rows.drop_columns(["colour"]), tmp_path / "other.csv")
    write_table(rows.drop_columns(["price"]), tmp_path / "untargeted.csv")
    write_table(rows.append_column("mean", rows["x"]), tmp_path / "predicted.csv")
    places = {
        "table": table,
        "model": model,
        "tmp": tmp_path,
        **{name: tmp_path / f"{name}.csv" for name in ("other", "untargeted", "predicted")},
    }
    before = sorted(tmp_path.iterdir())
    result = invoke(*(argument.format(**places) for argument in arguments))
    assert result.exit_code == 1
    assert "Error: " in result.output
    assert message in " ".join(result.output.split())
    assert "Traceback" not in result.output
    assert sorted(tmp_path.iterdir()) == before
