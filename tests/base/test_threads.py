"""Threads with one core each, and memory that is kept."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import joblib
import pytest
import torch
from builders.cores import use_threads

from sswim.base import threads
from sswim.base.threads import (
    begin_worker,
    flushed_denormals,
    kept_memory,
    map_in_threads,
    map_on_cores,
    n_cores,
    on_one_core,
)


@pytest.fixture
def _four_threads() -> Iterator[None]:
    with use_threads(4):
        yield
        assert torch.get_num_threads() == 4


@pytest.mark.usefixtures("_four_threads")
def test_threads_have_one_core_each_and_results_their_order() -> None:
    barrier = threading.Barrier(4)

    def work(item: int) -> tuple[int, int, int]:
        barrier.wait(10)  # all four run at the same time
        return item, torch.get_num_threads(), threading.get_ident()

    items, cores, names = zip(*map_in_threads(work, range(4)), strict=True)
    assert items == (0, 1, 2, 3)
    assert set(cores) == {1}
    assert len(set(names)) == 4
    # One item is computed by the caller, and threads of others keep their cores.
    assert map_in_threads(lambda _: threading.get_ident(), [0]) == [threading.get_ident()]
    assert map_in_threads(str, []) == []
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == 4


@pytest.mark.usefixtures("_four_threads")
def test_threads_record_gradients_if_the_caller_does_and_raise_errors() -> None:
    leaf = torch.ones(2, requires_grad=True)
    results = map_in_threads(lambda n: n * leaf, range(8))
    (gradient,) = torch.autograd.grad(torch.stack(results).sum(), leaf)
    assert gradient.tolist() == [28, 28]
    with torch.no_grad():
        results = map_in_threads(lambda n: n * leaf, range(8))
    assert not any(result.requires_grad for result in results)
    with pytest.raises(ZeroDivisionError):
        map_in_threads(lambda item: 1 / (item - 5), range(8))


@pytest.mark.usefixtures("_four_threads")
def test_a_map_on_cores_keeps_the_order() -> None:
    with map_on_cores() as map_:
        assert torch.get_num_threads() == 1
        for _ in range(2):  # the same threads work again
            found = list(map_(lambda item: (item, torch.get_num_threads()), range(20)))
            assert found == [(item, 1) for item in range(20)]


def flushes() -> bool:
    """Return whether numbers below 1e-308 are zero in this thread."""
    return bool(torch.tensor(1e-310, dtype=torch.float64) * 1 == 0)


def test_denormals_are_flushed_within_and_in_threads_of_pools_alone() -> None:
    with ThreadPoolExecutor(1) as pool:
        assert not pool.submit(flushes).result()  # begins a thread
        assert not flushes()
        with flushed_denormals():
            assert flushes()
            with flushed_denormals():
                assert flushes()
            assert flushes()
            assert not pool.submit(flushes).result()
        assert not flushes()
        with pytest.raises(ZeroDivisionError), flushed_denormals():
            _ = 1 / 0
        assert not flushes()
    with ThreadPoolExecutor(1, initializer=begin_worker) as pool:
        assert pool.submit(flushes).result()
    assert not flushes()


@pytest.mark.usefixtures("_four_threads")
def test_one_core_within_and_as_many_as_before_after_it() -> None:
    with on_one_core() as others:
        assert (others, torch.get_num_threads()) == (4, 1)
        assert n_cores() == 4  # for tasks
    with pytest.raises(ZeroDivisionError), on_one_core():
        _ = 1 / 0
    assert torch.get_num_threads() == 4


@pytest.mark.parametrize(("of_pytorch", "of_joblib"), [(4, 2), (2, 4), (1, 8), (3, 3)])
def test_cores_are_bounded_by_threads_of_pytorch_and_by_what_the_process_may_use(
    of_pytorch: int, of_joblib: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = min(of_pytorch, of_joblib)
    monkeypatch.setattr(joblib, "cpu_count", lambda: of_joblib)
    threads._usable_cores.cache_clear()
    before = torch.get_num_threads()
    torch.set_num_threads(of_pytorch)
    try:
        assert n_cores() == expected
        with on_one_core() as others:
            assert others == expected
        names = map_in_threads(lambda _: threading.get_ident(), range(20))
        assert len({*names}) <= expected
    finally:
        torch.set_num_threads(before)
        threads._usable_cores.cache_clear()


class Library:
    """A C library with the thresholds of the allocation of memory."""

    def __init__(self, largest: int = 2**62) -> None:
        self.largest = largest
        self.thresholds = {-3: 2**17, -1: 2**17}
        self.trimmed = 0

    def mallopt(self, option: int, value: int) -> int:
        if option == -3 and value > self.largest:
            return 0
        self.thresholds[option] = value
        return 1

    def malloc_trim(self, pad: int) -> int:
        self.trimmed += 1
        return 1


def use(library: object, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sys, "platform", "linux")
    patch.setattr(ctypes, "CDLL", lambda name: library)


@pytest.mark.parametrize("largest", [2**62, 2**25])
def test_memory_is_kept_until_the_last_context_ends(
    largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older libraries allow no larger threshold than the usual one."""
    library = Library(largest)
    use(library, monkeypatch)
    kept, usual = {-3: min(2**30, largest), -1: 2**30}, {-3: 2**25, -1: 2**25}
    for times in (1, 2):
        with kept_memory():
            assert library.thresholds == kept
            with pytest.raises(ZeroDivisionError), kept_memory():
                _ = 1 / 0
            assert library.thresholds == kept
            assert library.trimmed == times - 1
        assert library.thresholds == usual
        assert library.trimmed == times


def test_memory_is_kept_for_threads_that_end_one_after_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = Library()
    use(library, monkeypatch)
    first, second = kept_memory(), kept_memory()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert library.thresholds == {-3: 2**30, -1: 2**30}
    second.__exit__(None, None, None)
    assert library.thresholds == {-3: 2**25, -1: 2**25}


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_nothing_is_done_where_the_library_has_no_such_thresholds(
    platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(object(), monkeypatch)
    monkeypatch.setattr(sys, "platform", platform)
    with kept_memory(), kept_memory():
        pass


def resident() -> int:
    """Return the bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "malloc_trim"),
    reason="needs the C library of GNU",
)
def test_freed_memory_stays_with_the_process_until_the_end() -> None:
    size = 2**24
    ctypes.CDLL(None).malloc_trim(0)  # what others have freed
    with kept_memory():
        before = resident()
        torch.ones(size, dtype=torch.uint8)  # freed at once
        assert resident() > before + size // 2
    assert resident() < before + size // 2
