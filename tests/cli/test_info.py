"""The command ``sswim info``, and model files without their rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.commands import fit_prices, refuse, succeed

from sswim.ensemble.plan import KINDS


def facts(model: Path) -> dict[str, str]:
    """Return the rows of the table that ``sswim info`` shows."""
    shown = succeed("info", model).output.splitlines()
    cells = [line.split("│") for line in shown if line.startswith("│")]
    return {name.strip(): value.strip() for _, name, value, _ in cells}


def test_info_describes_a_model(model: Path) -> None:
    shown = facts(model)
    expected = {
        "target": "price",
        "columns": "x (number), colour (category)",
        "number of inputs": "4",
        "rows seen": "60",
        "rows inside": "none",
        "max_iter": "3",
        "inputs": "standardised",
    }
    assert {name: shown.get(name) for name in expected} == expected
    assert "log evidence" in shown


@pytest.mark.parametrize("rows_kept", [True, False])
def test_info_says_whether_rows_are_inside(rows_kept: bool, table: Path, tmp_path: Path) -> None:
    model, out = tmp_path / "model.sswim", tmp_path / "out.parquet"
    options = () if rows_kept else ("--no-include-rows",)
    fitted = fit_prices(table, model, "--n-neighbors", "16", *options)
    assert fitted.exit_code == 0, fitted.output
    shown = facts(model)
    assert "log evidence" not in shown
    assert shown["rows seen"] == ("60" if rows_kept else "0")
    if rows_kept:
        assert shown["rows inside"] == "yes: the model predicts from the rows it was trained on"
    else:
        assert shown["rows inside"] == "none: saved without them; partial_fit gives it rows"
        assert "was saved without them" in refuse("predict", model, table, "--out", out)
        assert not out.exists()


def test_info_shows_the_kinds_of_the_default(table: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.sswim"
    sizes = ["--n-components", "16", "--n-pseudo", "4", "--n-members", "1", "--max-iter", "3"]
    options = [*sizes, "--noise", "constant", "--random-state", "0", "--no-include-rows"]
    succeed("fit", table, "--target", "price", "--drop", "id", "--out", model, *options)
    shown = facts(model)
    kinds = {name.removeprefix("kind "): value for name, value in shown.items() if "kind " in name}
    assert list(kinds) == list(KINDS)
    assert kinds["features-2"].startswith(("weight 0.", "left out;"))
    assert shown["rows inside"].startswith("none")
    assert shown["rows seen"] == "60"
    assert shown["recipe: max_iter"] == "3"
    assert "log evidence" in shown
    succeed("evaluate", model, table)


def test_info_shows_what_would_be_read_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("größe;plz\n1,5;00123\n2,5;?\n3;00124\n".encode("cp1252"))
    shown = succeed("info", path).output
    for words in ("3 rows, 2 columns", "größe", "number", "1.5 to 3", "plz", "00123"):
        assert words in shown
    assert "Note: Read with separator ';', decimal comma and encoding cp1252" in shown
    kept = succeed("info", path, "--text", "plz", "--encoding", "cp437").output
    assert "category" in kept
    assert "encoding cp1252" not in kept
