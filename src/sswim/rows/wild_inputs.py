"""Wild inputs: values so far from all others that they can only be mistakes.

One cell of 1e12 in a column of percentages would set the spread of the whole column, and all other
values would look alike. Such a value is taken as the farthest value that is not wild, in training
and in predictions, and a warning names the column.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.rows.column_width import column_median, column_width
from sswim.rows.moments import moments
from sswim.rows.rows import Rows
from sswim.rows.scaling import Scaling, scaling_of

_FAR = 1e4
"""Distance of a wild value from the median, in widths of the column."""


def tame(
    scaling: Scaling,
    sample: Rows,
    lowest: Float64[Tensor, " D"],
    highest: Float64[Tensor, " D"],
    names: Sequence[str] | None = None,
    bounded: Collection[int] = (),
) -> Scaling:
    """Return a scaling that limits the columns with wild values, and warn of these.

    Args:
        scaling: The scaling of all rows.
        sample: Some rows, or all.
        lowest: Smallest value of every input in all rows.
        highest: Largest value of every input in all rows.
        names: Names of the inputs.
        bounded: Inputs that are never wild, because they are coordinates of points on a sphere: if
            most points are in one town, others are far away and yet no mistakes.
    """
    low, high = scaling.input_low.clone(), scaling.input_high.clone()
    for number, column in enumerate(sample.inputs.mean.to(torch.float64).cpu().numpy().T):
        bottom, top = lowest[number].item(), highest[number].item()
        found = None if number in bounded else _range(column, bottom, top)
        if found is None:
            continue
        low[number], high[number] = found
        name = f"Column {number} of X" if names is None else f"Input {names[number]!r}"
        wild = top if top > found[1] else bottom
        warnings.warn(
            f"{name} has a value, {wild:.4g}, that is more than {_FAR:.0e} times as far from the "
            f"median as half of the values. Values outside {found[0]:.4g} to {found[1]:.4g} are "
            "taken as these limits: correct or remove it if it is a mistake.",
            stacklevel=3,
        )
    if bool((low.isinf() & high.isinf()).all()):
        return scaling
    limited = sample.inputs.mean.to(torch.float64).clamp(low, high)
    of_limited = scaling_of(moments(limited, sample.weight), moments(sample.targets, sample.weight))
    is_wild = ~(low.isinf() & high.isinf())
    return replace(
        scaling,
        input_mean=torch.where(is_wild, of_limited.input_mean, scaling.input_mean),
        input_spread=torch.where(is_wild, of_limited.input_spread, scaling.input_spread),
        input_low=low,
        input_high=high,
    )


def _range(
    column: Float64[np.ndarray, " N"], lowest: float, highest: float
) -> tuple[float, float] | None:
    """Return the limits of the values of a column that are not wild; None if no value is.

    They are as far from the median on both sides as the farthest such value of the sample.
    """
    middle = column_median(column)
    width = column_width(column)
    if width is None or max(highest - middle, middle - lowest) <= _FAR * width:
        return None
    usual = column[np.abs(column - middle) <= _FAR * width]
    reach = float(np.abs(usual - middle).max())
    return middle - reach, middle + reach
