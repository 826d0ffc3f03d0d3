"""The commands of the benchmark of optimisation."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.commands import invoke
from lab_builders.optimisation import fail
from sswim_lab.optimisation.methods import METHODS, Method
from sswim_lab.optimisation.runs import read_runs

COMMAND = ("bench", "optimisation", "--problems", "gramacy,chirp-step", "--methods", "sobol")
SMALL = ("--seeds", "2", "--evaluations", "8")


def test_runs_are_done_once_and_shown(tmp_path: Path) -> None:
    out = tmp_path / "new" / "o.jsonl"
    done = invoke(*COMMAND, *SMALL, "--out", out)
    assert done.exit_code == 0, done.output
    assert "4 runs to do" in done.output
    assert "left" not in done.output
    assert len(read_runs(out)) == 4
    assert "0 runs to do" in invoke(*COMMAND, *SMALL, "--out", out).output
    command = ("bench", "optimisation-table", out, "--evaluations", "8")
    table = invoke(*command, "--plots", tmp_path / "plots")
    assert table.exit_code == 0, table.output
    for text in ("gramacy", "chirp-step", "Median regret after 8 evaluations", "Wrote"):
        assert text in table.output
    assert (tmp_path / "plots" / "gramacy.png").exists()
    assert "| gramacy | 2 |" in invoke(*command, "--markdown").output


def test_what_is_left_after_the_time_limit_is_said(tmp_path: Path) -> None:
    result = invoke(*COMMAND, *SMALL, "--out", tmp_path / "o.jsonl", "--time-limit", "0")
    assert result.exit_code == 0
    assert "4 runs are left" in result.output


def test_failures_are_told_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "sobol", Method("sobol", fail))
    result = invoke(*COMMAND, "--seeds", "1", "--evaluations", "8", "--out", tmp_path / "o.jsonl")
    assert result.exit_code == 1
    assert "Failed: sobol on gramacy, seed 0: RuntimeError: no luck" in result.output


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    wrong = invoke("bench", "optimisation", "--problems", "nothing")
    assert wrong.exit_code == 1
    assert "Error: A problem must be one of" in wrong.output
    none = invoke("bench", "optimisation-table", tmp_path / "none.jsonl")
    assert none.exit_code == 1
    assert "Error: No run of 60 evaluations" in none.output
