"""What is known of the rows before anything is learnt from them, from one pass over them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.distributed.processes import ALONE, Processes
from sswim.distributed.share import Share
from sswim.rows.moments import Moments, moments
from sswim.rows.row_sample import Reservoir, least_keys
from sswim.rows.rows import Rows, as_rows
from sswim.rows.scaling import Scaling, learn_scaling, scaling_of
from sswim.rows.source import Chunk, Source

FEWEST_ROWS = 2
"""Of which anything can be learnt."""

SAMPLE_ROWS = 60_000
"""Enough for all that is learnt from a sample: see :mod:`sswim.recipe.folds`."""


@dataclass(frozen=True)
class Summary:
    """Of all rows, whoever has them."""

    n_rows: int
    """Each once."""
    weight: float
    """As often as each counts."""
    scaling: Scaling
    lowest: Float64[Tensor, " T"]
    highest: Float64[Tensor, " T"]
    """Of the targets."""
    sample: Rows
    """All rows that count, or a random choice of them, in the units of the data."""

    @property
    def complete(self) -> bool:
        """Whether the sample is all of the rows."""
        return len(self.sample) == self.n_rows


def describe(found: Summary, names: Iterable[str] | None = None) -> dict[str, Any]:
    """What tells these rows from others, JSON-able; rounded, for sums depend on their order."""
    scaling = found.scaling
    n_inputs, n_targets = len(scaling.input_mean), len(scaling.target_mean)
    inputs = [f"input {n}" for n in range(n_inputs)] if names is None else list(names)
    columns = [*inputs, *(f"target {n}" for n in range(n_targets))]
    means = torch.cat((scaling.input_mean, scaling.target_mean)).tolist()
    spreads = torch.cat((scaling.input_spread, scaling.target_spread)).tolist()
    return {
        "rows": found.n_rows,
        "weight": float(f"{found.weight:.9g}"),
        "columns": {
            # A mean of zero is one up to rounding, which is small beside the spread.
            name: {
                "mean": f"{round(mean / spread, 9) * spread + 0.0:.9g}",
                "spread": f"{spread:.9g}",
            }
            for name, mean, spread in zip(columns, means, spreads, strict=True)
        },
    }


def summarise_rows(rows: Rows) -> Summary:
    """Of rows in memory."""
    numbers = np.arange(len(rows))
    if rows.weight is not None:
        counted = rows.weight.cpu() > 0
        rows, numbers = rows.take(counted.nonzero()[:, 0]), numbers[counted.numpy()]
    chosen = least_keys(numbers, SAMPLE_ROWS)
    return Summary(
        len(rows),
        float(len(rows)) if rows.weight is None else rows.weight.sum().item(),
        learn_scaling(rows),
        rows.targets.amin(0),
        rows.targets.amax(0),
        rows if len(chosen) == len(rows) else rows.take(torch.from_numpy(chosen)),
    )


def summarise(
    source: Source, dtype: torch.dtype = torch.float64, processes: Processes = ALONE
) -> Summary:
    """Of a source: exact moments, and the sample that the same rows in memory have.

    Args:
        source: Each process reads its share of it.
        dtype: Of the features.
        processes: Which read it together.
    """
    reservoir = Reservoir(SAMPLE_ROWS)
    share = processes.share
    parts = processes.run_everywhere(lambda: _summarise(source, share, reservoir))
    found = [part for part in parts if part is not None]
    n_rows = sum(part.n_rows for part in found)
    if n_rows < FEWEST_ROWS:
        raise ValueError(
            f"A source must have at least {FEWEST_ROWS} rows that count. Got {n_rows}."
        )
    whole = reduce(add, found)
    sample = reservoir.sample(processes)
    rows = as_rows(sample.inputs, sample.targets, sample.weight, dtype=dtype)
    return Summary(
        whole.n_rows,
        whole.inputs.weight.item(),
        scaling_of(whole.inputs, whole.targets),
        whole.lowest,
        whole.highest,
        rows,
    )


@dataclass(frozen=True)
class _Summary:
    """Of the rows that one process has read so far."""

    n_rows: int
    inputs: Moments
    targets: Moments
    lowest: Float64[Tensor, " T"]
    highest: Float64[Tensor, " T"]

    def __add__(self, other: _Summary) -> _Summary:
        widths = [(one.inputs.mean.shape[0], one.targets.mean.shape[0]) for one in (self, other)]
        if widths[0] != widths[1]:
            raise ValueError(
                "All chunks must have as many inputs and targets. Got some with "
                f"{widths[0]} and some with {widths[1]}."
            )
        return _Summary(
            self.n_rows + other.n_rows,
            self.inputs + other.inputs,
            self.targets + other.targets,
            torch.minimum(self.lowest, other.lowest),
            torch.maximum(self.highest, other.highest),
        )


def _summarise(source: Source, share: Share, reservoir: Reservoir) -> _Summary | None:
    found: _Summary | None = None
    for chunk in source.chunks(share):
        rows = chunk_rows(chunk)
        if rows is None:
            continue
        reservoir.add(chunk)
        part = _Summary(
            len(rows),
            moments(rows.inputs.mean, rows.weight),
            moments(rows.targets, rows.weight),
            rows.targets.amin(0),
            rows.targets.amax(0),
        )
        found = part if found is None else found + part
    return found


def chunk_rows(chunk: Chunk, dtype: torch.dtype = torch.float64) -> Rows | None:
    """The rows of a chunk that count, checked; None if there are none."""
    if chunk.weight is not None:
        chunk = chunk.take(chunk.weight != 0)  # negative ones are to be refused
    if len(chunk) == 0:
        return None
    return as_rows(chunk.inputs, chunk.targets, chunk.weight, dtype=dtype)
