"""A random sample of rows that does not depend on how they are chunked or who reads them.

Every row has a key, a hash of its number, and the rows with the smallest keys are the sample. The
sample of two samples together is therefore the sample of all rows behind them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from jaxtyping import Int64, UInt64

from sswim.base.errors import UserError
from sswim.distributed.processes import ALONE, Processes
from sswim.rows.source import Chunk


def sample_keys(
    numbers: Int64[np.ndarray, " n"], random_state: int = 0
) -> UInt64[np.ndarray, " n"]:
    """Hash row numbers by SplitMix64, a permutation of the 64-bit integers.

    Args:
        numbers: Numbers of rows.
        random_state: Seed that chooses one of many such permutations.
    """
    shift = np.uint64(random_state * 0xD1B54A32D192ED03 % 2**64)
    mixed = (numbers.astype(np.uint64) + shift) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def smallest_keys(
    numbers: Int64[np.ndarray, " n"], size: int, random_state: int = 0
) -> Int64[np.ndarray, " m"]:
    """Return the sorted indices of the ``size`` numbers with the smallest keys, or of all."""
    if len(numbers) <= size:
        return np.arange(len(numbers))
    return np.sort(np.argpartition(sample_keys(numbers, random_state), size - 1)[:size])


class RowSampler:
    """Collects the sample of all rows seen so far, of those whose weight is positive."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._chunks: list[Chunk] = []
        self._n_rows = 0
        self._largest_key: np.uint64 | None = None

    def add(self, chunk: Chunk) -> None:
        """Add the rows of a chunk."""
        if chunk.weight is not None:
            chunk = chunk.take(chunk.weight > 0)
        if self._largest_key is not None:
            chunk = chunk.take(sample_keys(chunk.numbers) <= self._largest_key)
        if len(chunk) > self.size:
            chunk = chunk.take(smallest_keys(chunk.numbers, self.size))
        if len(chunk):
            self._chunks.append(chunk)
            self._n_rows += len(chunk)
        if self._n_rows > 2 * self.size:
            self._shrink()

    def sample(self, processes: Processes = ALONE) -> Chunk:
        """Return the sample of the rows of all processes, in the order of their numbers."""
        self._shrink()
        mine = self._chunks
        if processes.size > 1:
            # Keys first, so that no process sends rows that are not in the common sample.
            keys = [sample_keys(chunk.numbers) for chunk in mine]
            all_keys = np.concatenate([*processes.all_gather(_concatenate(keys))])
            if len(all_keys) > self.size:
                largest = np.partition(all_keys, self.size - 1)[self.size - 1]
                mine = [chunk.take(sample_keys(chunk.numbers) <= largest) for chunk in mine]
            mine = [chunk for chunks in processes.all_gather(mine) for chunk in chunks]
        joined = _join(mine)
        return joined.take(np.argsort(joined.numbers))

    def _shrink(self) -> None:
        if self._n_rows <= self.size:
            return
        joined = _join(self._chunks)
        joined = joined.take(smallest_keys(joined.numbers, self.size))
        self._largest_key = sample_keys(joined.numbers).max()
        self._chunks, self._n_rows = [joined], self.size


def _concatenate(arrays: list[UInt64[np.ndarray, " _"]]) -> UInt64[np.ndarray, " n"]:
    return np.concatenate(arrays) if arrays else np.empty(0, dtype=np.uint64)


def _join(chunks: Iterable[Chunk]) -> Chunk:
    chunks = list(chunks)
    if not chunks:
        raise UserError("A source must have at least one row that counts. Got none.")
    weights = [chunk.weight for chunk in chunks if chunk.weight is not None]
    variances = [chunk.input_variance for chunk in chunks if chunk.input_variance is not None]
    return Chunk(
        np.concatenate([chunk.numbers for chunk in chunks]),
        np.concatenate([chunk.inputs for chunk in chunks]),
        np.concatenate([chunk.targets for chunk in chunks]),
        np.concatenate(weights) if weights else None,
        np.concatenate(variances) if variances else None,
    )
