"""Checks of tensors that come from a file, before anything is computed from them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from torch import Tensor

MAX_NUMBER = 1e150
"""Largest size of numbers whose squares are still finite."""


def require_tensors(
    found: Mapping[str, Tensor],
    expected: Mapping[str, Tensor],
    may_be_infinite: Collection[str] = (),
) -> None:
    """Raise unless tensors have the names, shapes and types that are expected, and finite values.

    Args:
        found: The tensors of a file.
        expected: Tensors of the right shapes and types; they may be on the meta device, without
            any memory.
        may_be_infinite: Names of tensors in which infinity, but not NaN, has a meaning.

    Raises:
        ValueError: They do not.
    """
    for name in expected:
        if name not in found:
            raise ValueError(f"there is no tensor {name!r}")
    for name, tensor in found.items():
        if name not in expected:
            raise ValueError(f"there is a tensor {name!r}, which nothing needs")
        require_form(name, tensor, expected[name].shape, expected[name].dtype)
        require_finite(name, tensor, infinite=name in may_be_infinite)


def require_form(name: str, tensor: Tensor, shape: Collection[int], dtype: torch.dtype) -> None:
    """Raise unless a tensor has a shape and a type."""
    if tuple(tensor.shape) != tuple(shape) or tensor.dtype != dtype:
        raise ValueError(
            f"the tensor {name!r} must have shape {tuple(shape)} and type {dtype}, but has "
            f"{tuple(tensor.shape)} and {tensor.dtype}"
        )


def require_finite(name: str, tensor: Tensor, *, infinite: bool = False) -> None:
    """Raise if a tensor of numbers has NaN, or infinity where that has no meaning."""
    is_wrong = tensor.isnan() if infinite else ~tensor.isfinite()
    if is_wrong.any():
        raise ValueError(f"the tensor {name!r} has NaN{'' if infinite else ' or infinite'} values")


def require_moderate(name: str, tensor: Tensor, largest: float = MAX_NUMBER) -> None:
    """Raise if a tensor has numbers of more than the largest size."""
    require_that(
        f"the tensor {name!r} must have numbers of at most {largest:g}",
        holds=(tensor.abs() <= largest).all(),
    )


def require_ordered(tensors: Mapping[str, Tensor], prefix: str) -> None:
    """Raise unless ranges have a lower and an upper end, of which only one side is infinite."""
    separator = "" if prefix.endswith(".") else "_"
    low, high = (tensors[f"{prefix}{separator}{end}"] for end in ("low", "high"))
    require_that(
        f"the lower end of a range must not exceed the upper one: {prefix}",
        holds=((low <= high) & (low < torch.inf) & (high > -torch.inf)).all(),
    )


def require_that(rule: str, *, holds: bool | Tensor) -> None:
    """Raise with a rule unless it holds."""
    if not bool(holds):
        raise ValueError(rule)
