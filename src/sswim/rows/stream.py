"""Rows that are read again for every pass over them, standardised on the way."""

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
    """One process's share of a source, in chunks that are ready for the model."""

    source: Source
    share: Share
    scaling: Scaling
    """On the CPU."""
    dtype: torch.dtype
    """Of the features."""
    device: torch.device

    def __iter__(self) -> Iterator[Rows]:
        """The chunks, the next ones prepared in the background; an empty one if there are none."""
        empty = True
        for rows in prefetched(self._prepared()):
            empty = False
            yield rows
        if empty:
            nothing = as_rows(self.scaling.input_mean[None], self.scaling.target_mean[None])
            yield self._placed(nothing.map(lambda tensor: tensor[:0]))

    def _prepared(self) -> Iterator[Rows]:
        for chunk in self.source.chunks(self.share):
            rows = chunk_rows(chunk)
            if rows is not None:
                yield self._placed(self.scaling.rows(rows))

    def _placed(self, rows: Rows) -> Rows:
        rows = replace(rows, inputs=rows.inputs.to(dtype=self.dtype))
        return rows.to(device=self.device)

    def held(self) -> Rows:
        """The same rows in memory."""
        return concatenate(self)
