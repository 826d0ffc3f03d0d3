"""Rows of data: inputs with targets, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from sswim.base.errors import UserError
from sswim.base.record import Record
from sswim.rows.measure import Measure

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

    def take(self, indices: Int64[Tensor, " n"]) -> Rows:
        """Return the rows of some indices."""
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
        x: Inputs, (N, D).
        y: Targets, (N,) or (N, T).
        weight: Non-negative weights, (N,).
        x_variance: Variance of each input, (N, D); None where inputs are known exactly.
        dtype: ``torch.float64``, or ``torch.float32`` for features in single precision. Targets,
            statistics and algebra are always in float64.
    """
    inputs = as_measure(x, x_variance, dtype)
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
        if (weight < 0).any() or weight.sum() == 0:
            raise UserError("Weights must be non-negative, and at least one must be positive.")
        positive = weight[weight > 0]
        if positive.max() / positive.min() > _LARGEST_RATIO:
            raise UserError(
                f"The largest weight must be at most {_LARGEST_RATIO:.0e} times the smallest. Got "
                f"{positive.min().item():.2g} and {positive.max().item():.2g}; set the weight of "
                "rows that hardly count to 0."
            )
    return Rows(inputs, targets, weight)


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
        found, cure = "NaN or infinite", "drop or impute these rows first"
        if values.isfinite().all():
            found, cure = "too large", "use float64, or divide the column by a constant"
        raise UserError(
            f"{name} must be finite in {str(dtype).removeprefix('torch.')}. Got {bad} {found} "
            f"values; {cure}."
        )
    return tensor
