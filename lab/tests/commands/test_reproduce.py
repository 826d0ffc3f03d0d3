"""The command ``sswim reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders.commands import invoke, run_command
from lab_builders.bench import MeanOnly, fake_methods, write_sets
from sswim_lab.bench.methods import METHODS
from sswim_lab.bench.results import read_results
from sswim_lab.paper.command import EXPERIMENTS


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    fake_methods(monkeypatch, dkl=MeanOnly(fails_on=(0,)))
    write_sets(tmp_path, "concrete")
    return tmp_path


def test_without_a_name_there_is_a_list() -> None:
    result = invoke("reproduce")
    assert result.exit_code == 0
    for name in ("table-main", "figure-gramacy", "all"):
        assert name in result.output


def test_a_table_is_written_and_failures_are_told(folder: Path) -> None:
    command: list[str | Path] = [
        "reproduce",
        "table-main",
        "--data",
        folder,
        "--out",
        folder / "out",
    ]
    result = invoke(*command, "--repeats", "1")
    assert result.exit_code == 0, result.output
    for text in ("9 fits to do", "Wrote", "Failed: dkl on concrete, repeat 0: RuntimeError"):
        assert text in result.output
    assert (folder / "out" / "table-main.tex").exists()
    again = invoke(*command, "--repeats", "1", "--retry", "--methods", "dkl, rffs")
    assert "1 fits to do, 1 done before" in again.output
    refused = invoke(*command, "--no-resume")
    assert refused.exit_code == 1
    assert "Error: " in refused.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table-9"], "An experiment must be one of table-main"),
        (["table-main", "--sets", "boston"], "A data set must be one of"),
        (["table-main", "--methods", "xgboost"], "A method must be one of"),
    ],
)
def test_mistakes_are_told_without_a_traceback(
    folder: Path, arguments: list[str], message: str
) -> None:
    out = folder / "out"
    result = invoke("reproduce", *arguments, "--data", folder, "--out", out)
    assert result.exit_code == 1
    assert message in " ".join(result.output.split())
    assert not out.exists()


def test_an_interruption_says_how_to_go_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupting(MeanOnly):
        def fit(self, *arguments: object) -> Any:
            raise KeyboardInterrupt

    monkeypatch.setitem(METHODS, "rffs", Interrupting())
    command: list[str | Path] = [
        "reproduce",
        "table-main",
        "--data",
        folder,
        "--out",
        folder / "out",
    ]
    result = invoke(*command, "--methods", "sgpr,rffs", "--repeats", "1")
    assert result.exit_code == 130
    assert "run the same command with --resume to continue" in " ".join(result.output.split())
    assert len(read_results(folder / "out" / "fits.csv")) == 1


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["--data", "nowhere"], id="synthetic rows"),
        pytest.param([], id="available data sets", marks=pytest.mark.slow),
    ],
)
def test_a_quick_run_of_everything(tmp_path: Path, options: list[str]) -> None:
    result = run_command("reproduce", "all", "--quick", "--out", tmp_path / "out", *options)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Failed" not in result.stderr
    outputs = {path.stem for path in (tmp_path / "out").iterdir()}
    assert outputs >= {"fits", *EXPERIMENTS}
