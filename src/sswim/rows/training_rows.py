"""The standardised rows that members are trained on: in memory, or read again in every pass."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.record import concatenate
from sswim.distributed.processes import ALONE, Processes, Share
from sswim.rows.rows import Rows, as_rows
from sswim.rows.scaling import Scaling
from sswim.rows.source import Source, prefetched
from sswim.rows.summary import RowSampler, Summary


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
            yield self._to_device(one_row.no_rows())

    def _standardised(self) -> Iterator[Rows]:
        for chunk in self.source.chunks(self.share):
            if len(chunk):
                yield self._to_device(self.scaling.rows(chunk.rows))

    def _to_device(self, rows: Rows) -> Rows:
        rows = replace(rows, inputs=rows.inputs.to(dtype=self.dtype))
        return rows.to(device=self.device)

    def in_memory(self) -> Rows:
        """Return all rows of the stream in memory."""
        return concatenate(self)


COPIES = 3
"""Number of copies of the rows in memory while they are standardised and put together."""


@dataclass(frozen=True)
class TrainingRows:
    """The standardised rows of a fit.

    Starts, folds and screening use the sample; training and conditioning use all rows.
    """

    sample: Rows
    """All rows that count, or a random sample of them: on the CPU, the same in every process."""
    everything: Rows | Stream
    """All rows of this process, on the training device."""
    n_rows: int
    """Number of rows of all processes together."""
    lowest: Float64[Tensor, " T"]
    """Smallest value of every standardised target."""
    highest: Float64[Tensor, " T"]
    """Largest value of every standardised target."""
    device: torch.device
    """The training device."""
    kept: Rows | None = None
    """All rows of all processes, on the training device, if members keep them; or a sample."""
    processes: Processes = ALONE

    @cached_property
    def device_sample(self) -> Rows:
        """The sample on the training device."""
        return self.sample.to(device=self.device)

    @property
    def complete(self) -> bool:
        """Whether every process has all rows in its sample."""
        return len(self.sample) == self.n_rows


def read_training_rows(
    source: Source,
    summary: Summary,
    *,
    dtype: torch.dtype,
    device: torch.device,
    memory: int,
    one_pass: bool,
    keep_rows: bool = False,
    processes: Processes = ALONE,
) -> TrainingRows:
    """Standardise the rows of a source, and hold them in memory if they fit.

    A model that keeps its rows needs all of them in every process. Of more than fit, a random
    sample is kept, and a warning says so.

    Args:
        source: The rows.
        summary: Summary of the source.
        dtype: Precision of the inputs.
        device: The training device.
        memory: Bytes that a process may hold; larger sources are read again in every pass.
        one_pass: Whether there is only one pass over all rows, so that none need to be held.
        keep_rows: Whether the model keeps its rows.
        processes: The processes that train together.
    """
    sample = summary.scaling.rows(summary.sample)
    if sample.weight is not None and bool((sample.weight == 1).all()):
        sample = replace(sample, weight=None)
    everything: Rows | Stream
    n_columns = sample.inputs.mean.shape[1] + sample.targets.shape[1] + 1
    row_bytes = COPIES * 8 * n_columns
    kept = None
    if keep_rows:
        kept = sample
        if not summary.complete:
            kept = _keep(source, summary, dtype, memory, row_bytes, processes)
        kept = kept.to(device=device)
    held = sample if kept is None else kept
    if len(held) == summary.n_rows:
        begin, end = processes.share.span(len(held))
        everything = held.map(itemgetter(slice(begin, end))).to(device=device)
    else:
        everything = Stream(source, processes.share, summary.scaling, dtype, device)
        n_bytes = row_bytes * summary.n_rows // processes.size
        if source.in_memory or (not one_pass and n_bytes <= memory):
            everything = everything.in_memory()
    lowest, highest = (summary.scaling.targets(ends) for ends in (summary.lowest, summary.highest))
    return TrainingRows(
        sample, everything, summary.n_rows, lowest, highest, device, kept, processes
    )


def _keep(
    source: Source,
    summary: Summary,
    dtype: torch.dtype,
    memory: int,
    row_bytes: int,
    processes: Processes,
) -> Rows:
    """Return all standardised rows that count, or as many of them as the memory holds."""
    readers, most = processes, max(len(summary.sample), memory // row_bytes)
    if source.in_memory:  # the user has them all in memory already
        readers, most = ALONE, summary.n_rows
    if most < summary.n_rows and processes.is_first:
        warnings.warn(
            f"The model predicts from its rows, and {memory / 2**20:.4g} MiB hold {most:,} of "
            f"{summary.n_rows:,} rows: a random sample of that size is kept. Give more memory to "
            "keep all.",
            stacklevel=5,
        )
    sampler = RowSampler(most)

    def collect() -> None:
        for chunk in source.chunks(readers.share):
            sampler.add(chunk)

    readers.run_everywhere(collect)
    rows = sampler.sample(readers).rows
    return summary.scaling.rows(replace(rows, inputs=rows.inputs.to(dtype=dtype)))
