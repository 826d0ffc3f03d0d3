"""What processes exchange, how their errors and deaths are noticed, and the shares of rows."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Barrier
from typing import Any, TypeVar

import pytest
import torch
from builders.processes import run_processes

from sswim.distributed.processes import (
    ALL_ROWS,
    ALONE,
    Processes,
    Share,
    run_in_thread,
    run_with_heartbeat,
)
from sswim.members.linear_regression import Statistics


def random_statistics(rank: int) -> Statistics:
    generator = torch.Generator().manual_seed(rank)
    shapes = ((1, 3, 3), (3, 2), (2,), (2,), ())
    return Statistics(
        *(torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    )


def exchange(processes: Processes) -> dict[str, Any]:
    rank = processes.rank
    return {
        "all_sum": processes.all_sum(random_statistics(rank)).tensors(),
        "broadcast_tensor": processes.broadcast_tensor(torch.full((2,), float(rank))).tolist(),
        "any": (processes.any(rank == 1), processes.any(False)),
        "all_gather": processes.all_gather(rank),
        "broadcast": processes.broadcast(f"from {rank}"),
        "run_everywhere": processes.run_everywhere(lambda: rank**2),
    }


@pytest.mark.parametrize("n", [1, 3])
def test_what_processes_exchange(n: int) -> None:
    expected = [random_statistics(rank).tensors() for rank in range(n)]
    for result in run_processes(n, exchange):
        for ours, *theirs in zip(result["all_sum"], *expected, strict=True):
            assert ours.dtype == torch.float64
            assert torch.allclose(ours, sum(theirs, torch.zeros_like(ours)), atol=1e-14)
        assert result["broadcast_tensor"] == [0.0, 0.0]
        assert result["any"] == (n > 1, False)
        assert result["all_gather"] == list(range(n))
        assert result["broadcast"] == "from 0"
        assert result["run_everywhere"] == [rank**2 for rank in range(n)]


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


def test_a_process_with_other_settings_is_named() -> None:
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


def test_the_death_of_a_process_is_reported() -> None:
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


def test_a_single_process_sends_nothing_and_has_all_rows() -> None:
    assert Processes().share == ALL_ROWS
    assert ALL_ROWS.span(10) == (0, 10)
    record = random_statistics(0)
    assert ALONE.all_sum(record) is record
    ALONE.require_same("settings", {"depth": 1})


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("n_rows", [0, 1, 6, 7, 100])
def test_shares_are_equal_and_cover_every_row_once(size: int, n_rows: int) -> None:
    spans = [Share(rank, size).span(n_rows) for rank in range(size)]
    assert [row for first, end in spans for row in range(first, end)] == list(range(n_rows))
    lengths = [end - first for first, end in spans]
    assert max(lengths) - min(lengths) <= 1


T = TypeVar("T")


class Exchange:
    """Exchanges values between two threads that stand for processes; none waits for long."""

    def __init__(self) -> None:
        self.values: list[Any] = [None, None]
        self.barrier = Barrier(2, timeout=5.0)


@dataclass(frozen=True)
class Thread(Processes):
    """A thread that stands for one of two processes."""

    size: int = 2
    exchange: Exchange = field(default_factory=Exchange)

    def all_gather(self, value: T) -> list[T]:
        self.exchange.values[self.rank] = value
        self.exchange.barrier.wait()
        values = list(self.exchange.values)
        self.exchange.barrier.wait()
        return values


@dataclass
class Work:
    """Steps that take some time; the last may fail."""

    n_steps: int
    failing: bool = False
    done: int = 0
    closed: bool = False

    def steps(self) -> Generator[None, None, None]:
        try:
            for _ in range(self.n_steps):
                time.sleep(0.01)
                self.done += 1
                yield
            if self.failing:
                raise ValueError("row 7 is no number")
        finally:
            self.closed = True


def errors_of(*works: Work) -> list[BaseException | None]:
    """Run work in two processes, and return the error of each."""
    exchange = Exchange()
    with ThreadPoolExecutor(2) as pool:
        futures = [
            pool.submit(run_with_heartbeat, Thread(rank, exchange=exchange), work.steps())
            for rank, work in enumerate(works)
        ]
        return [future.exception() for future in futures]


@pytest.fixture(autouse=True)
def _short_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sswim.distributed.processes.HEARTBEAT_SECONDS", 0.05)


def test_one_process_may_have_much_more_work_than_the_other() -> None:
    much, little, alone = Work(150), Work(3), Work(8)
    run_with_heartbeat(ALONE, alone.steps())
    assert (alone.done, alone.closed) == (8, True)
    assert errors_of(much, little) == [None, None]
    assert (much.done, little.done) == (150, 3)
    assert much.closed


def test_an_error_of_one_ends_the_work_of_both_soon() -> None:
    much, little = Work(1000), Work(3, failing=True)
    for error in errors_of(much, little):
        assert isinstance(error, ValueError)
        assert str(error) == "row 7 is no number"
    assert much.done < 100
    assert much.closed


def test_functions_run_in_threads_of_all_processes() -> None:
    exchange = Exchange()

    def run(rank: int) -> str:
        def work() -> str:
            time.sleep(0.3 * rank)
            return f"of {rank}"

        return run_in_thread(Thread(rank, 2, exchange), work)

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(run, (0, 1))) == ["of 0", "of 1"]


def test_an_error_ends_the_wait_for_a_thread_elsewhere() -> None:
    exchange, ended = Exchange(), []

    def run(rank: int) -> None:
        def work() -> None:
            if rank == 0:
                raise ValueError("row 7 is no number")
            time.sleep(3)
            ended.append(rank)

        with pytest.raises(ValueError, match="row 7"):
            run_in_thread(Thread(rank, 2, exchange), work)
        assert not ended

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, (0, 1)))
