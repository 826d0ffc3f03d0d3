"""A summary of a data set, made in one pass over its rows before anything is learnt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from operator import add
from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.errors import UserError
from sswim.distributed.processes import ALONE, Processes
from sswim.distributed.share import ALL_ROWS, Share
from sswim.rows.copies import merge_copies
from sswim.rows.moments import Moments, moments
from sswim.rows.row_sample import RowSampler
from sswim.rows.rows import Rows, as_rows
from sswim.rows.scaling import Scaling, scaling_of, share_spreads
from sswim.rows.source import Chunk, Source
from sswim.rows.target_checks import require_moderate_targets
from sswim.rows.weight_unit import weight_unit
from sswim.rows.wild_inputs import tame

MIN_ROWS = 2
"""Smallest number of rows that anything can be learnt from."""

SAMPLE_ROWS = 60_000
"""Size of the sample: enough for folds, starts of training and the noise field."""


@dataclass(frozen=True)
class Summary:
    """Summary of a data set across processes."""

    n_rows: int
    """Number of rows whose weight is not zero; of distinct ones if the sample has all."""
    weight: float
    """Sum of the weights of the rows."""
    scaling: Scaling
    """Means and spreads of inputs and targets, and the unit of weights."""
    lowest: Float64[Tensor, " T"]
    """Smallest value of every target."""
    highest: Float64[Tensor, " T"]
    """Largest value of every target."""
    sample: Rows
    """All rows that count, or a random sample of them, in the units of the data."""

    @property
    def complete(self) -> bool:
        """Whether the sample has all rows."""
        return len(self.sample) == self.n_rows


def describe(summary: Summary, names: Iterable[str] | None = None) -> dict[str, Any]:
    """Return JSON-able facts that tell a data set from others.

    Numbers are rounded, because sums depend on the order of the rows.

    Args:
        summary: Summary of the data set.
        names: Names of the inputs.
    """
    scaling = summary.scaling
    n_inputs, n_targets = len(scaling.input_mean), len(scaling.target_mean)
    inputs = [f"input {n}" for n in range(n_inputs)] if names is None else list(names)
    columns = [*inputs, *(f"target {n}" for n in range(n_targets))]
    means = torch.cat((scaling.input_mean, scaling.target_mean)).tolist()
    spreads = torch.cat((scaling.input_spread, scaling.target_spread)).tolist()
    return {
        "rows": summary.n_rows,
        "weight": float(f"{summary.weight:.9g}"),
        "columns": {
            # A mean of zero is zero up to rounding, which is small beside the spread.
            name: {
                "mean": f"{round(mean / spread, 9) * spread + 0.0:.9g}",
                "spread": f"{spread:.9g}",
            }
            for name, mean, spread in zip(columns, means, spreads, strict=True)
        },
    }


def summarise(
    source: Source, dtype: torch.dtype = torch.float64, processes: Processes = ALONE
) -> Summary:
    """Summarise a source: exact moments, and a sample that does not depend on the chunks.

    Args:
        source: The rows. Each process reads its share, or all rows if they are in memory.
        dtype: Precision of the sample's inputs.
        processes: The processes that call this together.
    """
    sampler = RowSampler(SAMPLE_ROWS)
    if source.in_memory:
        parts = [_summarise_share(source, ALL_ROWS, sampler)]
        readers = ALONE
    else:
        parts = processes.run_everywhere(lambda: _summarise_share(source, processes.share, sampler))
        readers = processes
    found = [part for part in parts if part is not None]
    n_rows = sum(part.n_rows for part in found)
    if n_rows < MIN_ROWS and not source.in_memory:  # arrays were checked before copies merged
        raise UserError(f"There must be at least {MIN_ROWS} rows that count. Got {n_rows}.")
    total = reduce(add, found)
    require_moderate_targets(total.targets.largest)
    chunk = sampler.sample(readers)
    sample = as_rows(chunk.inputs, chunk.targets, chunk.weight, chunk.input_variance)
    if len(sample) == n_rows:
        sample = merge_copies(sample)
        n_rows = len(sample)
    scaling = scaling_of(total.inputs, total.targets)
    bounded = frozenset(chain.from_iterable(source.isotropic))
    ends = total.lowest_inputs, total.highest_inputs
    scaling = tame(scaling, sample, *ends, source.names, bounded)
    scaling = share_spreads(scaling, source.isotropic, total.inputs)
    unit = scaling.weight_unit.new_tensor(weight_unit(sample))
    return Summary(
        n_rows,
        total.inputs.weight.item(),
        replace(scaling, weight_unit=unit),
        total.lowest,
        total.highest,
        replace(sample, inputs=sample.inputs.to(dtype=dtype)),
    )


@dataclass(frozen=True)
class _ShareSummary:
    """Summary of the rows that one process has read so far."""

    n_rows: int
    inputs: Moments
    targets: Moments
    lowest: Float64[Tensor, " T"]
    highest: Float64[Tensor, " T"]
    lowest_inputs: Float64[Tensor, " D"]
    highest_inputs: Float64[Tensor, " D"]

    def __add__(self, other: _ShareSummary) -> _ShareSummary:
        widths = [(one.inputs.mean.shape[0], one.targets.mean.shape[0]) for one in (self, other)]
        if widths[0] != widths[1]:
            raise UserError(
                "All chunks must have the same number of inputs and targets. Got chunks with "
                f"{widths[0]} and {widths[1]}."
            )
        return _ShareSummary(
            self.n_rows + other.n_rows,
            self.inputs + other.inputs,
            self.targets + other.targets,
            torch.minimum(self.lowest, other.lowest),
            torch.maximum(self.highest, other.highest),
            torch.minimum(self.lowest_inputs, other.lowest_inputs),
            torch.maximum(self.highest_inputs, other.highest_inputs),
        )


def _summarise_share(source: Source, share: Share, sampler: RowSampler) -> _ShareSummary | None:
    found: _ShareSummary | None = None
    for chunk in source.chunks(share):
        rows = chunk_rows(chunk)
        if rows is None:
            continue
        sampler.add(chunk)
        part = _ShareSummary(
            len(rows),
            moments(rows.inputs.mean, rows.weight),
            moments(rows.targets, rows.weight),
            rows.targets.amin(0),
            rows.targets.amax(0),
            rows.inputs.mean.amin(0),
            rows.inputs.mean.amax(0),
        )
        found = part if found is None else found + part
    return found


def chunk_rows(chunk: Chunk) -> Rows | None:
    """Check the rows of a chunk whose weight is not zero; None if there are none."""
    if chunk.weight is not None:
        chunk = chunk.take(chunk.weight != 0)  # as_rows raises an error for negative weights
    if len(chunk) == 0:
        return None
    return as_rows(chunk.inputs, chunk.targets, chunk.weight, chunk.input_variance)
