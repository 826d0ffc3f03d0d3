"""A random sample of rows that does not depend on how they are cut up or who reads them.

Every row has a key, a hash of its number, and those of the least keys are the sample. So a sample
of two samples is that of all rows behind them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from jaxtyping import Int64, UInt64

from sswim.distributed.processes import ALONE, Processes
from sswim.rows.source import Chunk


def sample_keys(numbers: Int64[np.ndarray, " n"]) -> UInt64[np.ndarray, " n"]:
    """The hash of row numbers that SplitMix64 is: a permutation of the numbers of 64 bits."""
    mixed = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def least_keys(numbers: Int64[np.ndarray, " n"], most: int) -> Int64[np.ndarray, " m"]:
    """At which places, in order, the numbers of a sample are: all of them, or so many."""
    if len(numbers) <= most:
        return np.arange(len(numbers))
    return np.sort(np.argpartition(sample_keys(numbers), most - 1)[:most])


class Reservoir:
    """The sample of the rows seen so far, of those that count."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._chunks: list[Chunk] = []
        self._n_rows = 0
        self._bound: np.uint64 | None = None

    def add(self, chunk: Chunk) -> None:
        """See more rows."""
        if chunk.weight is not None:
            chunk = chunk.take(chunk.weight > 0)
        if self._bound is not None:
            chunk = chunk.take(sample_keys(chunk.numbers) <= self._bound)
        if len(chunk):
            self._chunks.append(chunk)
            self._n_rows += len(chunk)
        if self._n_rows > 2 * self.most:
            self._shrink()

    def sample(self, processes: Processes = ALONE) -> Chunk:
        """The rows, in the order of their numbers; of all processes'."""
        self._shrink()
        mine = self._chunks
        if processes.size > 1:
            # Keys first, so that no process sends rows that are not taken.
            keys = [sample_keys(chunk.numbers) for chunk in mine]
            everyone = np.concatenate([*processes.all_gather(_concatenated(keys))])
            if len(everyone) > self.most:
                bound = np.partition(everyone, self.most - 1)[self.most - 1]
                mine = [chunk.take(sample_keys(chunk.numbers) <= bound) for chunk in mine]
            mine = [chunk for chunks in processes.all_gather(mine) for chunk in chunks]
        whole = _joined(mine)
        return whole.take(np.argsort(whole.numbers))

    def _shrink(self) -> None:
        if self._n_rows <= self.most:
            return
        whole = _joined(self._chunks)
        whole = whole.take(least_keys(whole.numbers, self.most))
        self._bound = sample_keys(whole.numbers).max()
        self._chunks, self._n_rows = [whole], self.most


def _concatenated(arrays: list[UInt64[np.ndarray, " _"]]) -> UInt64[np.ndarray, " n"]:
    return np.concatenate(arrays) if arrays else np.empty(0, dtype=np.uint64)


def _joined(chunks: Iterable[Chunk]) -> Chunk:
    chunks = list(chunks)
    if not chunks:
        raise ValueError("A source must have at least one row that counts. Got none.")
    weights = [chunk.weight for chunk in chunks if chunk.weight is not None]
    return Chunk(
        np.concatenate([chunk.numbers for chunk in chunks]),
        np.concatenate([chunk.inputs for chunk in chunks]),
        np.concatenate([chunk.targets for chunk in chunks]),
        np.concatenate(weights) if weights else None,
    )
