from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from builders.sources import arrays, assert_all_rows_once, read_shares

from sswim.rows import ArraySource
from sswim.rows import source as array_source
from sswim.rows.source import as_chunk


@pytest.mark.parametrize("size", [1, 2, 3, 11])
def test_shares_of_arrays_are_all_rows_once(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_source, "CHUNK_ROWS", 3)
    assert_all_rows_once(ArraySource(*arrays()), size)


def test_chunks_have_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_source, "CHUNK_ROWS", 4)
    assert [len(chunk) for chunk in ArraySource(*arrays()).chunks()] == [4, 4, 2]


def test_memory_maps_are_read_a_chunk_at_a_time(tmp_path: Path) -> None:
    x, y = arrays()
    np.save(tmp_path / "x.npy", x.astype(np.float32))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    _, inputs, _ = read_shares(ArraySource(mapped, y.astype(int)), 2)
    assert np.array_equal(inputs, x)


def test_weights_and_several_targets_of_arrays() -> None:
    x, y = arrays()
    weight = np.arange(10)
    [chunk] = ArraySource(x, np.stack((y, -y), axis=1), weight).chunks()
    assert np.array_equal(chunk.targets, np.stack((y, -y), axis=1))
    assert chunk.weight is not None
    assert np.array_equal(chunk.weight, weight)
    assert ArraySource(x, y).flat_targets
    assert not ArraySource(x, y[:, None]).flat_targets


def test_arrays_of_different_lengths_are_an_error() -> None:
    x, y = arrays()
    for wrong in ((x, y[:5]), (x[:, 0], y), (x, y, np.ones(3))):
        with pytest.raises(ValueError, match=r"X must have shape \(N, D\)"):
            ArraySource(*wrong)


def test_a_chunk_numbers_its_rows_from_the_first() -> None:
    x, y = arrays()
    chunk = as_chunk(7, x.astype(np.float32), y.astype(int))
    assert np.array_equal(chunk.numbers, np.arange(7, 17))
    assert np.array_equal(chunk.inputs, x)
    assert np.array_equal(chunk.targets, y[:, None])
    with pytest.raises(ValueError, match="A chunk must have inputs of shape"):
        as_chunk(0, x, y[:5])
