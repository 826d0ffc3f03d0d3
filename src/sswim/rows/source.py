"""Sources of rows: chunks that can be read any number of times, by one process or by several.

A source never needs all of its rows in memory. It numbers them, so that random choices do not
depend on how the rows are cut into chunks or shared among processes.

Items prepared by a background thread, a few ahead of their consumer.

Rows in arrays: in memory, or mapped into it from files.

Rows from any Python iterable of chunks that can be restarted.

Checked rows that every process holds in memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from sswim.base.validation import UserError, require_integer, require_restartable
from sswim.distributed.processes import ALL_ROWS, Share
from sswim.rows.imputer import GaussianImputer
from sswim.rows.rows import Rows, merge_copies

T = TypeVar("T")


def prefetched(items: Iterable[T], depth: int = 2) -> Generator[T, None, None]:
    """Yield the items in order, while a thread prepares the next ones.

    An exception is raised in place of the item that could not be made. The thread ends and the
    iterator over the items is closed after the last item, or when the generator is closed.

    Args:
        items: The items; only the thread iterates over them.
        depth: Number of items that are prepared ahead.
    """
    require_integer("depth", depth, 1)
    return _prefetched(items, depth)


def _prefetched(items: Iterable[T], depth: int) -> Generator[T, None, None]:
    iterator = iter(items)
    ahead: deque[Future[list[T]]] = deque()
    pool = ThreadPoolExecutor(1, thread_name_prefix="prefetch")
    try:
        # A job makes one item, or none after the last; one job runs at a time.
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


@dataclass(frozen=True)
class Chunk:
    """Some rows in the units of the data."""

    numbers: Int64[np.ndarray, " n"]
    """Row numbers within the whole source; no two rows share a number."""
    inputs: Float64[np.ndarray, "n D"]
    targets: Float64[np.ndarray, "n T"]
    weight: Float64[np.ndarray, " n"] | None = None
    """How many times each row counts; None for once."""
    input_variance: Float64[np.ndarray, "n D"] | None = None
    """Variance of each input; None for inputs that are known exactly."""

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, which: Int64[np.ndarray, " m"] | Bool[np.ndarray, " n"]) -> Chunk:
        """Return copies of some of the rows, so that the memory of the others can be freed."""
        return Chunk(
            self.numbers[which],
            self.inputs[which],
            self.targets[which],
            None if self.weight is None else self.weight[which],
            None if self.input_variance is None else self.input_variance[which],
        )


class Source(ABC):
    """Rows that can be read again and again."""

    names: tuple[str, ...] | None = None
    """Names of the inputs, if they have any."""

    columns: tuple[str, ...] | None = None
    """Names of the columns that the inputs were made of, if they differ from the inputs."""

    table_schema: dict[str, Any] | None = None
    """How the columns of a table become numbers; None if the rows do not come from a table."""

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
        X, y, weight = self._arrays
        begin, end = share.span(len(X))
        for first in range(begin, end, CHUNK_ROWS):
            rows = slice(first, min(first + CHUNK_ROWS, end))
            yield as_chunk(first, X[rows], y[rows], None if weight is None else weight[rows])


def as_chunk(first: int, X: Any, y: Any, weight: Any = None) -> Chunk:
    """Make a chunk of arrays, with rows numbered from ``first``."""
    inputs, targets = (np.asarray(values, dtype=np.float64) for values in (X, y))
    if targets.ndim == 1:
        targets = targets[:, None]
    if weight is not None:
        weight = np.asarray(weight, dtype=np.float64)
    if inputs.ndim != 2 or targets.ndim != 2 or len(inputs) != len(targets):
        raise UserError(
            "A chunk must have inputs of shape (n, D) and targets of shape (n,) or (n, T). Got "
            f"{inputs.shape} and {targets.shape}."
        )
    return Chunk(np.arange(first, first + len(inputs)), inputs, targets, weight)


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
            chunk = as_chunk(first, *arrays)
            first += len(chunk)
            if self._dealt or number % share.size == share.rank:
                yield chunk


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
        rows = self._merged.map(lambda tensor: tensor[begin:end])
        variance = rows.inputs.input_variance
        yield Chunk(
            np.arange(begin, end),
            _array(rows.inputs.mean),
            _array(rows.targets),
            None if rows.weight is None else _array(rows.weight),
            None if variance is None else _array(variance),
        )


def _array(tensor: Float[Tensor, "*shape"]) -> Float64[np.ndarray, "*shape"]:
    """Return a tensor's numbers in float64, without a copy if they are so already."""
    return tensor.to(torch.float64).numpy()
