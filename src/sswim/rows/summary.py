"""A summary of a data set, made in one pass over its rows before anything is learnt.

It has exact moments and a random sample, which depends neither on how rows are chunked nor on who
reads them: every row has a key, a hash of its number, and the rows with the smallest keys are the
sample. The sample of two samples together is therefore the sample of all rows behind them. Targets
are checked in the sample: how many are equal, how extreme they are, and how they are rounded.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from operator import add
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64, UInt64
from torch import Tensor

from sswim.base.record import concatenate
from sswim.base.validation import UserError
from sswim.distributed.processes import ALONE, Processes, Share
from sswim.rows.rows import Rows, merge_copies, require_weights
from sswim.rows.scaling import (
    Moments,
    Scaling,
    moments,
    scaling_of,
    share_spreads,
    tame,
    weight_unit,
)
from sswim.rows.source import Chunk, Source

_TIED_SHARE = 0.25
"""Share of equal targets above which they are ties; rounded real data have up to 0.15."""

_FAR = 1e4
"""Distance of an extreme target in interquartile ranges; a log-normal with σ = 3 stays below."""


_ROUNDING = 1e-9
"""Distance of equal values after conversions of units, as a share of the range."""


_LARGEST = 1e280
"""Largest absolute value of a target: its predicted quantiles, far beyond it, are still numbers."""

_FARTHEST = 1e100
"""Largest distance of a later target from the mean of ``fit``, in spreads; its square is finite."""


def require_like_targets(rows: Rows, scaling: Scaling) -> None:
    """Raise an error about rows whose targets cannot be those of the model."""
    farthest = scaling.targets(rows.targets).abs().max().item()
    if farthest > _FARTHEST:
        raise UserError(
            "Targets must be in the units of those of fit. Got one that is "
            f"{farthest:.2g} times as far from their mean as they are spread; correct it, or fit "
            "a new model."
        )


def has_ties(rows: Rows) -> bool:
    """Whether so many targets are equal that no output warp can make them Gaussian."""
    targets = rows.targets if rows.weight is None else rows.targets[rows.weight > 0]
    return any(_largest_share(column) >= _TIED_SHARE for column in targets.cpu().numpy().T)


def warn_about_targets(rows: Rows, *, output_warp: bool) -> None:
    """Warn about extreme values, and about ties if an output warp is learnt."""
    targets = rows.targets if rows.weight is None else rows.targets[rows.weight > 0]
    for number, column in enumerate(targets.cpu().numpy().T):
        name = "y" if targets.shape[1] == 1 else f"Column {number} of y"
        lower, middle, upper = np.quantile(column, [0.25, 0.5, 0.75])
        farthest = np.abs(column - middle).max()
        if farthest > _FAR * (upper - lower) > 0:
            warnings.warn(
                f"{name} has a value {farthest / (upper - lower):.2g} times as far from the median "
                "as the middle half of the values is wide. Standardised, all others look alike: "
                "correct or remove it, or model the logarithm of y.",
                stacklevel=4,
            )
        if not output_warp:
            continue
        share = _largest_share(column)
        if share >= _TIED_SHARE:
            warnings.warn(
                f"{share:.0%} of {name} is one and the same value, where an output warp would make "
                "the density as high as it can. Learn it without (output_warp='none'), or learn "
                "these rows apart from the others.",
                stacklevel=4,
            )


def target_resolution(rows: Rows) -> Float64[Tensor, " T"]:
    """Return the step of every rounded target: the smallest distance of values that occur twice.

    It is zero for a target without such values.
    """
    steps = torch.zeros(rows.targets.shape[1], dtype=torch.float64)
    for number, column in enumerate(rows.targets.cpu().numpy().T):
        values, counts = np.unique(column, return_counts=True)
        gaps = np.diff(values[counts > 1])
        gaps = gaps[gaps > _ROUNDING * np.ptp(column)]
        steps[number] = gaps.min() if len(gaps) else 0.0
    return steps


def _largest_share(column: Float64[np.ndarray, " N"]) -> float:
    """Return the share of the most frequent value; zero if no value occurs twice."""
    most = np.unique(column, return_counts=True)[1].max()
    return float(most / len(column)) if most > 1 else 0.0


def sample_keys(
    numbers: Int64[np.ndarray, " n"], random_state: int = 0
) -> UInt64[np.ndarray, " n"]:
    """Hash row numbers by SplitMix64, a permutation of the 64-bit integers.

    Args:
        numbers: Numbers of rows.
        random_state: Seed that chooses one of many such permutations.
    """
    shift = np.uint64(random_state * 0xD1B54A32D192ED03 % 2**64)
    mixed = (numbers.astype(np.uint64) + shift) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def smallest_keys(
    numbers: Int64[np.ndarray, " n"], size: int, random_state: int = 0
) -> Int64[np.ndarray, " m"]:
    """Return the sorted indices of the ``size`` numbers with the smallest keys, or of all."""
    if len(numbers) <= size:
        return np.arange(len(numbers))
    return np.sort(np.argpartition(sample_keys(numbers, random_state), size - 1)[:size])


class RowSampler:
    """Collects the sample of all rows seen so far, of those whose weight is positive."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._chunks: list[Chunk] = []
        self._n_rows = 0
        self._largest_key: np.uint64 | None = None

    def add(self, chunk: Chunk) -> None:
        """Add the rows of a chunk."""
        if self._largest_key is not None:
            chunk = chunk.take(sample_keys(chunk.numbers) <= self._largest_key)
        if len(chunk) > self.size:
            chunk = chunk.take(smallest_keys(chunk.numbers, self.size))
        if len(chunk):
            self._chunks.append(chunk)
            self._n_rows += len(chunk)
        if self._n_rows > 2 * self.size:
            self._shrink()

    def sample(self, processes: Processes = ALONE) -> Chunk:
        """Return the sample of the rows of all processes, in the order of their numbers."""
        self._shrink()
        mine = self._chunks
        if processes.size > 1:
            # Keys first, so that no process sends rows that are not in the common sample.
            numbers = np.concatenate([np.empty(0, np.int64), *(chunk.numbers for chunk in mine)])
            all_keys = np.concatenate(processes.all_gather(sample_keys(numbers)))
            if len(all_keys) > self.size:
                largest = np.partition(all_keys, self.size - 1)[self.size - 1]
                mine = [chunk.take(sample_keys(chunk.numbers) <= largest) for chunk in mine]
            mine = [chunk for chunks in processes.all_gather(mine) for chunk in chunks]
        joined = _join(mine)
        return joined.take(np.argsort(joined.numbers))

    def _shrink(self) -> None:
        if self._n_rows <= self.size:
            return
        joined = _join(self._chunks)
        joined = joined.take(smallest_keys(joined.numbers, self.size))
        self._largest_key = sample_keys(joined.numbers).max()
        self._chunks, self._n_rows = [joined], self.size


