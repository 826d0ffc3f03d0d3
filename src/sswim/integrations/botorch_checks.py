"""Checks of rows given to a model of BoTorch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sswim.base.errors import UserError


def check_training_rows(X: Any, Y: Any, variance: Any) -> None:
    """Raise unless a model can be fitted to rows; say what is wrong."""
    check_values(X, Y, variance)
    for name, tensor in (("train_X", X), ("train_Y", Y)):
        if tensor.ndim != 2:
            raise UserError(
                f"{name} must have two axes, rows and columns. Got the shape "
                f"{tuple(tensor.shape)}. Make one model for each entry of a batch."
            )
    if len(X) != len(Y) or not len(X):
        raise UserError(
            f"train_X and train_Y must have the same rows, at least one. Got {len(X)} and {len(Y)}."
        )
    if not X.shape[1] or not Y.shape[1]:
        raise UserError(
            f"train_X and train_Y must have at least one column. Got {X.shape[1]} and {Y.shape[1]}."
        )
    if variance is not None and variance.shape != Y.shape:
        raise UserError(
            f"train_Yvar must have the shape of train_Y, {tuple(Y.shape)}. "
            f"Got {tuple(variance.shape)}."
        )


def check_inputs(X: Tensor, n_inputs: int) -> None:
    """Raise unless X holds sets of points with as many inputs as the model has."""
    if X.ndim < 2 or X.shape[-1] != n_inputs:
        raise UserError(
            f"X must have two axes or more, the last of {n_inputs} inputs as train_X has. "
            f"Got the shape {tuple(X.shape)}."
        )


def check_further_rows(X: Tensor, Y: Tensor, variance: Tensor | None, n_outputs: int) -> None:
    """Raise unless a fitted model can be conditioned on rows."""
    check_values(X, Y, variance)
    if Y.shape[-2:] != (X.shape[-2], n_outputs):
        raise UserError(
            f"Y must end in the axes ({X.shape[-2]}, {n_outputs}): the rows of X, and the outputs "
            f"of the model. Got the shape {tuple(Y.shape)}."
        )


def check_size(Y: Tensor) -> None:
    """Raise unless variances of targets, which are squares, can be represented."""
    limits = torch.finfo(Y.dtype)
    differences = Y.amax(0) - Y.amin(0)
    smallest, largest = limits.tiny**0.5, limits.max**0.5
    if (Y.abs() > largest).any() or ((differences > 0) & (differences < smallest)).any():
        raise UserError(
            f"Values of Y must be at most {largest:.0e} in size and differ by at least "
            f"{smallest:.0e}, so that {Y.dtype} holds their variances. Got values up to "
            f"{Y.abs().max().item():.0e}, which differ by {differences.tolist()}. "
            "Multiply Y by a constant."
        )


def check_values(X: Any, Y: Any, variance: Any) -> None:
    """Raise unless inputs, targets and variances are tensors of finite numbers."""
    for name, tensor in (("X", X), ("Y", Y), ("the variance of Y", variance)):
        if tensor is None:
            continue
        if not isinstance(tensor, Tensor):
            raise UserError(f"{name} must be a tensor of PyTorch. Got {type(tensor).__name__}.")
        if not tensor.is_floating_point():
            raise UserError(f"{name} must have floating-point numbers. Got {tensor.dtype}.")
        bad = int((~tensor.isfinite()).sum())
        if bad:
            raise UserError(
                f"{name} must be finite. Got {bad} values that are NaN or infinite: leave out the "
                "rows of failed trials, or give these a value worse than all others."
            )
    if variance is not None and (variance < 0).any():
        raise UserError(f"Variances must not be negative. Got {variance.min().item():g}.")
