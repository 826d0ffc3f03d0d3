"""Work on chunks by several threads, each with one core."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


def begin_worker() -> None:
    """Prepare a thread of a pool: one core, and no denormal numbers."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Take numbers below 1e-308 as zero in this thread.

    Expected features of very uncertain inputs are so small, and a processor computes with such
    numbers a hundred times as slowly as with others.
    """
    was_on = bool(torch.tensor(1e-310, dtype=torch.float64) * 1 == 0)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(was_on)


@contextmanager
def one_core() -> Iterator[None]:
    """Compute on one core.

    Matrices of a hundred rows are factorised no faster by several, and many times as slowly where
    other programs use these.
    """
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)


@contextmanager
def map_on_cores() -> Iterator[Callable[..., Iterable[Any]]]:
    """Compute on one core, but for the function that this yields.

    It is a ``map`` whose calls run at once, each on a core of its own, on as many threads as
    PyTorch would use. The threads live on between its uses, which may be many and short.
    """
    n_threads = torch.get_num_threads()
    with one_core():
        if n_threads == 1:
            yield map
        else:
            with ThreadPoolExecutor(n_threads, initializer=begin_worker) as pool:
                yield pool.map


def map_in_threads(function: Callable[[ItemT], ResultT], items: Sequence[ItemT]) -> list[ResultT]:
    """Apply a function to each item, on as many threads as PyTorch would use.

    Batches of small factorisations run on one core however many there are, so each core gets
    batches of its own. Gradients are recorded if they are in the thread of the caller.
    """
    n_threads = torch.get_num_threads()
    workers = min(n_threads, len(items))
    if workers <= 1:
        return [function(item) for item in items]
    records_gradients = torch.is_grad_enabled()  # each thread has a setting of its own

    def apply(item: ItemT) -> ResultT:
        with torch.set_grad_enabled(records_gradients):
            return function(item)

    try:
        with ThreadPoolExecutor(workers, initializer=begin_worker) as pool:
            return list(pool.map(apply, items))
    finally:
        torch.set_num_threads(n_threads)  # else threads that start later would have one core
