from __future__ import annotations

import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Barrier
from typing import Any, TypeVar

import pytest

from sswim.distributed import heartbeat as turns
from sswim.distributed.heartbeat import run_in_thread, run_with_heartbeat
from sswim.distributed.processes import ALONE, Processes

T = TypeVar("T")


class Room:
    """Where two threads that stand for processes meet; nobody waits for long."""

    def __init__(self) -> None:
        self.values: list[Any] = [None, None]
        self.barrier = Barrier(2, timeout=5.0)


@dataclass(frozen=True)
class Thread(Processes):
    size: int = 2
    room: Room = field(default_factory=Room)

    def gather(self, value: T) -> list[T]:
        self.room.values[self.rank] = value
        self.room.barrier.wait()
        values = list(self.room.values)
        self.room.barrier.wait()
        return values


@dataclass
class Work:
    """Steps that take their time; the last may fail."""

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
    """The errors of two processes."""
    room = Room()
    with ThreadPoolExecutor(2) as pool:
        futures = [
            pool.submit(run_with_heartbeat, Thread(rank, room=room), work.steps())
            for rank, work in enumerate(works)
        ]
        return [future.exception() for future in futures]


@pytest.fixture(autouse=True)
def _short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "HEARTBEAT_SECONDS", 0.05)


def test_one_may_have_more_to_do_than_the_other_would_wait_for() -> None:
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


def test_work_side_by_side() -> None:
    room = Room()

    def run(rank: int) -> str:
        def work() -> str:
            time.sleep(0.3 * rank)
            return f"of {rank}"

        return run_in_thread(Thread(rank, 2, room), work)

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(run, (0, 1))) == ["of 0", "of 1"]


def test_who_works_on_hears_of_an_error_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "HEARTBEAT_SECONDS", 0.1)
    room, ended = Room(), []

    def run(rank: int) -> None:
        def work() -> None:
            if rank == 0:
                raise ValueError("row 7 is no number")
            time.sleep(3)
            ended.append(rank)

        with pytest.raises(ValueError, match="row 7"):
            run_in_thread(Thread(rank, 2, room), work)
        assert not ended

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, (0, 1)))
