from __future__ import annotations

import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Barrier
from typing import Any, TypeVar

import pytest

from sswim.distributed import processes as heartbeat
from sswim.distributed.processes import ALONE, Processes, run_in_thread, run_with_heartbeat

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
    monkeypatch.setattr(heartbeat, "HEARTBEAT_SECONDS", 0.05)


def test_one_process_may_have_much_more_work_than_the_other() -> None:
    much, little = Work(150), Work(3)
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


def test_alone_all_steps_are_taken() -> None:
    work = Work(8)
    run_with_heartbeat(ALONE, work.steps())
    assert work.done == 8
    assert work.closed


def test_functions_run_in_threads_of_all_processes() -> None:
    exchange = Exchange()

    def run(rank: int) -> str:
        def work() -> str:
            time.sleep(0.3 * rank)
            return f"of {rank}"

        return run_in_thread(Thread(rank, 2, exchange), work)

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(run, (0, 1))) == ["of 0", "of 1"]


def test_an_error_ends_the_wait_for_a_thread_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "HEARTBEAT_SECONDS", 0.1)
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
