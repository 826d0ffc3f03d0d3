"""Checks of targets: how many are equal, how extreme they are, and how they are rounded."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.errors import UserError
from sswim.rows.rows import Rows
from sswim.rows.scaling import Scaling

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


def require_moderate_targets(largest: Float64[Tensor, " T"]) -> None:
    """Raise an error about targets that are almost too large for numbers.

    Args:
        largest: Largest absolute value of every target.
    """
    if bool((largest > _LARGEST).any()):
        raise UserError(
            f"Targets must not exceed {_LARGEST:.0e}, so that predictions are finite. Got "
            f"{largest.max().item():.4g} in y; divide y by a constant."
        )


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
                stacklevel=3,
            )
        if not output_warp:
            continue
        share = _largest_share(column)
        if share >= _TIED_SHARE:
            warnings.warn(
                f"{share:.0%} of {name} is one and the same value, where an output warp would make "
                "the density as high as it can. Learn it without (output_warp='none'), or learn "
                "these rows apart from the others.",
                stacklevel=3,
            )


def target_resolution(rows: Rows) -> Float64[Tensor, " T"]:
    """Return the step of every rounded target: the smallest distance of values that occur twice.

    It is zero for a target without such values.
    """
    steps = [_resolution(column) for column in rows.targets.cpu().numpy().T]
    return torch.tensor(steps, dtype=torch.float64)


def _resolution(column: Float64[np.ndarray, " N"]) -> float:
    values, counts = np.unique(column, return_counts=True)
    gaps = np.diff(values[counts > 1])
    gaps = gaps[gaps > _ROUNDING * np.ptp(column)]
    return float(gaps.min()) if len(gaps) else 0.0


def _largest_share(column: Float64[np.ndarray, " N"]) -> float:
    """Return the share of the most frequent value; zero if no value occurs twice."""
    most = np.unique(column, return_counts=True)[1].max()
    return float(most / len(column)) if most > 1 else 0.0
