"""Forged files: valid ones with a change, sealed again with a right checksum."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sswim.files.sealed_files import SealedFormat

NONSENSE: tuple[Any, ...] = (
    *(10**9, 10**30, -1, 0.5, float("nan"), float("inf"), "text", None, [], [1], {}, True),
)
"""Values of all types, one after the other in place of each value of a file."""


def leaves(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all values in JSON, of objects and lists too; of lists the ends only."""
    yield path
    if isinstance(content, dict):
        for key, value in content.items():
            yield from leaves(value, (*path, key))
    elif isinstance(content, list) and content:
        for number in {0, len(content) - 1}:
            yield from leaves(content[number], (*path, number))


def changed(content: dict[str, Any], path: tuple[Any, ...], value: Any) -> Any:
    """Return a copy of JSON with another value at a path."""
    if not path:
        return value
    forged = copy.deepcopy(content)
    place: Any = forged
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return forged


def forged_tensors(tensor: Tensor) -> Iterator[Tensor]:
    """Yield tensors of other shapes, types and values."""
    yield torch.zeros(0, dtype=tensor.dtype)
    yield torch.zeros(3, 1, 2, dtype=tensor.dtype)
    yield tensor[None]
    yield torch.cat([tensor, tensor]) if tensor.ndim else tensor.repeat(2)
    for dtype in (torch.int64, torch.bool, torch.float16, torch.complex64):
        if dtype != tensor.dtype:
            yield torch.ones(tensor.shape, dtype=dtype)
    if tensor.is_floating_point() and tensor.numel():
        for value in (torch.nan, torch.inf, -torch.inf, 0.9 * torch.finfo(tensor.dtype).max):
            yield torch.full_like(tensor, value)
            yield _with_first(tensor, value)
    elif tensor.dtype == torch.int64 and tensor.numel():
        yield _with_first(tensor, 2**62)
        yield _with_first(tensor, -2)


def _with_first(tensor: Tensor, value: float) -> Tensor:
    forged = tensor.clone()
    forged.view(-1)[0] = value
    return forged


def forge(kind: SealedFormat, path: Path, tensors: dict[str, Tensor], content: Any) -> None:
    """Write a file with a right checksum whatever it holds."""
    path.write_bytes(kind.to_bytes(tensors, content))
