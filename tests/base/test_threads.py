from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from sswim.base.record import map_in_threads, map_on_cores


@pytest.fixture(autouse=True)
def _four_threads() -> Iterator[None]:
    """Let PyTorch use four threads, however many cores there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def test_results_are_in_the_order_of_the_items() -> None:
    assert map_in_threads(lambda item: item**2, range(20)) == [item**2 for item in range(20)]
    assert map_in_threads(str, []) == []


def test_each_thread_has_one_core() -> None:
    barrier = threading.Barrier(4)

    def work(_: int) -> tuple[int, int]:
        barrier.wait(10)  # all four run at the same time
        return torch.get_num_threads(), threading.get_ident()

    cores, names = zip(*map_in_threads(work, range(4)), strict=True)
    assert set(cores) == {1}
    assert len(set(names)) == 4


def test_one_item_is_computed_by_the_caller() -> None:
    assert map_in_threads(lambda _: threading.get_ident(), [0]) == [threading.get_ident()]


def test_other_threads_keep_their_cores() -> None:
    map_in_threads(lambda item: item, range(8))
    assert torch.get_num_threads() == 4
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == 4


def test_gradients_are_recorded_if_the_caller_records_them() -> None:
    leaf = torch.ones(2, requires_grad=True)
    results = map_in_threads(lambda n: n * leaf, range(8))
    (gradient,) = torch.autograd.grad(torch.stack(results).sum(), leaf)
    assert gradient.tolist() == [28, 28]
    with torch.no_grad():
        results = map_in_threads(lambda n: n * leaf, range(8))
    assert not any(each.requires_grad for each in results)


def test_errors_are_raised() -> None:
    def fail(item: int) -> int:
        if item == 5:
            raise ValueError("the fifth")
        return item

    with pytest.raises(ValueError, match="the fifth"):
        map_in_threads(fail, range(8))
    assert torch.get_num_threads() == 4


@pytest.mark.parametrize("n_threads", [1, 3])
def test_a_map_on_cores_keeps_the_order_and_the_setting(n_threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        with map_on_cores() as map_:
            assert torch.get_num_threads() == 1
            for _ in range(2):  # the same threads work again
                found = list(map_(lambda item: (item, torch.get_num_threads()), range(20)))
                assert found == [(item, 1) for item in range(20)]
        assert torch.get_num_threads() == n_threads
    finally:
        torch.set_num_threads(before)
