"""Rows that are read again in every pass over them, and standardised on the way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from sswim.base.record import concatenate
from sswim.distributed.share import Share
from sswim.rows.prefetch import prefetched
from sswim.rows.rows import Rows, as_rows
from sswim.rows.scaling import Scaling
from sswim.rows.source import Source
from sswim.rows.summary import chunk_rows


@dataclass(frozen=True)
class Stream:
    """One process's share of a source, in standardised chunks on the training device."""

    source: Source
    share: Share
    scaling: Scaling
    """Means and spreads of the rows, on the CPU."""
    dtype: torch.dtype
    """Precision of the inputs."""
    device: torch.device

    def __iter__(self) -> Iterator[Rows]:
        """Yield the chunks, with the next ones prepared in a thread; one empty chunk if none."""
        empty = True
        for rows in prefetched(self._standardised()):
            empty = False
            yield rows
        if empty:
            one_row = as_rows(self.scaling.input_mean[None], self.scaling.target_mean[None])
            yield self._to_device(one_row.map(lambda tensor: tensor[:0]))

    def _standardised(self) -> Iterator[Rows]:
        for chunk in self.source.chunks(self.share):
            rows = chunk_rows(chunk)
            if rows is not None:
                yield self._to_device(self.scaling.rows(rows))

    def _to_device(self, rows: Rows) -> Rows:
        rows = replace(rows, inputs=rows.inputs.to(dtype=self.dtype))
        return rows.to(device=self.device)

    def in_memory(self) -> Rows:
        """Return all rows of the stream in memory."""
        return concatenate(self)
