"""Planning and running fits: what is there is kept, what fails is told."""

from __future__ import annotations

import multiprocessing
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench_helpers import MeanOnly, write_set

from sswim.bench.accuracy import Job, Row
from sswim.bench.methods import METHODS
from sswim.bench.results import read_results
from sswim.bench.runner import Bench, Failure, make_plan, run


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


def ignore(result: Row | Failure) -> None:
    pass


def test_what_is_there_is_not_done_again(folder: Path) -> None:
    seen: list[Row | Failure] = []
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
    assert str(failures[0]) == "lightgbm on airfoil, repeat 1: RuntimeError: no luck"
    assert len(read_results(bench.out)) == 10
    assert len(make_plan(bench).jobs) == 2


def test_results_are_not_overwritten(folder: Path) -> None:
    bench = make_bench(folder, out=folder / "results.csv", resume=False, repeats=1)
    run(bench, make_plan(bench), ignore)
    content = bench.out.read_bytes()
    with pytest.raises(FileExistsError, match="is there already and is not overwritten"):
        make_plan(bench)
    assert bench.out.read_bytes() == content


def test_large_sets_have_fewer_repeats(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sswim.bench.runner.MANY_ROWS", 100)
    jobs = make_plan(make_bench(folder)).jobs
    assert sum(job.set == "airfoil" for job in jobs) == 3
    assert sum(job.set == "concrete" for job in jobs) == 10
    assert len(make_plan(make_bench(folder, repeats=5)).jobs) == 10


def test_the_exact_process_is_left_out_of_large_sets(tmp_path: Path) -> None:
    write_set(tmp_path, "airfoil", 7502)
    write_set(tmp_path, "concrete", 7499)
    plan = make_plan(make_bench(tmp_path, "exact-gp", repeats=1))
    assert plan.jobs == (Job("concrete", "exact-gp", 0),)
    (note,) = plan.notes
    assert "exact-gp is left out on airfoil: 5001 training rows" in note


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"repeats": 0}, "repeats must be at least 1"),
        ({"workers": 0}, "workers must be at least 1"),
        ({"methods": ["nothing"]}, "A method must be one of"),
        ({"sets": ["boston"]}, "A data set must be one of"),
    ],
)
def test_mistakes_are_told(folder: Path, changes: dict[str, Any], message: str) -> None:
    settings: dict[str, Any] = {"sets": ["airfoil"], "methods": ["sswim"], "out": folder / "r.csv"}
    with pytest.raises(ValueError, match=message):
        make_plan(Bench(**(settings | changes), folder=str(folder)))


def test_names_have_commas_between(tmp_path: Path) -> None:
    bench = Bench.named("", "sswim, lightgbm", tmp_path / "results.csv")
    assert len(bench.sets) == 10
    assert bench.methods == ["sswim", "lightgbm"]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interruption_leaves_a_file_to_go_on_from(folder: Path, workers: int) -> None:
    bench = make_bench(folder, "hist-gradient-boosting", repeats=2, workers=workers)
    environment = dict(os.environ)
    others = set(multiprocessing.active_children())  # another test's, kept for the next use

    def interrupt(result: Row | Failure) -> None:
        assert isinstance(result, Row)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(bench, make_plan(bench), interrupt)
    assert len(read_results(bench.out)) == 1
    assert len(make_plan(bench).jobs) == 3
    assert set(multiprocessing.active_children()) <= others
    assert os.environ == environment


def test_processes_do_what_one_does(folder: Path) -> None:
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
        assert "FileNotFoundError" in failure.error
        scores.append({row.job: (row.rmse, row.mnlp) for row in read_results(out)})
    assert scores[0] == scores[1]
    assert len(scores[0]) == 2
