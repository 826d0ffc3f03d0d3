"""Worker processes that do one job after another."""

from __future__ import annotations

import multiprocessing
import os
import signal
from itertools import islice

import torch
from sswim_lab.bench.workers import run_in_processes


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


def threads_for(workers: int) -> int:
    return max(1, (os.cpu_count() or 1) // workers)


def test_a_process_that_dies_takes_only_its_job_with_it() -> None:
    others = set(multiprocessing.active_children())
    results = dict(run_in_processes(work, range(6), 2, died))
    assert sorted(results) == list(range(6))
    assert (results[2], results[3]) == ("died of -9", "died of 7")
    done_by = {results[job] for job in (0, 1, 4, 5)}
    assert len(done_by) <= 4  # one for each that died
    assert all(text.endswith(f"with {threads_for(2)}") for text in done_by)
    assert set(multiprocessing.active_children()) <= others


def test_closing_the_generator_ends_the_workers() -> None:
    others = set(multiprocessing.active_children())
    results = run_in_processes(work, [0, 1, 4, 5], 2, died)
    assert len(list(islice(results, 1))) == 1
    results.close()
    assert set(multiprocessing.active_children()) <= others


def test_a_process_whose_gpu_failed_is_replaced() -> None:
    others = set(multiprocessing.active_children())
    results = dict(run_in_processes(work, [0, 6, 1, 4], 1, died))
    assert list(results) == [0, 6, 1, 4]
    assert results[0] == results[6] != results[1] == results[4]
    assert results[0].endswith(f"with {threads_for(1)}")
    assert set(multiprocessing.active_children()) <= others
