"""Checked rows that every process holds in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sswim.distributed.share import ALL_ROWS, Share
from sswim.rows.copies import merge_copies
from sswim.rows.rows import Rows
from sswim.rows.source import Chunk, Source


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
