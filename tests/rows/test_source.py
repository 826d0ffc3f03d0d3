from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from builders.models import small_rows

from sswim.distributed.processes import Share
from sswim.rows import (
    ArraySource,
    Chunk,
    IterableSource,
    MemorySource,
    Source,
    as_chunk,
    as_rows,
    merge_copies,
    prefetched,
    source,
)


def arrays() -> tuple[np.ndarray, np.ndarray]:
    """Return inputs (10, 3) and targets (10,) that are all different."""
    return np.arange(30, dtype=float).reshape(10, 3), np.arange(10, dtype=float)


def read_shares(source: Source, size: int) -> list[np.ndarray]:
    """Return the numbers, inputs and targets of all shares together, sorted by number."""
    chunks = [chunk for rank in range(size) for chunk in source.chunks(Share(rank, size))]
    numbers = np.concatenate([chunk.numbers for chunk in chunks])
    inputs = np.concatenate([chunk.rows.inputs.mean for chunk in chunks])
    targets = np.concatenate([chunk.rows.targets for chunk in chunks])
    order = np.argsort(numbers)
    return [numbers[order], inputs[order], targets[order, 0]]


NUMBERS = np.arange(5)
COLUMN = NUMBERS[:, None].astype(float)


@pytest.mark.parametrize("which", [np.array([3, 1]), NUMBERS % 2 == 1], ids=["numbers", "mask"])
def test_some_rows_of_a_chunk_are_copies(which: np.ndarray) -> None:
    chunk = as_chunk(NUMBERS, COLUMN, 2 * COLUMN, 1.0 + NUMBERS, 4 * COLUMN)
    part, kept = chunk.take(which), torch.from_numpy(NUMBERS[which])
    assert len(part) == 2
    assert np.array_equal(part.numbers, kept)
    for ours, theirs in zip(part.rows.tensors(), chunk.rows.tensors(), strict=True):
        assert torch.equal(ours, theirs[kept])
        assert ours.data_ptr() != theirs.data_ptr()


def test_arrays_of_any_type_become_a_chunk() -> None:
    x, y = arrays()
    chunk = as_chunk(np.arange(7, 17), x.astype(np.float32), y.astype(int))
    assert np.array_equal(chunk.numbers, np.arange(7, 17))
    assert torch.equal(chunk.rows.inputs.mean, torch.from_numpy(x))
    assert torch.equal(chunk.rows.targets[:, 0], torch.from_numpy(y))
    assert chunk.rows.weight is None
    assert chunk.rows.inputs.input_variance is None
    with pytest.raises(ValueError, match="A chunk must have inputs of shape"):
        as_chunk(np.arange(10), x, y[:5])


def test_rows_of_weight_zero_are_left_out_of_a_chunk() -> None:
    chunk = as_chunk(NUMBERS, COLUMN, COLUMN, NUMBERS % 2.0, COLUMN)
    assert chunk.numbers.tolist() == [1, 3]
    assert [tensor.numel() for tensor in chunk.rows.tensors()] == [2] * 4
    for tensor in chunk.rows.inputs.tensors():  # means and variances
        assert tensor[:, 0].tolist() == [1.0, 3.0]
    empty = as_chunk(NUMBERS, COLUMN, NUMBERS, 0.0 * NUMBERS)
    assert len(empty) == len(empty.rows) == 0
    with pytest.raises(ValueError, match="non-negative"):
        as_chunk(NUMBERS, COLUMN, COLUMN, NUMBERS - 1.0)


