"""The list of data sets on the command line."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sswim_lab.commands.datasets
from builders.commands import invoke
from rich.console import Console
from sswim_lab.datasets.catalogue import DATA_SETS
from sswim_lab.datasets.download import FOLDER_VARIABLE
from typer.testing import Result


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sswim_lab.commands.datasets, "output", Console(width=300))


def line(result: Result, name: str) -> list[str]:
    """Return the words of the line of a data set."""
    return next(each.split() for each in result.output.splitlines() if each.startswith(f" {name} "))


def test_all_are_listed(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": range(1503)}), tmp_path / "airfoil.parquet")
    pq.write_table(pa.table({"a": range(16599)}), tmp_path / "elevators.parquet")
    pq.write_table(pa.table({"a": range(1200)}), tmp_path / "creep.parquet")
    (tmp_path / "song.parquet").write_bytes(b"no table")
    result = invoke("datasets", "--data", tmp_path)
    assert result.exit_code == 0
    for name, each in DATA_SETS.items():
        assert line(result, name)[1:3] == [f"{each.n_rows:,}", str(each.n_inputs)]
        assert all(text in result.output for text in (each.target, each.source, each.licence))
    assert line(result, "airfoil")[-1] == line(result, "elevators")[-1] == "yes"
    assert line(result, "creep")[-2:] == ["1,200", "rows"]
    assert line(result, "song")[-1] == "unreadable"
    assert line(result, "buzz")[-1] == "no"
    assert f"Available in {tmp_path}: elevators, airfoil, song, creep." in result.output


def test_the_folder_may_be_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(pa.table({"a": range(9)}), tmp_path / "buzz.parquet")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    assert f"Available in {tmp_path}: buzz." in invoke("datasets").output


def test_one_is_shown_in_full(tmp_path: Path) -> None:
    shown = invoke("datasets", "bikeshare", "--data", tmp_path).output
    assert "casual + registered == cnt" in shown
    assert "https://archive.ics.uci.edu/static/public/275/bike+sharing+dataset.zip" in shown
    assert "17,379, of which two thirds train" in shown
    assert "dteday in seconds" in shown
    pq.write_table(pa.table({"a": range(2066)}), tmp_path / "creep.parquet")
    shown = invoke("datasets", "creep", "--data", tmp_path).output
    assert "of which 800 train" in shown
    assert f"yes, in {tmp_path}" in shown
    assert "nowhere" in invoke("datasets", "prism_elevation").output


def test_an_unknown_name_is_refused() -> None:
    result = invoke("datasets", "boston")
    assert result.exit_code == 1
    assert "Error: A data set must be one of elevators, airfoil" in result.stderr
