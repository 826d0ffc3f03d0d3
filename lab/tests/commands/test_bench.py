"""The commands of the bench."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.commands import invoke
from lab_builders.bench import MeanOnly, row, write_set
from sswim_lab.bench.methods import METHODS
from sswim_lab.bench.results import append_results, read_results


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(METHODS, "sswim", MeanOnly())
    monkeypatch.setitem(METHODS, "lightgbm", MeanOnly(fails_on=(1,)))
    write_set(tmp_path)
    return tmp_path


def test_accuracy_runs_and_shows_the_table(folder: Path) -> None:
    out = folder / "results.csv"
    command = ["bench", "accuracy", "--sets", "airfoil", "--repeats", 2, "--data", folder]
    result = invoke(*map(str, command), "--out", out)
    assert result.exit_code == 0, result.output
    for text in ("2 fits to do", "airfoil", "RMSE", "MNLP", "(SSWIM2)", "repeats", "±", "cells"):
        assert text in result.output
    assert len(read_results(out)) == 2
    again = invoke(*map(str, command), "--out", out)
    assert "0 fits to do, 2 done before" in again.output
    refused = invoke(*map(str, command), "--out", out, "--no-resume")
    assert refused.exit_code == 1
    assert "Error: " in refused.output
    assert "not overwritten" in refused.output
    assert len(read_results(out)) == 2


def test_a_failure_is_told_at_the_end(folder: Path) -> None:
    command = ["bench", "accuracy", "--sets", "airfoil", "--methods", "sswim,lightgbm"]
    result = invoke(*command, "--repeats", "2", "--data", folder, "--out", folder / "r.csv")
    assert result.exit_code == 1
    assert result.output.rstrip().endswith(
        "Failed: lightgbm on airfoil, repeat 1: RuntimeError: no luck"
    )
    *_, last = read_results(folder / "r.csv")
    assert last.failure == "RuntimeError: no luck"
    assert "1 of 2" in result.output  # repeats


def test_a_failure_is_repeated_when_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["bench", "accuracy", "--sets", "airfoil", "--methods", "lightgbm", "--repeats", "2"]
    places: list[str | Path] = ["--data", folder, "--out", folder / "r.csv"]
    assert invoke(*command, *places).exit_code == 1
    left = invoke(*command, *places)
    assert left.exit_code == 0  # nothing failed this time
    assert "0 fits to do, 2 done before" in left.output
    monkeypatch.setitem(METHODS, "lightgbm", MeanOnly())
    again = invoke(*command, *places, "--retry")
    assert again.exit_code == 0
    assert "1 fits to do, 1 done before" in again.output
    assert "1 of 2" not in again.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--sets", "boston"], "A data set must be one of"),
        (["--methods", "xgboost"], "A method must be one of"),
        (["--sets", "creep"], "creep.parquet does not exist"),
        (["--sets", "airfoil", "--workers", "0"], "workers must be at least 1"),
    ],
)
def test_mistakes_are_told_without_a_traceback(
    folder: Path, options: list[str], message: str
) -> None:
    out = folder / "results.csv"
    result = invoke("bench", "accuracy", *options, "--data", folder, "--out", out)
    assert result.exit_code == 1
    assert message in " ".join(result.output.split())
    assert not out.exists()


def test_tables_of_several_files(tmp_path: Path) -> None:
    append_results(tmp_path / "a.csv", [row("airfoil", "sswim", r, rmse=0.2) for r in range(2)])
    append_results(tmp_path / "b.csv", [row("airfoil", "lightgbm", rmse=0.3)])
    plain = invoke("bench", "table", tmp_path / "a.csv", tmp_path / "b.csv")
    assert plain.exit_code == 0
    assert "0.200 ±0.000" in plain.output
    assert "in error on 1, in MNLP on 0" in plain.output
    result = invoke("bench", "table", tmp_path / "a.csv", tmp_path / "b.csv", "--markdown")
    assert "| airfoil | RMSE | **0.200** | 0.300 | 0.235 (SSWIM2) |\n" in result.output
    one = invoke(
        "bench", "table", tmp_path / "a.csv", tmp_path / "b.csv", "--repeat", "1", "--markdown"
    )
    assert "| airfoil | RMSE | **0.200** | 0.235 (SSWIM2) |\n" in one.output
    compact = invoke("bench", "table", tmp_path / "a.csv", tmp_path / "b.csv", "--compact")
    assert "| airfoil | **0.200** | 0.300 (lightgbm) |" in compact.output
    missing = invoke("bench", "table", tmp_path / "none.csv")
    assert missing.exit_code == 1
    assert "does not exist" in missing.output
