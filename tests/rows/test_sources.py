from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sswim.distributed.share import Share
from sswim.rows import ArraySource, IterableSource, Source, array_source


def arrays() -> tuple[np.ndarray, np.ndarray]:
    x = np.arange(30, dtype=float).reshape(10, 3)
    return x, np.arange(10, dtype=float)


def read(source: Source, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    chunks = [chunk for rank in range(size) for chunk in source.chunks(Share(rank, size))]
    numbers = np.concatenate([chunk.numbers for chunk in chunks])
    inputs = np.concatenate([chunk.inputs for chunk in chunks])
    targets = np.concatenate([chunk.targets for chunk in chunks])
    order = np.argsort(numbers)
    return numbers[order], inputs[order], targets[order]


@pytest.mark.parametrize("size", [1, 2, 3, 11])
def test_shares_of_arrays_are_all_rows_once(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_source, "CHUNK_ROWS", 3)
    x, y = arrays()
    for source in (ArraySource(x, y), IterableSource([(x[:4], y[:4]), (x[4:], y[4:])])):
        for _ in range(2):  # as often as one likes
            numbers, inputs, targets = read(source, size)
            assert np.array_equal(numbers, np.arange(10))
            assert np.array_equal(inputs, x)
            assert np.array_equal(targets[:, 0], y)


def test_memory_maps_are_read_a_chunk_at_a_time(tmp_path: Path) -> None:
    x, y = arrays()
    np.save(tmp_path / "x.npy", x.astype(np.float32))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    _, inputs, _ = read(ArraySource(mapped, y.astype(int)), 2)
    assert np.array_equal(inputs, x)


def test_rows_that_processes_bring_have_numbers_of_their_own() -> None:
    x, y = arrays()
    shards = [
        IterableSource([(x[:6], y[:6])], dealt=True),
        IterableSource([(x[6:], y[6:])], dealt=True),
    ]
    numbers = [
        number
        for rank, shard in enumerate(shards)
        for chunk in shard.chunks(Share(rank, 2))
        for number in chunk.numbers
    ]
    assert len(set(numbers)) == 10


def test_weights_and_several_targets() -> None:
    x, y = arrays()
    weight = np.ones(10)
    [chunk] = ArraySource(x, np.stack((y, -y), axis=1), weight).chunks()
    assert chunk.targets.shape == (10, 2)
    assert chunk.weight is not None
    [chunk] = IterableSource([(x, y, weight)]).chunks()
    assert chunk.weight is not None
    assert ArraySource(x, y).flat_targets
    assert not ArraySource(x, y[:, None]).flat_targets
    assert not IterableSource([(x, y[:, None])]).flat_targets


def test_what_is_no_source_is_refused() -> None:
    x, y = arrays()
    with pytest.raises(ValueError, match="Got a generator, which can be read once"):
        IterableSource(pair for pair in [(x, y)])
    with pytest.raises(ValueError, match=r"X must have shape \(N, D\)"):
        ArraySource(x, y[:5])
    with pytest.raises(ValueError, match="A chunk must have inputs of shape"):
        list(IterableSource([(x, y[:5])]).chunks())
