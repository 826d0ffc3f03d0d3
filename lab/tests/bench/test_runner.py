"""Planning and running fits: results are kept, failures are recorded."""

from __future__ import annotations

import multiprocessing
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lab_builders.bench import MeanOnly, write_set
from sswim_lab.bench.accuracy import Job, Row
from sswim_lab.bench.methods import METHODS
from sswim_lab.bench.results import append_results, read_results
from sswim_lab.bench.runner import FAILURE_LENGTH, Bench, make_plan, run, run_job
from sswim_lab.datasets import DATA_SETS


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(METHODS, "sswim", MeanOnly())
    monkeypatch.setitem(METHODS, "lightgbm", MeanOnly(fails_on=(1,)))
    write_set(tmp_path, "airfoil")
    write_set(tmp_path, "concrete", 30)
    return tmp_path


def make_bench(folder: Path, methods: str = "sswim", **others: Any) -> Bench:
    settings: dict[str, Any] = {"out": folder / "new" / "results.csv", "folder": str(folder)}
    return Bench(["airfoil", "concrete"], methods.split(","), **(settings | others))


def ignore(result: Row) -> None:
    pass


def test_finished_fits_are_not_repeated(folder: Path) -> None:
    seen: list[Row] = []
    bench = make_bench(folder, repeats=1)
    assert run(bench, make_plan(bench), seen.append) == []
    before = bench.out.read_text()
    assert read_results(bench.out) == seen
    more = make_bench(folder, repeats=2)
    plan = make_plan(more)
    assert plan.jobs == (Job("airfoil", "sswim", 1), Job("concrete", "sswim", 1))
    assert plan.progress == "2 fits to do, 2 done before."
    run(more, plan, ignore)
    assert bench.out.read_text().startswith(before)
    assert len(read_results(bench.out)) == 4
    assert make_plan(more).jobs == ()


def test_a_row_is_in_the_file_before_the_next_fit(folder: Path) -> None:
    bench = make_bench(folder, repeats=2)
    counts: list[int] = []
    run(bench, make_plan(bench), lambda result: counts.append(len(read_results(bench.out))))
    assert counts == [1, 2, 3, 4]


def test_a_fit_that_fails_does_not_stop_the_others(folder: Path) -> None:
    bench = make_bench(folder, "sswim,lightgbm", repeats=3)
    failures = run(bench, make_plan(bench), ignore)
    assert [failure.job for failure in failures] == [
        Job("airfoil", "lightgbm", 1),
        Job("concrete", "lightgbm", 1),
    ]
    assert [failure.failure for failure in failures] == ["RuntimeError: no luck"] * 2
    assert [bool(row.failure) for row in read_results(bench.out)].count(True) == 2
    assert len(read_results(bench.out)) == 12


def test_failures_are_repeated_only_when_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make_bench(folder, "lightgbm", repeats=2)
    run(bench, make_plan(bench), ignore)
    assert make_plan(bench).jobs == ()
    again = replace(bench, retry=True)
    assert [job.repeat for job in make_plan(again).jobs] == [1, 1]
    monkeypatch.setitem(METHODS, "lightgbm", MeanOnly())
    assert run(again, make_plan(again), ignore) == []
    assert make_plan(again).jobs == ()  # the later row counts
    assert len(read_results(bench.out)) == 6


def test_a_failure_message_is_one_short_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise MemoryError("too\nmuch " * 100)

    monkeypatch.setattr("sswim_lab.bench.runner.run_fit", fail)
    result = run_job(Job("airfoil", "sswim", 0), "cpu", str(folder))
    assert result.failure.startswith("MemoryError: too much too much")
    assert result.failure.endswith(" …")
    assert len(result.failure) <= FAILURE_LENGTH


def test_results_are_not_overwritten(folder: Path) -> None:
    bench = make_bench(folder, out=folder / "results.csv", resume=False, repeats=1)
    run(bench, make_plan(bench), ignore)
    content = bench.out.read_bytes()
    with pytest.raises(FileExistsError, match="exists already and is not overwritten"):
        make_plan(bench)
    assert bench.out.read_bytes() == content


