"""The command ``sswim info``."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.commands import fit_prices, invoke, write_price_model, write_prices

from sswim.ensemble.plan import KINDS


def test_info_describes_a_model(tmp_path: Path) -> None:
    told = invoke("info", write_price_model(tmp_path))
    assert told.exit_code == 0
    for word in ("price", "colour (category)", "rows seen", "60", "max_iter"):
        assert word in told.output


def facts(model: Path) -> dict[str, str]:
    """Return the rows of the table that ``sswim info`` shows."""
    told = invoke("info", model)
    assert told.exit_code == 0, told.output
    cells = [line.split("│") for line in told.output.splitlines() if line.startswith("│")]
    return {name.strip(): value.strip() for _, name, value, _ in cells}


def test_settings_hide_no_facts(tmp_path: Path) -> None:
    found = facts(write_price_model(tmp_path))
    assert found["number of inputs"] == "4"
    assert found["inputs"] == "standardised"
    assert found["estimator"] == "WarpedGPRegressor"


def test_info_says_that_a_model_of_features_holds_no_rows(tmp_path: Path) -> None:
    found = facts(write_price_model(tmp_path))
    assert found["rows inside"] == "none"
    assert "log evidence" in found


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
    found = facts(model)
    assert found["rows inside"] == words
    assert found["rows seen"] == ("0" if options else "60")
    assert "log evidence" not in found


@pytest.mark.parametrize("rows_kept", [True, False], ids=["rows", "no rows"])
def test_info_shows_the_kinds_of_the_default(rows_kept: bool, tmp_path: Path) -> None:
    model, table = tmp_path / "model.sswim", write_prices(tmp_path)
    names = ["--target", "price", "--drop", "id"]
    sizes = ["--n-components", "16", "--n-pseudo", "4", "--n-members", "1", "--max-iter", "3"]
    options = [*names, *sizes, "--noise", "constant", "--random-state", "0", "--no-verbose"]
    options += [] if rows_kept else ["--no-include-rows"]
    fitted = invoke("fit", table, "--out", model, *options)
    assert fitted.exit_code == 0, fitted.output
    found = facts(model)
    kinds = {name.removeprefix("kind "): value for name, value in found.items() if "kind " in name}
    assert list(kinds) == list(KINDS)
    assert kinds["features-2"].startswith(("weight 0.", "left out;"))
    assert found["rows inside"].startswith("yes: the model" if rows_kept else "none")
    assert found["rows seen"] == "60"
    assert found["recipe: max_iter"] == "3"
    assert ("log evidence" in found) == (not rows_kept)
    assert invoke("evaluate", model, table).exit_code == 0


def test_info_shows_what_would_be_read_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("größe;plz\n1,5;00123\n2,5;?\n3;00124\n".encode("cp1252"))
    told = invoke("info", path)
    assert told.exit_code == 0, told.output
    assert "3 rows, 2 columns" in told.output
    for word in ("separator ';'", "cp1252", "größe", "number", "1.5 to 3", "plz", "00123"):
        assert word in told.output
    assert "Note: Read with separator ';', decimal comma and encoding cp1252" in told.output
    kept = invoke("info", path, "--text", "plz", "--encoding", "cp437")
    assert "category" in kept.output
    assert "encoding cp1252" not in kept.output


def test_info_shows_a_folder(tmp_path: Path) -> None:
    write_prices(tmp_path)
    told = invoke("info", tmp_path)
    assert "1 Parquet file" in " ".join(told.output.split())  # a long path breaks the line
    assert "colour" in told.output


@pytest.mark.parametrize("name", ["none.csv", "none.sswim"])
def test_info_needs_a_file(name: str, tmp_path: Path) -> None:
    told = invoke("info", tmp_path / name)
    assert told.exit_code == 1
    assert "Error" in told.output