def _join(chunks: Sequence[Chunk]) -> Chunk:
    if not chunks:
        raise UserError("A source must have at least one row that counts. Got none.")
    if len({len(chunk.rows.tensors()) for chunk in chunks}) > 1:
        raise UserError(
            "Either all chunks or none must have weights, and variances of inputs. Got some with "
            "and some without."
        )
    numbers = np.concatenate([chunk.numbers for chunk in chunks])
    return Chunk(numbers, concatenate(chunk.rows for chunk in chunks))


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
    readers = ALONE if source.in_memory else processes
    parts = readers.run_everywhere(lambda: _summarise_share(source, readers.share, sampler))
    shares = [part for part in parts if part is not None]
    n_rows = sum(part.n_rows for part in shares)
    if n_rows < MIN_ROWS and not source.in_memory:  # arrays were checked before copies merged
        raise UserError(f"There must be at least {MIN_ROWS} rows that count. Got {n_rows}.")
    total = reduce(add, shares)
    largest = total.targets.unit.max().item()
    if largest > _LARGEST:
        raise UserError(
            f"Targets must not exceed {_LARGEST:.0e}, so that predictions are finite. Got "
            f"{largest:.4g} in y; divide y by a constant."
        )
    sample = sampler.sample(readers).rows
    if sample.weight is not None:
        require_weights(sample.weight)
    if len(sample) == n_rows and not source.in_memory:
        sample = merge_copies(sample)
        n_rows = len(sample)
    scaling = scaling_of(total.inputs, total.targets)
    bounded = frozenset(chain.from_iterable(source.isotropic))
    scaling = tame(scaling, sample, total.inputs, source.names, bounded)
    scaling = share_spreads(scaling, source.isotropic, total.inputs)
    unit = scaling.weight_unit.new_tensor(weight_unit(sample))
    return Summary(
        n_rows,
        total.inputs.weight.item(),
        replace(scaling, weight_unit=unit),
        total.targets.lowest,
        total.targets.highest,
        replace(sample, inputs=sample.inputs.to(dtype=dtype)),
    )


@dataclass(frozen=True)
class _ShareSummary:
    """Summary of the rows that one process has read so far."""

    n_rows: int
    inputs: Moments
    targets: Moments

    def __add__(self, other: _ShareSummary) -> _ShareSummary:
        widths = [(one.inputs.mean.shape[0], one.targets.mean.shape[0]) for one in (self, other)]
        if widths[0] != widths[1]:
            raise UserError(
                "All chunks must have the same number of inputs and targets. Got chunks with "
                f"{widths[0]} and {widths[1]}."
            )
        n_rows = self.n_rows + other.n_rows
        return _ShareSummary(n_rows, self.inputs + other.inputs, self.targets + other.targets)


def _summarise_share(source: Source, share: Share, sampler: RowSampler) -> _ShareSummary | None:
    summary: _ShareSummary | None = None
    for chunk in source.chunks(share):
        if not len(chunk):
            continue
        sampler.add(chunk)
        rows = chunk.rows
        inputs, targets = (moments(each, rows.weight) for each in (rows.inputs.mean, rows.targets))
        part = _ShareSummary(len(rows), inputs, targets)
        summary = part if summary is None else summary + part
    return summary
