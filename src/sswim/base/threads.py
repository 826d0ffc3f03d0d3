"""Threads by what the process may use, and memory that a thread keeps.

Matrices of a hundred rows are factorised no faster by several cores, and many times as slowly where
other programs use these. So cores are shared by tasks, each of which runs on one core, rather than
by teams of threads within every operation.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from threading import Lock
from typing import Any, TypeVar

import joblib
import torch

ItemT = TypeVar("ItemT")

ValueT = TypeVar("ValueT")


@cache
def _usable_cores() -> int:
    return joblib.cpu_count()


def n_cores() -> int:
    """Return the number of threads to use: PyTorch's, but no more than cores that may be used.

    PyTorch does not know of a container's quota, which may be two cores of 64.
    """
    outside = _outside.get()
    return min(torch.get_num_threads(), _usable_cores()) if outside is None else outside


_outside: ContextVar[int | None] = ContextVar("outside", default=None)
"""Number of threads to use by tasks, where operations of this thread run on one core."""


def map_in_threads(function: Callable[[ItemT], ValueT], items: Sequence[ItemT]) -> list[ValueT]:
    """Apply a function to each item, each on one core, on as many as may be used.

    Gradients are recorded if they are in the thread of the caller.
    """
    n_threads = torch.get_num_threads()
    workers = min(n_cores(), len(items))
    if workers <= 1:
        return [function(item) for item in items]
    records_gradients = torch.is_grad_enabled()  # each thread has a setting of its own

    def apply(item: ItemT) -> ValueT:
        with torch.set_grad_enabled(records_gradients):
            return function(item)

    try:
        with ThreadPoolExecutor(workers, initializer=begin_worker) as pool:
            return list(pool.map(apply, items))
    finally:
        torch.set_num_threads(n_threads)  # else threads that start later would have one core


@contextmanager
def on_one_core() -> Iterator[int]:
    """Compute every operation of this thread on one core, but tasks on several.

    Results then do not depend on the number of cores. It yields :func:`n_cores`.
    """
    n_threads, workers = torch.get_num_threads(), n_cores()
    token = _outside.set(workers)
    torch.set_num_threads(1)
    try:
        yield workers
    finally:
        torch.set_num_threads(n_threads)
        _outside.reset(token)


@contextmanager
def map_on_cores() -> Iterator[Callable[..., Iterable[Any]]]:
    """Compute on one core, but for the function that this yields.

    It is a ``map`` whose calls run at once, each on a core of its own, on as many as may be used.
    The threads live on between its uses, which may be many and short.
    """
    with on_one_core() as workers:
        if workers == 1:
            yield map
        else:
            with ThreadPoolExecutor(workers, initializer=begin_worker) as pool:
                yield pool.map


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


_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1
_KEPT, _USUAL = 2**30, 2**25
"""Thresholds in bytes; the usual one is the largest that the C library chooses by itself, and that
versions before 2.36 take."""

_keepers: list[ctypes.CDLL] = []
_keepers_lock = Lock()


@contextmanager
def kept_memory() -> Iterator[None]:
    """Keep freed memory for the next operation, until the end of the last of such contexts.

    The C library of Linux returns large tensors to the system as soon as they are freed, and the
    system clears the pages of the next ones: in many steps of some operations each, that takes as
    long as the arithmetic, and far longer in some containers.
    """
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if library is None or not hasattr(library, "mallopt"):
        yield
        return
    with _keepers_lock:
        _keepers.append(library)
        for option in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
            for threshold in (_USUAL, _KEPT):  # a threshold that is refused leaves the last one
                library.mallopt(option, threshold)
    try:
        yield
    finally:
        with _keepers_lock:
            _keepers.pop()
            if not _keepers:
                for option in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
                    library.mallopt(option, _USUAL)
                library.malloc_trim(0)
