"""Rows in arrays: in memory, or mapped into it from files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sswim.base.errors import UserError
from sswim.distributed.share import ALL_ROWS, Share
from sswim.rows.source import Chunk, Source

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