@pytest.mark.parametrize("size", [1, 2, 3, 11])
def test_shares_are_all_rows_once_in_every_pass(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = arrays()
    monkeypatch.setattr(source, "CHUNK_ROWS", 4)
    assert [len(chunk) for chunk in ArraySource(x, y).chunks()] == [4, 4, 2]
    np.save(tmp_path / "x.npy", x.astype(np.float32))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    sources = (
        ArraySource(x, y),
        ArraySource(mapped, y.astype(int)),
        IterableSource([(x[:4], y[:4]), (x[4:], y[4:])]),
        MemorySource(as_rows(x, y)),
    )
    for each in sources * 2:
        for ours, expected in zip(read_shares(each, size), (np.arange(10), x, y), strict=True):
            assert np.array_equal(ours, expected)


def test_weights_and_several_targets() -> None:
    x, y = arrays()
    weight = np.arange(1.0, 11.0)
    both = np.stack((y, -y), axis=1)
    for rows in (ArraySource(x, both, weight), IterableSource([(x, both, weight)])):
        [chunk] = rows.chunks()
        assert np.array_equal(chunk.rows.targets, both)
        assert np.array_equal(chunk.rows.weight, weight)  # type: ignore[arg-type]
        assert not rows.flat_targets
    assert ArraySource(x, y).flat_targets
    assert IterableSource([(x, y)]).flat_targets


def test_rows_that_processes_bring_have_numbers_of_their_own() -> None:
    x, y = arrays()
    shards = [IterableSource([(x[rows], y[rows])], dealt=True) for rows in (slice(6), slice(6, 10))]
    chunks = [chunk for rank, shard in enumerate(shards) for chunk in shard.chunks(Share(rank, 2))]
    assert len(set(np.concatenate([chunk.numbers for chunk in chunks]))) == 10


def test_what_is_no_source_is_an_error() -> None:
    x, y = arrays()
    for wrong in ((x, y[:5]), (x[:, 0], y), (x, y, np.ones(3))):
        with pytest.raises(ValueError, match=r"X must have shape \(N, D\)"):
            ArraySource(*wrong)
    with pytest.raises(ValueError, match="Got a generator, which can be read once"):
        IterableSource(pair for pair in [(x, y)])
    with pytest.raises(ValueError, match="A chunk must have inputs of shape"):
        list(IterableSource([(x, y[:5])]).chunks())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rows_in_memory_are_one_chunk(dtype: torch.dtype, generator: torch.Generator) -> None:
    rows = small_rows(generator, n_targets=2, uncertain=True, dtype=dtype)
    memory = MemorySource(rows, ["a", "b", "c"], flat_targets=False)
    [chunk] = memory.chunks()
    assert chunk.numbers.tolist() == [*range(23)]
    assert all(map(torch.equal, chunk.rows.tensors(), merge_copies(rows).tensors()))
    assert memory.names == ("a", "b", "c")
    assert memory.in_memory
    assert not memory.flat_targets


@pytest.mark.parametrize("uncertain", [False, True])
def test_copies_and_weights_become_the_same_distinct_rows(
    uncertain: bool, generator: torch.Generator
) -> None:
    rows = small_rows(generator, n=12, n_targets=2, uncertain=uncertain)
    times = torch.randint(0, 4, (12,), generator=generator)
    repeated = rows.map(lambda tensor: tensor.repeat_interleave(times, dim=0))
    shuffled = repeated.take(torch.randperm(len(repeated), generator=generator))
    weighted = replace(rows, weight=times.double())
    [counted] = MemorySource(weighted).chunks()  # rows of weight zero are left out
    [copies] = MemorySource(shuffled).chunks()
    assert all(map(torch.equal, copies.rows.tensors(), counted.rows.tensors()))
    assert copies.rows.tensors()[-1].sum() == times.sum()  # the weights


def test_a_source_needs_one_method_only() -> None:
    class Squares(Source):
        def chunks(self, share: Share = Share()) -> Iterator[Chunk]:  # noqa: B008
            numbers = np.arange(*share.span(10))
            yield as_chunk(numbers, numbers[:, None], numbers**2)

    numbers, _, targets = read_shares(Squares(), 3)
    assert np.array_equal(targets, numbers**2)
    assert Squares().facts() == {}


@pytest.fixture
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


@pytest.mark.usefixtures("_no_thread_is_left")
class TestPrefetched:
    @pytest.mark.parametrize("n_items", [0, 1, 2, 3, 100])
    def test_all_items_come_in_order(self, n_items: int) -> None:
        items = Items(n_items)
        assert list(prefetched(prefetched(items))) == list(range(n_items))
        assert items.closed
        assert threading.get_ident() not in items.threads
        assert len(items.threads) == (n_items > 0)
        assert list(prefetched([None, 0, [], False])) == [None, 0, [], False]

    def test_items_are_made_ahead_but_not_too_many(self) -> None:
        items = Items(100)
        before = threading.enumerate()
        prefetched(items).close()
        iterator = prefetched(items)
        assert threading.enumerate() == before
        assert items.made == []
        assert next(iterator) == 0
        deadline = time.monotonic() + 10
        while len(items.made) < 3 and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.02)
        assert items.made == [0, 1, 2]
        assert next(iterator) == 1
        iterator.close()
        assert items.closed

    def test_an_exception_comes_at_its_place(self) -> None:
        items = Items(3, ValueError("the fourth"))
        iterator = prefetched(items)
        assert [next(iterator) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(ValueError, match="the fourth"):
            next(iterator)
        assert items.closed
        with pytest.raises(OSError, match="none at all"):
            next(prefetched(Items(0, OSError("none at all"))))
