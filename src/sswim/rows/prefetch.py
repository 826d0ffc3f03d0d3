"""Items made in the background, a few ahead of whoever takes them."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from sswim.base.validation import require_integer

T = TypeVar("T")


def prefetched(items: Iterable[T], depth: int = 2) -> Generator[T, None, None]:
    """The same items in the same order, the next ones made by a thread meanwhile.

    An exception comes up in place of the item that could not be made. When the last item is taken,
    or no more are wanted, the thread ends and the iterator over the items is closed.

    Args:
        items: What to go through, in the thread alone.
        depth: How many items are made ahead.
    """
    require_integer("depth", depth, 1)
    return _prefetched(items, depth)


def _prefetched(items: Iterable[T], depth: int) -> Generator[T, None, None]:
    iterator = iter(items)
    ahead: deque[Future[list[T]]] = deque()
    pool = ThreadPoolExecutor(1, thread_name_prefix="prefetch")
    try:
        # A job makes one item, or none after the last; only one of them runs at a time.
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
