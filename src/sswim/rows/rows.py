"""Rows of data: inputs and how uncertain they are, with targets and weights.

Arrays are checked once, where they become rows. Copies of a row are found by keys: 64-bit numbers
that are equal where all values of two rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from sswim.base.record import Record, chunks
from sswim.base.validation import UserError, require_restartable

Variance = Float[Tensor, "*N D"] | Float[Tensor, "*N D D"]
"""The diagonal of a covariance, or all of it."""


@dataclass(frozen=True)
class Measure(Record):
    """A Gaussian N(m, Σ) for every row; a row without variance is a point.

    Its uncertainty has two causes, which are kept apart: the warps are uncertain functions, and
    the raw input itself may be uncertain.

    Rows lie along the last of the axes ``*N``. Where every member has its own measure, the axes of
    the members come before it.
    """

    mean: Float[Tensor, "*N D"]
    """m, the means."""
    variance: Float[Tensor, "*N D"] | Float[Tensor, "*N D D"] | None = None
    """Variance caused by the warps; None before the first warp."""
    input_variance: Float[Tensor, "*N D"] | Float[Tensor, "*N D D"] | None = None
    """Variance of the raw input, passed on by the warps; None if the input is known exactly."""


def full_covariance(mean: Float[Tensor, "*N D"], variance: Variance) -> Float[Tensor, "*N D D"]:
    """Return the covariance matrices, which may be given by their diagonals."""
    return torch.diag_embed(variance) if variance.ndim == mean.ndim else variance


def marginal_variance(measure: Measure) -> Float[Tensor, "*N D"] | None:
    """Return the variance of each coordinate from both causes; None for points."""
    parts = [
        full_covariance(measure.mean, variance).diagonal(dim1=-2, dim2=-1)
        for variance in (measure.variance, measure.input_variance)
        if variance is not None
    ]
    return sum(parts[1:], parts[0]) if parts else None


def row_keys(values: Float[Tensor, "N C"]) -> Int64[Tensor, " N"]:
    """Hash the values of every row, in their precision, by SplitMix64.

    Keys do not depend on the order of the rows or on the device.
    """
    integers = torch.int32 if values.dtype == torch.float32 else torch.int64
    keys = torch.zeros(len(values), dtype=torch.int64, device=values.device)
    for column in (values + 0.0).contiguous().view(integers).unbind(-1):  # −0 becomes 0
        keys = _mix(keys ^ column)
    return keys


def _mix(keys: Int64[Tensor, " N"]) -> Int64[Tensor, " N"]:
    """Mix the bits of integers by SplitMix64."""
    keys = keys + -0x61C8864680B583EB  # 0x9E3779B97F4A7C15, as all constants here modulo 2^64
    keys = (keys ^ _shift(keys, 30)) * -0x40A7B892E31B1A47
    keys = (keys ^ _shift(keys, 27)) * -0x6B2FB644ECCEEE15
    return keys ^ _shift(keys, 31)


def _shift(keys: Int64[Tensor, " N"], places: int) -> Int64[Tensor, " N"]:
    """Shift bits to the right, with zeros from the left."""
    return (keys >> places) & ((1 << (64 - places)) - 1)


_LARGEST_RATIO = 1e100
"""Largest ratio of two weights; noise is divided by weights and must stay finite."""


@dataclass(frozen=True)
class Rows(Record):
    """Inputs with targets; the precision of the inputs is the precision of the features.

    A batch of members shares rows, unless every tensor has the members' axes in front: then each
    member has its own rows, all of them the same number.
    """

    inputs: Measure
    targets: Float64[Tensor, "*B N T"]
    weight: Float64[Tensor, "*B N"] | None = None
    """How many times each row counts; None for once."""

    def __len__(self) -> int:
        return self.targets.shape[-2]

    def take(self, indices: Int64[Tensor, "*B n"]) -> Rows:
        """Return the rows of some indices, which may have axes of members."""
        return self.map(lambda tensor: tensor[indices])

    def no_rows(self) -> Rows:
        """Return a record of the same form without any rows."""
        return self.map(lambda tensor: tensor[:0])

    @property
    def axis(self) -> int:
        """The axis of the rows, which follows the axes of members."""
        return self.targets.ndim - 2


def as_rows(
    x: Any,
    y: Any,
    weight: Any = None,
    x_variance: Any = None,
    dtype: torch.dtype = torch.float64,
) -> Rows:
    """Check arrays or tensors, and make rows of them.

    Args:
        x: Inputs, (N, D); or a measure, which stays as it is.
        y: Targets, (N,) or (N, T).
        weight: Non-negative weights, (N,).
        x_variance: Variance of each input, (N, D); None where inputs are known exactly.
        dtype: ``torch.float64``, or ``torch.float32`` for features in single precision. Targets,
            statistics and algebra are always in float64.
    """
    inputs = x if isinstance(x, Measure) else as_measure(x, x_variance, dtype)
    targets = _tensor("y", y, torch.float64)
    if targets.ndim == 1:
        targets = targets[:, None]
    if targets.ndim != 2:
        raise UserError(f"y must have shape (N,) or (N, T). Got y.shape={tuple(targets.shape)}.")
    n_rows = len(inputs.mean)
    if len(targets) != n_rows:
        raise UserError(
            "x and y must have the same number of rows. "
            f"Got x.shape={tuple(inputs.mean.shape)} and y.shape={tuple(targets.shape)}."
        )
    if weight is not None:
        weight = _tensor("weight", weight, torch.float64)
        if weight.shape != (n_rows,):
            raise UserError(
                f"weight must have shape (N,) = ({n_rows},). Got {tuple(weight.shape)}."
            )
        require_weights(weight)
    return Rows(inputs, targets, weight)


def require_weights(weight: Float64[Tensor, " N"]) -> None:
    """Raise unless weights are not negative, not all zero, and of a similar size."""
    if (weight < 0).any() or weight.sum() == 0:
        raise UserError("Weights must be non-negative, and at least one must be positive.")
    positive = weight[weight > 0]
    if positive.max() / positive.min() > _LARGEST_RATIO:
        raise UserError(
            f"The largest weight must be at most {_LARGEST_RATIO:.0e} times the smallest. Got "
            f"{positive.min().item():.2g} and {positive.max().item():.2g}; set the weight of "
            "rows that hardly count to 0."
        )


def as_measure(x: Any, x_variance: Any = None, dtype: torch.dtype = torch.float64) -> Measure:
    """Check inputs, with or without variances, and make a measure of them."""
    if dtype not in (torch.float32, torch.float64):
        raise UserError(f"dtype must be torch.float32 or torch.float64. Got {dtype}.")
    mean = _tensor("x", x, dtype)
    if mean.ndim != 2 or 0 in mean.shape:
        raise UserError(
            "x must have shape (N, D) with at least one row and one column. "
            f"Got x.shape={tuple(mean.shape)}. Reshape a single column with x[:, None]."
        )
    if x_variance is None:
        return Measure(mean)
    variance = _tensor("x_variance", x_variance, dtype)
    if variance.shape != mean.shape:
        raise UserError(
            "x_variance must have the shape of x, one variance per input. "
            f"Got x.shape={tuple(mean.shape)} and x_variance.shape={tuple(variance.shape)}."
        )
    if (variance < 0).any():
        raise UserError(f"Variances must not be negative. Got {variance.min().item():g}.")
    return Measure(mean, input_variance=variance)


def _tensor(name: str, values: Any, dtype: torch.dtype) -> Tensor:
    try:
        if not isinstance(values, Tensor):
            array = np.asarray(values)
            # Tensors cannot be read-only, as memory maps are.
            values = torch.as_tensor(array if array.flags.writeable else array.copy())
        tensor = values.detach().to(dtype)
    except (TypeError, ValueError) as error:
        raise UserError(f"{name} must be an array of numbers: {error}") from error
    if not tensor.isfinite().all():
        bad = int((~tensor.isfinite()).sum())
        trouble, cure = "NaN or infinite", "drop or impute these rows first"
        if values.isfinite().all():
            trouble, cure = "too large", "use float64, or divide the column by a constant"
        raise UserError(
            f"{name} must be finite in {str(dtype).removeprefix('torch.')}. Got {bad} {trouble} "
            f"values; {cure}."
        )
    return tensor


def merge_copies(rows: Rows) -> Rows:
    """Return distinct rows in an order that depends on them alone, with the sums of their weights.

    Rows without copies whose weights are equal, or that have none, are returned as they are: equal
    weights mean as much as none.
    """
    columns = replace(rows, weight=None).to(dtype=torch.float64).tensors()
    keys = row_keys(torch.cat(columns, dim=1))
    distinct, index = keys.unique(return_inverse=True)
    weight = rows.targets.new_ones(len(rows)) if rows.weight is None else rows.weight
    if len(distinct) == len(rows) and bool((weight == weight[:1]).all()):
        return rows
    total = weight.new_zeros(len(distinct)).index_add_(0, index, weight)
    first = index.new_full((len(distinct),), len(rows)).scatter_reduce_(
        0, index, torch.arange(len(rows), device=index.device), "amin"
    )
    return replace(rows.take(first), weight=total)


@dataclass(frozen=True)
class SmallerChunks:
    """Chunks cut into smaller ones, anew in every pass over them."""

    rows: Iterable[Rows]
    """Chunks in an iterable that can be restarted."""
    size_of: Callable[[Rows], int]
    """Returns the largest number of rows that a chunk is cut into."""

    def __post_init__(self) -> None:
        require_restartable(self.rows)

    def __iter__(self) -> Iterator[Rows]:
        for chunk in self.rows:
            if len(chunk) == 0:
                yield chunk
            else:
                yield from chunks(chunk, self.size_of(chunk), chunk.axis)
