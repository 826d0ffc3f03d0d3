from __future__ import annotations

import os
import time
from typing import Any

import pytest
import torch
from builders.processes import run_processes

from sswim.base.mapping_diff import differences
from sswim.distributed.processes import ALONE, Processes
from sswim.posterior.statistics import Statistics


def of_rank(rank: int) -> Statistics:
    generator = torch.Generator().manual_seed(rank)
    shapes = ((1, 3, 3), (3, 2), (2,), (2,), ())
    return Statistics(
        *(torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    )


def exchange(processes: Processes) -> dict[str, Any]:
    rank = processes.rank
    return {
        "sum": processes.all_sum(of_rank(rank)).tensors(),
        "agreed": processes.broadcast_tensor(torch.full((2,), float(rank))).tolist(),
        "any": (processes.any(rank == 1), processes.any(False)),
        "gathered": processes.all_gather(rank),
        "told": processes.broadcast(f"from {rank}"),
        "together": processes.run_everywhere(lambda: rank**2),
    }


@pytest.mark.parametrize("n", [1, 3])
def test_what_processes_exchange(n: int) -> None:
    expected = [of_rank(0).tensors(), of_rank(1).tensors(), of_rank(2).tensors()][:n]
    for result in run_processes(n, exchange):
        for ours, *theirs in zip(result["sum"], *expected, strict=True):
            assert ours.dtype == torch.float64
            assert torch.allclose(ours, sum(theirs, torch.zeros_like(ours)), atol=1e-14)
        assert result["agreed"] == [0.0, 0.0]
        assert result["any"] == (n > 1, False)
        assert result["gathered"] == list(range(n))
        assert result["told"] == "from 0"
        assert result["together"] == [rank**2 for rank in range(n)]


def fail_in_one(processes: Processes) -> None:
    def work() -> None:
        if processes.rank == 1:
            raise ValueError("row 7 is no number")

    processes.run_everywhere(work)


def test_an_error_in_one_is_an_error_in_all() -> None:
    assert run_processes(2, fail_in_one) == [("ValueError", "row 7 is no number")] * 2


def disagree(processes: Processes) -> None:
    n_components = 128 if processes.rank == 1 else 256
    processes.require_same("settings", {"depth": 1, "n_components": n_components})


def test_a_process_that_was_told_something_else_is_named() -> None:
    first, second = run_processes(2, disagree)
    assert first[0] == second[0] == "ProcessError"
    assert "Process 1 differs from process 0: n_components is 128, not 256" in first[1]
    assert "Process 0 differs from process 1: n_components is 256, not 128" in second[1]


def die(processes: Processes) -> float:
    processes.all_gather(0)
    if processes.rank == 1:
        os._exit(1)
    processes.all_sum_tensors([torch.zeros(3)])
    return 0.0


def test_a_process_that_dies_is_told_of() -> None:
    first, second = run_processes(2, die)
    assert second == "died"
    assert first[0] == "ProcessError"
    assert "no longer answers (this is process 0)" in first[1]


def hang(processes: Processes) -> float:
    processes.all_gather(0)
    if processes.rank == 1:
        time.sleep(6)
    began = time.perf_counter()
    try:
        processes.all_sum_tensors([torch.zeros(3)])
    except RuntimeError:
        return time.perf_counter() - began
    return -1.0


def test_a_process_that_does_not_answer_is_given_up_in_time() -> None:
    assert 1 < run_processes(2, hang, timeout=2.0)[0] < 5


def test_alone_nothing_is_sent() -> None:
    record = of_rank(0)
    assert ALONE.all_sum(record) is record
    ALONE.require_same("settings", {"depth": 1})


def test_differences_are_named_at_any_depth() -> None:
    ours = {"a": 1, "b": {"c": 2, "d": [3]}, "e": 4}
    assert differences(ours, ours) == []
    theirs = {"a": 1, "b": {"c": 5, "d": [3, 4]}, "f": 6}
    assert differences(theirs, ours) == [
        "b.c is 5, not 2",
        "b.d is [3, 4], not [3]",
        "f is 6, not None",
        "e is None, not 4",
    ]
