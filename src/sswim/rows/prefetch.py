"""Items prepared by a background thread, a few ahead of their consumer."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from sswim.base.validation import require_integer

T = TypeVar("T")


def prefetched(items: Iterable[T], depth: int = 2) -> Generator[T, None, None]:
    """Yield the items in order, while a thread prepares the next ones.

    An exception is raised in place of the item that could not be made. The thread ends and the
    iterator over the items is closed after the last item, or when the generator is closed.

    Args:
        items: The items; only the thread iterates over them.
        depth: Number of items that are prepared ahead.
    """
    require_integer("depth", depth, 1)
    return _prefetched(items, depth)


def _prefetched(items: Iterable[T], depth: int) -> Generator[T, None, None]:
    iterator = iter(items)
    ahead: deque[Future[list[T]]] = deque()
    pool = ThreadPoolExecutor(1, thread_name_prefix="prefetch")
    try:
        # A job makes one item, or none after the last; one job runs at a time.
        for _ in range(depth):
            ahead.append(pool.submit(_next, iterator))
        while made := ahead.popleft().result():
            ahead.append(pool.submit(_next, iterator))
            yield made.pop()
    finally:
        pool.shutdown(cancel_futures=True)
        if close := getattr(iterator, "close", None):
            close()


def _next(iterator: Iterator[T]) -> list[T]:
    return list(islice(iterator, 1))
