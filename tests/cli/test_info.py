"""The command ``sswim info``."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.commands import fit_prices, invoke, write_prices

from sswim.ensemble.plan import KINDS


def facts(model: Path) -> dict[str, str]:
    """Return the rows of the table that ``sswim info`` shows."""
    shown = invoke("info", model)
    assert shown.exit_code == 0, shown.output
    cells = [line.split("│") for line in shown.output.splitlines() if line.startswith("│")]
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


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "yes: the model predicts from the rows it was trained on"),
        (("--no-include-rows",), "none: saved without them; partial_fit gives it rows"),
    ],
    ids=["rows", "no rows"],
)
def test_info_says_whether_rows_are_inside(
    options: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    model = tmp_path / "model.sswim"
    fitted = fit_prices(write_prices(tmp_path), model, "--n-neighbors", "16", *options)
    assert fitted.exit_code == 0, fitted.output
    shown = facts(model)
    assert shown["rows inside"] == words
    assert shown["rows seen"] == ("0" if options else "60")
    assert "log evidence" not in shown


@pytest.mark.parametrize("rows_kept", [True, False], ids=["rows", "no rows"])
def test_info_shows_the_kinds_of_the_default(rows_kept: bool, tmp_path: Path) -> None:
    model, table = tmp_path / "model.sswim", write_prices(tmp_path)
    names = ["--target", "price", "--drop", "id"]
    sizes = ["--n-components", "16", "--n-pseudo", "4", "--n-members", "1", "--max-iter", "3"]
    options = [*names, *sizes, "--noise", "constant", "--random-state", "0", "--no-verbose"]
    options += [] if rows_kept else ["--no-include-rows"]
    fitted = invoke("fit", table, "--out", model, *options)
    assert fitted.exit_code == 0, fitted.output
    shown = facts(model)
    kinds = {name.removeprefix("kind "): value for name, value in shown.items() if "kind " in name}
    assert list(kinds) == list(KINDS)
    assert kinds["features-2"].startswith(("weight 0.", "left out;"))
    assert shown["rows inside"].startswith("yes: the model" if rows_kept else "none")
    assert shown["rows seen"] == "60"
    assert shown["recipe: max_iter"] == "3"
    assert ("log evidence" in shown) == (not rows_kept)
    assert invoke("evaluate", model, table).exit_code == 0


def test_info_shows_what_would_be_read_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("größe;plz\n1,5;00123\n2,5;?\n3;00124\n".encode("cp1252"))
    shown = invoke("info", path)
    assert shown.exit_code == 0, shown.output
    assert "3 rows, 2 columns" in shown.output
    for word in ("separator ';'", "cp1252", "größe", "number", "1.5 to 3", "plz", "00123"):
        assert word in shown.output
    assert "Note: Read with separator ';', decimal comma and encoding cp1252" in shown.output
    kept = invoke("info", path, "--text", "plz", "--encoding", "cp437")
    assert "category" in kept.output
    assert "encoding cp1252" not in kept.output


def test_info_shows_a_folder(table: Path) -> None:
    shown = invoke("info", table.parent)
    assert "1 Parquet file" in " ".join(shown.output.split())  # a long path breaks the line
    assert "colour" in shown.output
