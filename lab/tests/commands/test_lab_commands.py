"""The commands of the lab: ``sswim bench``, ``sswim datasets`` and ``sswim reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sswim_lab.commands.datasets
from builders.commands import invoke, prices
from lab_builders.bench import MeanOnly, fake_methods, row, write_set, write_sets
from lab_builders.optimisation import fail
from rich.console import Console
from sswim_lab.bench.methods import METHODS
from sswim_lab.bench.results import append_results, read_results
from sswim_lab.datasets import DATA_SETS, FOLDER_VARIABLE
from sswim_lab.optimisation.methods import METHODS as OPTIMISERS
from sswim_lab.optimisation.methods import Method
from sswim_lab.optimisation.runs import read_runs
from typer.testing import Result

from sswim.tables import write_table


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two small data sets; every method is the mean, lightgbm fails once and dkl always."""
    others = {"lightgbm": MeanOnly(fails_on=(1,)), "dkl": MeanOnly(fails_on=(0,))}
    fake_methods(monkeypatch, **others)
    write_set(tmp_path)
    write_sets(tmp_path, "concrete")
    return tmp_path


class Interrupting(MeanOnly):
    def fit(self, *arguments: object) -> Any:
        raise KeyboardInterrupt


def test_accuracy_is_measured_once_and_failures_on_request(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = folder / "r.csv"

    def accuracy(*options: str) -> Result:
        places: list[str | Path] = ["--data", folder, "--out", out]
        names = ("--sets", "airfoil", "--repeats", "2", "--methods", "sswim,lightgbm")
        return invoke("bench", "accuracy", *names, *places, *options)

    result = accuracy()
    assert result.exit_code == 1
    shown = ("4 fits to do", "airfoil", "RMSE", "MNLP", "(SSWIM2)", "1 of 2", "±", "cells")
    assert all(text in result.output for text in shown)
    failure = "Failed: lightgbm on airfoil, repeat 1: RuntimeError: no luck"
    assert result.output.rstrip().endswith(failure)
    assert read_results(out)[-1].failure == "RuntimeError: no luck"
    left = accuracy()
    assert left.exit_code == 0  # nothing failed this time
    assert "0 fits to do, 4 done before" in left.output
    refused = accuracy("--no-resume")
    assert refused.exit_code == 1
    assert "not overwritten" in refused.output
    assert len(read_results(out)) == 4
    monkeypatch.setitem(METHODS, "lightgbm", MeanOnly())
    again = accuracy("--retry")
    assert again.exit_code == 0
    assert "1 fits to do, 3 done before" in again.output
    assert "1 of 2" not in again.output


def test_tables_of_several_files(tmp_path: Path) -> None:
    append_results(tmp_path / "a.csv", [row("airfoil", "sswim", r, rmse=0.2) for r in range(2)])
    append_results(tmp_path / "b.csv", [row("airfoil", "lightgbm", rmse=0.3)])

    def table(*options: str) -> str:
        return invoke("bench", "table", tmp_path / "a.csv", tmp_path / "b.csv", *options).output

    assert "0.200 ±0.000" in table()
    assert "in error on 1, in MNLP on 0" in table()
    assert "| airfoil | RMSE | **0.200** | 0.300 | 0.235 (SSWIM2) |\n" in table("--markdown")
    one = table("--repeat", "1", "--markdown")
    assert "| airfoil | RMSE | **0.200** | 0.235 (SSWIM2) |\n" in one
    assert "| airfoil | **0.200** | 0.300 (lightgbm) |" in table("--compact")


def optimise(out: Path, *options: str, seeds: str = "2") -> Result:
    names = ("--problems", "gramacy,chirp-step", "--methods", "sobol", "--seeds", seeds)
    return invoke("bench", "optimisation", *names, "--evaluations", "8", "--out", out, *options)


def test_runs_of_optimisation_are_done_once_and_shown(tmp_path: Path) -> None:
    out = tmp_path / "new" / "o.jsonl"
    late = optimise(out, "--time-limit", "0")
    assert late.exit_code == 0
    assert "4 runs are left" in late.output
    done = optimise(out)
    assert done.exit_code == 0, done.output
    assert "4 runs to do" in done.output
    assert "left" not in done.output
    assert len(read_runs(out)) == 4
    assert "0 runs to do" in optimise(out).output
    command = ("bench", "optimisation-table", out, "--evaluations", "8")
    table = invoke(*command, "--plots", tmp_path / "plots")
    assert table.exit_code == 0, table.output
    for text in ("gramacy", "chirp-step", "Median regret after 8 evaluations", "Wrote"):
        assert text in table.output
    assert (tmp_path / "plots" / "gramacy.png").exists()
    assert "| gramacy | 2 |" in invoke(*command, "--markdown").output


def test_failures_of_optimisation_are_told_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OPTIMISERS, "sobol", Method("sobol", fail))
    result = optimise(tmp_path / "o.jsonl", seeds="1")
    assert result.exit_code == 1
    assert "Failed: sobol on gramacy, seed 0: RuntimeError: no luck" in result.output


