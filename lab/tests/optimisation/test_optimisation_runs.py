"""Runs of methods on problems, and the seconds of their suggestions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import suggestion_seconds
from lab_builders.optimisation import fail, made_up_run, skip_without_libraries
from scripting import read_lines
from sswim_lab.optimisation.methods import METHODS, Method
from sswim_lab.optimisation.runs import (
    Bench,
    Job,
    Run,
    append_run,
    do_run,
    do_runs,
    missing_runs,
    read_runs,
)

from sswim.base.validation import UserError


def make_bench(folder: Path, **others: Any) -> Bench:
    settings: dict[str, Any] = {"seeds": 2, "evaluations": 8, "out": folder / "new" / "o.jsonl"}
    return Bench(("gramacy", "chirp-step"), ("sobol",), **(settings | others))


def ignore(run: Run) -> None:
    pass


def test_a_tiny_run_of_a_gp_starts_with_the_points_of_sobol() -> None:
    skip_without_libraries(METHODS["gp-nei"])
    gp, sobol = (do_run(Job("gramacy", name, 0, 8)) for name in ("gp-nei", "sobol"))
    assert gp.failure == sobol.failure == ""
    assert gp.n_first == 5
    assert gp.values[:5] == sobol.values[:5]
    assert gp.values[5:] != sobol.values[5:]
    for run in (gp, sobol):
        assert len(run.values) == 8
        assert len(run.seconds) == 3
    assert gp.settings["samples"] == 128
    assert "botorch" in gp.versions


def test_finished_runs_are_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="seeds must be at least 1"):
        make_bench(tmp_path, seeds=0)
    bench, late = make_bench(tmp_path), make_bench(tmp_path, time_limit=0.0)
    jobs = missing_runs(bench)
    assert do_runs(late, jobs, ignore) == []
    assert missing_runs(bench) == jobs  # no run starts after the time limit
    pairs = [(seed, name) for seed in (0, 1) for name in ("gramacy", "chirp-step")]
    assert [(job.seed, job.problem) for job in jobs] == pairs
    counts: list[int] = []
    assert do_runs(bench, jobs[:3], lambda run: counts.append(len(read_runs(bench.out)))) == []
    assert counts == [1, 2, 3]
    assert missing_runs(bench) == jobs[3:]
    do_runs(bench, jobs[3:], ignore)
    assert [run.job for run in read_runs(bench.out)] == list(jobs)
    assert read_runs(bench.out)[0].values == do_run(jobs[0]).values


def test_a_failure_is_stored_with_the_values_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "sobol", Method("sobol", fail))
    bench = make_bench(tmp_path)
    failures = do_runs(bench, missing_runs(bench), ignore)
    assert len(failures) == 4
    assert read_runs(bench.out)[0].failure == "RuntimeError: no luck"
    assert len(read_runs(bench.out)[0].values) == 6
    assert missing_runs(bench) == ()
    assert len(missing_runs(make_bench(tmp_path, retry=True))) == 4


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "o.jsonl"
    run = made_up_run("gramacy", "sobol", [1.0, 0.5, 0.25])
    append_run(path, run)
    assert read_runs(path) == [run]
    path.write_text(path.read_text() + '{"problem": "gramacy"}\n')
    with pytest.raises(UserError, match=r"Line 2 of .* is not a run"):
        read_runs(path)
    assert read_runs(tmp_path / "none.jsonl") == []


def test_medians_of_every_method_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suggestion_seconds, "METHODS", ("sobol",))
    monkeypatch.setattr(suggestion_seconds, "PROBLEMS", ("gramacy",))
    out = tmp_path / "seconds.jsonl"
    arguments = ["--rows", "7", "--threads", "1", "--repeats", "2", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["suggestion_seconds.py", *arguments])
    suggestion_seconds.main()
    [line] = read_lines(out)
    assert (line["problem"], line["rows"], line["threads"]) == ("gramacy", 7, 1)
    assert line["seconds"]["sobol"] >= 0
