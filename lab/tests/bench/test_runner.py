"""Methods by their names; planning and running fits, also in worker processes."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from lab_builders.bench import MeanOnly, write_set
from lab_builders.peers import skip_without_libraries
from sswim_lab.bench.accuracy import Job, Row
from sswim_lab.bench.methods import ABLATIONS, METHODS, NEIGHBOURS, require_method, versions
from sswim_lab.bench.results import append_results, read_results
from sswim_lab.bench.runner import FAILURE_LENGTH, Bench, make_plan, run, run_job
from sswim_lab.bench.workers import run_in_processes
from sswim_lab.peers.protocol import Method
from sswim_lab.peers.sswim_method import SSWIM


@pytest.mark.parametrize("name", METHODS)
def test_methods_have_settings_and_versions(name: str) -> None:
    skip_without_libraries(name)
    method = require_method(name)
    assert isinstance(method, Method)
    assert method.device("cpu") == "cpu"
    settings = dict(method.settings())
    assert json.loads(json.dumps(settings)).keys() == settings.keys()
    if "gpytorch" in method.libraries:
        assert {"kernel", "ard", "dtype"} < settings.keys()
        assert (settings["optimiser"] == "adam") == ("learning_rate" in settings)
        assert vars(method).items() <= settings.items()
    if name in NEIGHBOURS:
        assert f"neighbours{method.settings()['depth']}" in name
    elif isinstance(method, SSWIM):
        assert len(method.settings()) == (1 if name in ABLATIONS else 0)
    else:
        assert method.settings()
    assert all(library in versions(method) for library in ("sswim 0", *method.libraries))
    most = {"exact-gp": 5000, "exact-gp-well-trained": 10_000}
    most |= dict.fromkeys(("gp", "bwgp", "mlwgp3", "mlwgp20"), 5000)
    assert method.max_rows == most.get(name)


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        *((name, "peers") for name in ("lightgbm", "catboost", "exact-gp", "gpboost-vecchia")),
        *((name, "strong-peers") for name in ("lgbm-td", "realmlp-td", "ngboost", "tabm-d")),
    ],
)
def test_missing_libraries_and_methods_raise(
    name: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match=r"must be one of sswim, .*mlwgp20\. Got 'xgboost'"):
        require_method("xgboost")
    library = METHODS[name].libraries[0]
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ValueError, match=rf"needs {library}, .* pip install 'sswim-lab\[{extra}\]"):
        require_method(name)


def test_no_library_of_a_peer_is_imported_before_a_fit() -> None:
    libraries = ("catboost", "gpboost", "gpytorch", "lightgbm", "ngboost", "pytabkit", "xrfm")
    code = f"import sys, sswim_lab.bench.methods; assert not {{*{libraries}}} & {{*sys.modules}}"
    subprocess.run([sys.executable, "-c", code], check=True)


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


def test_finished_fits_are_in_the_file_and_not_repeated(folder: Path) -> None:
    bench = make_bench(folder, repeats=1)
    counts: list[int] = []
    ended = run(bench, make_plan(bench), lambda _: counts.append(len(read_results(bench.out))))
    assert ended == []
    assert counts == [1, 2]
    before = bench.out.read_text()
    more = make_bench(folder, repeats=2)
    plan = make_plan(more)
    assert plan.jobs == (Job("airfoil", "sswim", 1), Job("concrete", "sswim", 1))
    assert plan.progress == "2 fits to do, 2 done before."
    run(more, plan, ignore)
    assert bench.out.read_text().startswith(before)
    assert make_plan(more).jobs == ()


def test_a_fit_that_fails_does_not_stop_the_others(folder: Path) -> None:
    bench = make_bench(folder, "sswim,lightgbm", repeats=3)
    failures = run(bench, make_plan(bench), ignore)
    failed = [Job(name, "lightgbm", 1) for name in ("airfoil", "concrete")]
    assert [failure.job for failure in failures] == failed
    assert [failure.failure for failure in failures] == ["RuntimeError: no luck"] * 2
    rows = read_results(bench.out)
    assert [row.job for row in rows if row.failure] == failed
    assert len(rows) == 12
    assert make_plan(bench).jobs == ()
    assert make_plan(replace(bench, retry=True)).jobs == tuple(failed)


def test_a_failure_message_is_one_short_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise MemoryError("too\nmuch " * 100)

    monkeypatch.setattr("sswim_lab.bench.runner.run_fit", fail)
    result = run_job(Job("airfoil", "sswim", 0), "cpu", str(folder))
    assert result.failure.startswith("MemoryError: too much too much")
    assert result.failure.endswith(" …")
    assert len(result.failure) <= FAILURE_LENGTH


def test_large_sets_have_fewer_repeats(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sswim_lab.bench.runner.MANY_ROWS", 100)
    jobs = make_plan(make_bench(folder)).jobs
    assert sum(job.set == "airfoil" for job in jobs) == 3
    assert sum(job.set == "concrete" for job in jobs) == 5
    assert len(make_plan(make_bench(folder, default_repeats=10)).jobs) == 13
    assert Bench.named("", "sswim, lightgbm", folder).methods == ("sswim", "lightgbm")
    assert len(Bench.named("", "sswim", folder).sets) == 16
    assert len(make_plan(make_bench(folder, repeats=5)).jobs) == 10


def test_fits_of_too_many_rows_are_left_out_and_recorded_once(folder: Path) -> None:
    write_set(folder, "concrete", 7502)
    bench = make_bench(folder, "exact-gp", repeats=1)
    plan = make_plan(bench)
    assert plan.jobs == (Job("airfoil", "exact-gp", 0),)
    (note,) = plan.notes
    assert "exact-gp is left out on concrete: 5001 training rows" in note
    (row,) = plan.left_out
    assert row.job == Job("concrete", "exact-gp", 0)
    assert row.failure == "left out: 5001 training rows are more than the 5000 it is meant for"
    bench.out.parent.mkdir()
    append_results(bench.out, plan.left_out)
    for retry in (False, True):
        assert make_plan(replace(bench, retry=retry)).left_out == ()


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
        assert failure.failure.startswith("FileNotFoundError")
        worked = [row for row in read_results(out) if not row.failure]
        scores.append({row.job: (row.rmse, row.mnlp) for row in worked})
    assert scores[0] == scores[1]


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


def work(job: int) -> tuple[int, str]:
    """Die by a signal, exit with a code, break the GPU, or return the process id."""
    if job == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    if job == 3:
        raise SystemExit(7)
    if job == 6:
        torch.cuda.is_initialized = lambda: True
        torch.cuda.synchronize = _broken  # type: ignore[assignment]
    return job, f"{os.getpid()} with {os.environ['OMP_NUM_THREADS']}"


def _broken() -> None:
    raise RuntimeError("CUDA error: an illegal memory access was encountered")


def died(job: int, code: int | None) -> tuple[int, str]:
    return job, f"died of {code}"


def test_a_process_that_dies_takes_only_its_job_and_a_broken_gpu_its_process() -> None:
    others = set(multiprocessing.active_children())
    results = dict(run_in_processes(work, [0, 6, 1, 2, 4, 3, 5], 1, died))
    assert list(results) == [0, 6, 1, 2, 4, 3, 5]
    assert (results[2], results[3]) == ("died of -9", "died of 7")
    assert results[0] == results[6]
    assert len({results[job] for job in (0, 1, 4, 5)}) == 4
    assert results[0].endswith(f"with {os.cpu_count()}")
    assert set(multiprocessing.active_children()) <= others
