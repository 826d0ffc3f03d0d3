"""Clean, odd and damaged tables of every format through ``info``, ``fit`` and ``predict``."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest
from builders.commands import invoke
from builders.forgeries import Damage
from builders.fuzzing import count_refusal, fuzz
from builders.random_tables import ArrowTable, Table, TextTable, tables
from hypothesis import example
from typer.testing import Result

from sswim import load
from sswim.tables import open_table

TINY = (
    "--depth",
    "0",
    "--n-components",
    "8",
    "--max-iter",
    "1",
    "--random-state",
    "0",
    "--no-verbose",
)

MAX_PROBLEMS = 6
"""Largest number of lines of an error."""

OLD = b"an older file"

_model: list[bytes] = []


@pytest.fixture(autouse=True, scope="module")
def _fitted(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Fit the model whose predictions are asked for."""
    folder = tmp_path_factory.mktemp("clean")
    table, model = folder / "table.csv", folder / "model.sswim"
    table.write_bytes(TextTable().to_bytes())
    fitted = invoke("fit", table, "--target", "y", "--out", model, *TINY)
    assert fitted.exit_code == 0, fitted.output
    _model[:] = [model.read_bytes()]


def require_clear(result: Result) -> None:
    """Check that a command ended with one error: a line, or one for each of several problems."""
    assert result.exit_code == 1
    (place,) = (found.start() for found in re.finditer("^Error: ", result.stderr, re.MULTILINE))
    assert len(result.stderr[place:].splitlines()) <= MAX_PROBLEMS, result.stderr
    assert "Traceback" not in result.output
    count_refusal()


# A target of durations, and a byte of a time zone's name flipped: errors of Arrow.
@fuzz(small=8, full=1000, part=40, limit=60.0, table=tables())
@example(table=ArrowTable(types=("float", "integer", "text", "duration")))
@example(
    table=ArrowTable(
        ".arrow",
        20,
        ("float", "boolean", "time", "float"),
        True,
        (Damage("flip", 0.15455228259265066, 0.8966115539777764, b"\x15"),),
    )
)
def test_a_table_is_used_or_refused_clearly(table: Table) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, data = Path(name), table.to_bytes()
        path, model = folder / f"table{table.suffix}", folder / "model.sswim"
        out, predicted = folder / "new.sswim", folder / f"predicted{table.suffix}"
        path.write_bytes(data)
        model.write_bytes(_model[0])
        for file in (out, predicted):
            file.write_bytes(OLD)
        described = invoke("info", path)
        fitted = invoke("fit", path, "--target", "y", "--out", out, "--force", *TINY)
        made = invoke("predict", model, path, "--out", predicted)
        if described.exit_code:
            require_clear(described)
        for result, file in ((fitted, out), (made, predicted)):
            if result.exit_code:
                require_clear(result)
                assert file.read_bytes() == OLD
        if fitted.exit_code == 0:
            n_rows = said(r"Learnt 'y' from (\d+) rows", fitted)
            assert n_rows == round(load(out).n_samples_seen_)
        if made.exit_code == 0:
            n_rows = said(r"Predicted (\d+) rows", made)
            assert n_rows == open_table(predicted).n_rows
        if table.is_clean:
            assert described.exit_code == 0, described.output
            assert fitted.exit_code == 0, fitted.output
            assert said(r"Learnt 'y' from (\d+) rows", fitted) == table.n_rows
        assert path.read_bytes() == data
        assert {file.name for file in folder.iterdir()} == {
            each.name for each in (path, model, out, predicted)
        }


def said(pattern: str, result: Result) -> int:
    """Return the number that a command printed."""
    (number,) = re.findall(pattern, result.output)
    return int(number)
