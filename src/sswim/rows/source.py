"""Sources of rows: chunks that can be read any number of times, by one process or by several.

A source never needs all of its rows in memory. It numbers them, so that random choices do not
depend on how the rows are cut into chunks or shared among processes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Int64

from sswim.base.validation import UserError, require_restartable
from sswim.distributed.processes import ALL_ROWS, Share
from sswim.rows.imputer import GaussianImputer
from sswim.rows.rows import Measure, Rows, as_rows, merge_copies

T = TypeVar("T")


@dataclass(frozen=True)
class Chunk:
    """Some rows that count, in the units of the data."""

    numbers: Int64[np.ndarray, " n"]
    """Row numbers within the whole source; no two rows share a number."""
    rows: Rows
    """Checked rows, whose weights are positive if they have any."""

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, which: Int64[np.ndarray, " m"] | Bool[np.ndarray, " n"]) -> Chunk:
        """Return copies of some of the rows, so that the memory of the others can be freed."""
        return Chunk(self.numbers[which], self.rows.map(itemgetter(torch.from_numpy(which))))


def as_chunk(
    numbers: Int64[np.ndarray, " n"],
    x: Any,
    y: Any,
    weight: Any = None,
    x_variance: Any = None,
) -> Chunk:
    """Check arrays, and make a chunk of those rows whose weight is not zero; it may be empty.

    Args:
        numbers: Row numbers within the whole source.
        x: Inputs, (n, D).
        y: Targets, (n,) or (n, T).
        weight: Non-negative weights, (n,).
        x_variance: Variance of each input, (n, D); None where inputs are known exactly.
    """
    x, y = (np.asarray(values, dtype=np.float64) for values in (x, y))
    if x.ndim != 2 or y.ndim not in (1, 2) or len(x) != len(y):
        raise UserError(
            "A chunk must have inputs of shape (n, D) and targets of shape (n,) or (n, T). Got "
            f"{x.shape} and {y.shape}."
        )
    if weight is not None:
        weight = np.asarray(weight, dtype=np.float64)
        if weight.shape == numbers.shape and not weight.all():
            counts = weight != 0
            numbers, x, y, weight = numbers[counts], x[counts], y[counts], weight[counts]
            x_variance = None if x_variance is None else np.asarray(x_variance)[counts]
    if not len(numbers):
        targets = y if y.ndim == 2 else y[:, None]
        return Chunk(numbers, Rows(Measure(torch.tensor(x)), torch.tensor(targets)))
    return Chunk(numbers, as_rows(x, y, weight, x_variance))


class Source(ABC):
    """Rows that can be read again and again."""

    names: tuple[str, ...] | None = None
    """Names of the inputs, if they have any."""

    columns: tuple[str, ...] | None = None
    """Names of the columns that the inputs were made of, if they differ from the inputs."""

    schema: Any = None
    """The ``sswim.tables.Schema`` by which a table became numbers; None for rows of no table."""

    imputer: GaussianImputer | None = None
    """Imputer of missing inputs; if it is None, ``fit`` learns one from a sample of the rows."""

    isotropic: tuple[tuple[int, ...], ...] = ()
    """Groups of inputs that share a unit, so that they are scaled alike."""

    flat_targets: bool = True
    """Whether predictions have the shape (N,) rather than (N, T)."""

    in_memory: bool = False
    """Whether every process holds all rows already; else each process reads its share."""

    def facts(self) -> dict[str, Any]:
        """Return what is known before reading and must be equal in all processes."""
        return {}

    @abstractmethod
    def chunks(self, share: Share = ALL_ROWS) -> Iterator[Chunk]:
        """Iterate over the rows of a share in order, the same in every pass; there may be none."""


CHUNK_ROWS = 2**16
"""Rows per chunk."""


class ArraySource(Source):
    """Rows of arrays, read one chunk at a time.

    The arrays may be NumPy memory maps of any numeric type, and larger than memory.
    """

    def __init__(self, X: Any, y: Any, sample_weight: Any = None) -> None:
        """Wrap arrays.

        Args:
            X: Inputs, (N, D).
            y: Targets, (N,) or (N, T).
            sample_weight: How many times each row counts, (N,).
        """
        lengths = {len(array) for array in (X, y, sample_weight) if array is not None}
        if X.ndim != 2 or y.ndim not in (1, 2) or len(lengths) != 1:
            raise UserError(
                "X must have shape (N, D), y (N,) or (N, T) and sample_weight (N,). Got shapes "
                f"{[None if a is None else a.shape for a in (X, y, sample_weight)]}."
            )
        self._arrays = X, y, sample_weight
        self.flat_targets = y.ndim == 1

    def chunks(self, share: Share = ALL_ROWS) -> Iterator[Chunk]:
        """Iterate over the contiguous rows of a share."""
        begin, end = share.span(len(self._arrays[0]))
        for first in range(begin, end, CHUNK_ROWS):
            numbers = np.arange(first, min(first + CHUNK_ROWS, end))
            rows = slice(first, first + len(numbers))
            yield as_chunk(numbers, *(None if a is None else a[rows] for a in self._arrays))


ROWS_OF_A_PROCESS = 2**48
"""Row numbers reserved for each process where each brings its own rows."""


class IterableSource(Source):
    """Chunks ``(X, y)`` or ``(X, y, weight)`` of an iterable: a list, or a class with ``__iter__``.

    The iterable is restarted for every pass over the rows and must give the same rows each time.
    """

    def __init__(self, chunks: Iterable[tuple[Any, ...]], *, dealt: bool = False) -> None:
        """Wrap an iterable.

        Args:
            chunks: Tuples of input, target and optionally weight arrays.
            dealt: True if every process has an iterable with its own rows; False if all have the
                same iterable, of which each process takes every ``size``-th chunk.
        """
        require_restartable(chunks)
        self._chunks, self._dealt = chunks, dealt
        for _, y, *_ in chunks:
            self.flat_targets = y.ndim == 1
            break

    def chunks(self, share: Share = ALL_ROWS) -> Iterator[Chunk]:
        """Iterate over the chunks of a share."""
        first = share.rank * ROWS_OF_A_PROCESS if self._dealt else 0
        for number, arrays in enumerate(self._chunks):
            numbers = np.arange(first, first + len(arrays[0]))
            first += len(numbers)
            if self._dealt or number % share.size == share.rank:
                yield as_chunk(numbers, *arrays)


class MemorySource(Source):
    """The rows given to ``fit`` as arrays, in one chunk.

    Copies of a row, and rows with weights, are merged into distinct rows in an order of their own.
    So a row of weight two gives the same fit as the row twice, to the last bit and in any order:
    sums in another order would round differently, and training amplifies that.
    """

    in_memory = True

    def __init__(
        self, rows: Rows, names: Sequence[str] | None = None, *, flat_targets: bool = True
    ) -> None:
        """Wrap checked rows.

        Args:
            rows: Rows on the CPU, in the units of the data.
            names: Names of the inputs.
            flat_targets: Whether the targets were given as (N,).
        """
        self.rows = rows
        self.names = None if names is None else tuple(names)
        self.flat_targets = flat_targets
        self._merged = merge_copies(rows)

    def chunks(self, share: Share = ALL_ROWS) -> Iterator[Chunk]:
        """Yield the rows of a share as one chunk."""
        begin, end = share.span(len(self._merged))
        chunk = Chunk(np.arange(begin, end), self._merged.map(itemgetter(slice(begin, end))))
        weight = chunk.rows.weight
        yield chunk if weight is None or weight.all() else chunk.take(weight.numpy() != 0)


_AHEAD = 2
"""Number of items that are prepared ahead."""


def prefetched(items: Iterable[T]) -> Generator[T, None, None]:
    """Yield the items in order, while a thread prepares the next ones.

    An exception is raised in place of the item that could not be made. The thread ends and the
    iterator over the items is closed after the last item, or when the generator is closed.

    Args:
        items: The items; only the thread iterates over them.
    """
    iterator = iter(items)
    ahead: deque[Future[list[T]]] = deque()
    pool = ThreadPoolExecutor(1, thread_name_prefix="prefetch")
    try:
        # A job makes one item, or none after the last; one job runs at a time.
        for _ in range(_AHEAD):
            ahead.append(pool.submit(list, islice(iterator, 1)))
        while made := ahead.popleft().result():
            ahead.append(pool.submit(list, islice(iterator, 1)))
            yield made.pop()
    finally:
        pool.shutdown(cancel_futures=True)
        if close := getattr(iterator, "close", None):
            close()