def line(output: str, name: str) -> list[str]:
    """Return the words of the line of a data set."""
    return next(each.split() for each in output.splitlines() if each.startswith(f" {name} "))


def test_data_sets_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sswim_lab.commands.datasets, "output", Console(width=300))
    for name, n_rows in {"airfoil": 1503, "elevators": 16599, "creep": 1200}.items():
        pq.write_table(pa.table({"a": range(n_rows)}), tmp_path / f"{name}.parquet")
    (tmp_path / "song.parquet").write_bytes(b"no table")
    output = invoke("datasets", "--data", tmp_path).output
    for name, each in DATA_SETS.items():
        assert line(output, name)[1:3] == [f"{each.n_rows:,}", str(each.n_inputs)]
        assert all(text in output for text in (each.target, each.source, each.licence))
    assert line(output, "airfoil")[-1] == line(output, "elevators")[-1] == "yes"
    assert line(output, "creep")[-2:] == ["1,200", "rows"]
    assert line(output, "song")[-1] == "unreadable"
    assert line(output, "buzz")[-1] == "no"
    assert f"Available in {tmp_path}: elevators, airfoil, song, creep." in output
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    assert f"Available in {tmp_path}: elevators" in invoke("datasets").output
    shown = invoke("datasets", "bikeshare", "--data", tmp_path).output
    assert "casual + registered == cnt" in shown
    assert "https://archive.ics.uci.edu/static/public/275/bike+sharing+dataset.zip" in shown
    assert "17,379, of which two thirds train" in shown
    assert "dteday in seconds" in shown
    assert f", in {tmp_path}" in invoke("datasets", "creep", "--data", tmp_path).output
    assert "nowhere" in invoke("datasets", "prism_elevation").output


def test_experiments_are_listed_and_a_table_is_written(folder: Path) -> None:
    listed = invoke("reproduce").output
    assert all(name in listed for name in ("table-main", "figure-gramacy", "all"))
    command: list[str | Path] = ["reproduce", "table-main", "--data", folder]
    command += ["--out", folder / "out", "--repeats", "1"]
    result = invoke(*command)
    assert result.exit_code == 0, result.output
    for text in ("9 fits to do", "Wrote", "Failed: dkl on concrete, repeat 0: RuntimeError"):
        assert text in result.output
    assert (folder / "out" / "table-main.tex").exists()
    again = invoke(*command, "--retry", "--methods", "dkl, rffs")
    assert "1 fits to do, 1 done before" in again.output
    refused = invoke(*command, "--no-resume")
    assert refused.exit_code == 1
    assert "Error: " in refused.output


def test_an_interruption_says_how_to_go_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "rffs", Interrupting())
    places: list[str | Path] = ["--data", folder, "--out", folder / "out"]
    names = ("--methods", "sgpr,rffs", "--repeats", "1")
    result = invoke("reproduce", "table-main", *places, *names)
    assert result.exit_code == 130
    assert "run the same command with --resume to continue" in " ".join(result.output.split())
    assert len(read_results(folder / "out" / "fits.csv")) == 1


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("datasets boston", "A data set must be one of elevators, airfoil"),
        ("bench accuracy --methods xgboost", "A method must be one of"),
        ("bench accuracy --sets boston", "A data set must be one of"),
        ("bench accuracy --sets creep --data {folder}", "creep.parquet does not exist"),
        ("bench accuracy --workers 0", "workers must be at least 1"),
        ("bench table {folder}/none.csv", "does not exist"),
        ("bench table {folder}/t.csv", "must start with the columns"),
        ("bench optimisation --problems nothing", "A problem must be one of"),
        ("bench optimisation-table {folder}/none.jsonl", "No run of 60 evaluations"),
        ("reproduce table-9 --out {folder}/p", "An experiment must be one of table-main"),
        ("reproduce all --methods sswim --out {folder}/p", "--sets and --methods"),
        (
            "reproduce table-main --sets creep --data {folder} --out {folder}/p",
            "creep.parquet does",
        ),
        ("reproduce table-main --sets boston --out {folder}/p", "A data set must be one of"),
        ("reproduce table-main --methods xgboost --out {folder}/p", "A method must be one of"),
        ("reproduce figure-warp-1d --sets concrete --out {folder}/p", "figure"),
    ],
)
def test_mistakes_are_one_line(command: str, message: str, folder: Path) -> None:
    write_table(prices(4), folder / "t.csv")
    result = invoke(*(word.format(folder=folder) for word in command.split()))
    assert result.exit_code == 1
    *_, error = result.stderr.splitlines()
    assert error.startswith("Error: ")
    assert message in error
    assert result.stdout == ""
    assert not (folder / "p").exists()
