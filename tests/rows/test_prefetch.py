from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from sswim.rows.source import prefetched


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


class Items:
    """Numbers, with a record of how their iterator was used."""

    def __init__(self, n_items: int, error: Exception | None = None) -> None:
        self.n_items = n_items
        self.error = error
        self.made: list[int] = []
        self.threads: set[int] = set()
        self.closed = False

    def __iter__(self) -> Iterator[int]:
        try:
            for number in range(self.n_items):
                self.threads.add(threading.get_ident())
                self.made.append(number)
                yield number
            if self.error is not None:
                raise self.error
        finally:
            self.closed = True


@pytest.mark.parametrize("n_items", [0, 1, 2, 3, 100])
@pytest.mark.parametrize("depth", [1, 2, 5])
def test_all_items_come_in_order(n_items: int, depth: int) -> None:
    items = Items(n_items)
    assert list(prefetched(items, depth)) == list(range(n_items))
    assert items.closed
    assert threading.get_ident() not in items.threads
    assert len(items.threads) == (n_items > 0)


def test_items_need_no_generator() -> None:
    assert list(prefetched([3, 1, 2])) == [3, 1, 2]
    assert list(prefetched(iter("ab"))) == ["a", "b"]


def test_an_item_may_be_nothing() -> None:
    assert list(prefetched([None, 0, [], False])) == [None, 0, [], False]


def test_items_are_made_ahead_but_not_too_many() -> None:
    items = Items(100)
    iterator = prefetched(items, depth=3)
    assert items.made == []
    assert next(iterator) == 0
    deadline = time.monotonic() + 10
    while len(items.made) < 4 and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(0.02)
    assert items.made == [0, 1, 2, 3]
    assert next(iterator) == 1
    del iterator


def test_an_exception_comes_at_its_place() -> None:
    items = Items(3, ValueError("the fourth"))
    iterator = prefetched(items)
    assert [next(iterator) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="the fourth"):
        next(iterator)
    assert items.closed


def test_an_exception_before_the_first_item() -> None:
    with pytest.raises(OSError, match="none at all"):
        next(prefetched(Items(0, OSError("none at all"))))


def test_closing_ends_the_thread_and_the_iterator() -> None:
    items = Items(10**9)
    iterator = prefetched(items)
    assert next(iterator) == 0
    iterator.close()
    assert items.closed
    assert len(items.made) <= 4


def test_a_consumer_that_fails_ends_the_thread() -> None:
    items = Items(10**9)

    def consume() -> None:
        for item in prefetched(items):
            if item == 5:
                raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        consume()
    assert items.closed


def test_what_is_never_begun_starts_no_thread() -> None:
    items = Items(3)
    before = threading.enumerate()
    iterator = prefetched(items)
    assert threading.enumerate() == before
    iterator.close()
    assert items.made == []


def test_one_may_read_ahead_of_another() -> None:
    assert list(prefetched(prefetched(Items(20)))) == list(range(20))


def test_a_depth_of_none_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match=r"depth must be an integer of at least 1. Got 0"):
        prefetched([1], depth=0)