def test_large_sets_have_fewer_repeats(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sswim_lab.bench.runner.MANY_ROWS", 100)
    jobs = make_plan(make_bench(folder)).jobs
    assert sum(job.set == "airfoil" for job in jobs) == 3
    assert sum(job.set == "concrete" for job in jobs) == 5
    assert len(make_plan(make_bench(folder, default_repeats=10)).jobs) == 13
    assert len(make_plan(make_bench(folder, repeats=5)).jobs) == 10


def test_the_exact_gp_is_left_out_on_large_sets(tmp_path: Path) -> None:
    write_set(tmp_path, "airfoil", 7502)
    write_set(tmp_path, "concrete", 7499)
    plan = make_plan(make_bench(tmp_path, "exact-gp", repeats=1))
    assert plan.jobs == (Job("concrete", "exact-gp", 0),)
    (note,) = plan.notes
    assert "exact-gp is left out on airfoil: 5001 training rows" in note
    (row,) = plan.left_out
    assert row.job == Job("airfoil", "exact-gp", 0)
    assert row.failure == ("left out: 5001 training rows are more than the 5000 it is meant for")


def test_fits_are_recorded_as_left_out_only_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "sswim", MeanOnly(max_rows=50))
    bench = make_bench(folder, out=folder / "results.csv", repeats=2)
    plan = make_plan(bench)
    assert [row.job for row in plan.left_out] == [Job("airfoil", "sswim", r) for r in range(2)]
    append_results(bench.out, plan.left_out)
    for retry in (False, True):
        assert make_plan(replace(bench, retry=retry)).left_out == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"repeats": 0}, "repeats must be at least 1"),
        ({"workers": 0}, "workers must be at least 1"),
        ({"methods": ["nothing"]}, "A method must be one of"),
        ({"sets": ["boston"]}, "A data set must be one of"),
    ],
)
def test_wrong_settings_raise_an_error(folder: Path, changes: dict[str, Any], message: str) -> None:
    settings: dict[str, Any] = {"sets": ["airfoil"], "methods": ["sswim"], "out": folder / "r.csv"}
    with pytest.raises(ValueError, match=message):
        make_plan(Bench(**(settings | changes), folder=str(folder)))


def test_names_are_separated_by_commas(tmp_path: Path) -> None:
    bench = Bench.named("", "sswim, lightgbm", tmp_path / "results.csv")
    assert len(bench.sets) == 16
    assert set(bench.sets) <= set(DATA_SETS)
    assert bench.methods == ("sswim", "lightgbm")


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupted_run_can_be_continued(folder: Path, workers: int) -> None:
    bench = make_bench(folder, "hist-gradient-boosting", repeats=2, workers=workers)
    environment = dict(os.environ)
    others = set(multiprocessing.active_children())  # of another test

    def interrupt(result: Row) -> None:
        assert not result.failure
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(bench, make_plan(bench), interrupt)
    assert len(read_results(bench.out)) == 1
    assert len(make_plan(bench).jobs) == 3
    assert set(multiprocessing.active_children()) <= others
    assert os.environ == environment


def test_several_processes_make_the_same_results_as_one(folder: Path) -> None:
    write_set(folder, "creep", 900)
    scores = []
    for workers in (1, 2):
        out = folder / f"{workers}.csv"
        bench = make_bench(folder, "hist-gradient-boosting", repeats=1, workers=workers, out=out)
        bench = replace(bench, sets=["airfoil", "creep", "concrete"])
        plan = make_plan(bench)
        (folder / "creep.parquet").rename(folder / "away")  # one fit fails, the others go on
        (failure,) = run(bench, plan, ignore)
        (folder / "away").rename(folder / "creep.parquet")
        assert failure.job.set == "creep"
        assert "FileNotFoundError" in failure.failure
        worked = [row for row in read_results(out) if not row.failure]
        scores.append({row.job: (row.rmse, row.mnlp) for row in worked})
    assert scores[0] == scores[1]
    assert len(scores[0]) == 2


def killed(job: Job, device: str, folder: str | None) -> Row:
    """Take the place of a fit that runs out of memory."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def test_a_process_that_is_killed_is_a_failure_of_its_fit(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sswim_lab.bench.runner.run_job", killed)
    bench = replace(make_bench(folder, repeats=1, workers=2), sets=["airfoil"])
    (failure,) = run(bench, make_plan(bench), ignore)
    assert failure.job == Job("airfoil", "sswim", 0)
    assert failure.failure == "ProcessDied: its exit code is -9, often because memory ran out"
    assert read_results(bench.out)[0].failure == failure.failure
