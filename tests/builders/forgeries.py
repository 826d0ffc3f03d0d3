"""Damaged files, and forged ones: valid files with a change, sealed again with a right checksum.

``damages`` and ``edits`` are drawn by Hypothesis; ``forged_tensors`` and ``NONSENSE`` are listed.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from hypothesis import strategies as st
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


Kind = Literal["flip", "set", "cut", "end", "insert", "repeat", "swap"]


@dataclass(frozen=True)
class Damage:
    """One damage to the bytes of a file."""

    kind: Kind
    place: float = 0.0
    """Where, as a fraction of the file."""
    other: float = 0.0
    """The other place, where there are two."""
    block: bytes = b"\0"
    """Bytes that are written; of bytes that are moved only their number counts."""

    def apply(self, data: bytes) -> bytes:
        """Return the damaged bytes."""
        start, other = (round(place * len(data)) for place in (self.place, self.other))
        size = len(self.block)
        result = data
        match self.kind:
            case "flip":
                bit = 1 << (self.block[0] % 8)
                flipped = bytes(byte ^ bit for byte in data[start : start + 1])
                result = data[:start] + flipped + data[start + 1 :]
            case "set":
                result = data[:start] + self.block + data[start + size :]
            case "cut":
                result = data[: min(start, other)] + data[max(start, other) :]
            case "end":
                result = data[:start]
            case "insert":
                result = data[:start] + self.block + data[start:]
            case "repeat":
                result = data[:other] + data[start : start + size] + data[other:]
            case "swap":
                first, second = min(start, other), max(start, other, min(start, other) + size)
                one, two = data[first : first + size], data[second : second + size]
                between = data[first + size : second]
                result = data[:first] + two + between + one + data[second + size :]
        return result


def damages(largest_block: int = 64) -> st.SearchStrategy[tuple[Damage, ...]]:
    """Return a strategy of a few damages; many are near the beginning, where headers are."""
    place = st.floats(0, 1) | st.floats(0, 0.02)
    block = st.binary(min_size=1, max_size=largest_block)
    damage = st.builds(Damage, st.sampled_from(get_args(Kind)), place, place, block)
    return st.lists(damage, min_size=1, max_size=4).map(tuple)


def damaged(data: bytes, changes: tuple[Damage, ...]) -> bytes:
    """Return bytes after some damages."""
    for change in changes:
        data = change.apply(data)
    return data


NUMBERS = (
    *(float("nan"), float("inf"), -float("inf"), 0.0, -1.0, 0.3, 2.0, 50.0, -299.0, 299.0),
    *(1e-300, 1e-8, 1e8, 1e30, 1e77, -1e77, 1e150, -1e150, 1e154, 1e300, -1e300),
)
"""Numbers at the limits of what a file may hold, beyond them, and usual ones."""

DTYPES = (torch.float32, torch.float16, torch.int64, torch.bool, torch.complex64)

Content = dict[str, Any]
Tensors = dict[str, Tensor]
Action = Literal[
    "fill", "set", "times", "plus", "dtype", "empty", "longer", "axis", "less", "drop", "copy"
]


@dataclass(frozen=True)
class ValueEdit:
    """Another value in the JSON part, or a new one."""

    path: tuple[Any, ...]
    value: Any

    def apply(self, tensors: Tensors, content: Content) -> tuple[Tensors, Content]:
        """Return what a file holds after the edit; the same if an earlier edit took its place."""
        try:
            parent = _at(content, self.path[:-1])
            if isinstance(parent, dict) == isinstance(self.path[-1], str):
                content = changed(content, self.path, self.value)
        except (LookupError, TypeError):
            pass
        return tensors, content


@dataclass(frozen=True)
class TensorEdit:
    """Another tensor of the same name, one less, or one more."""

    name: str
    action: Action
    number: float = 0.0
    place: int = 0
    """Which element, type or new name."""

    def apply(self, tensors: Tensors, content: Content) -> tuple[Tensors, Content]:
        """Return what a file holds after the edit; the same if it is not possible."""
        old = tensors.get(self.name)
        if old is None:
            return tensors, content
        others = {name: tensor for name, tensor in tensors.items() if name != self.name}
        if self.action == "drop":
            return others, content
        if self.action == "copy":
            name = (f"{self.name}.more", f"{self.name}1", f"more.{self.name}", "")[self.place % 4]
            return {**tensors, name: old.clone()}, content
        return {**tensors, self.name: self._changed(old)}, content

    def _changed(self, tensor: Tensor) -> Tensor:
        number: float = self.number if tensor.is_floating_point() else _whole(self.number)
        # Infinite where it is too large for the type.
        value = torch.tensor(number, dtype=_widest(tensor)).to(tensor.dtype)
        result = tensor
        match self.action:
            case "fill":
                result = value.expand(tensor.shape).clone()
            case "set" if tensor.numel():
                result = tensor.clone()
                result.view(-1)[self.place % tensor.numel()] = value
            case "times" if tensor.is_floating_point():
                result = tensor * number
            case "plus" if tensor.is_floating_point():
                result = tensor + number
            case "dtype":
                real = tensor.real if tensor.is_complex() else tensor
                result = real.to(DTYPES[self.place % len(DTYPES)])
            case "empty":
                result = tensor.new_zeros(0)
            case "longer":
                result = torch.cat((tensor, tensor)) if tensor.ndim else tensor.repeat(2)
            case "axis":
                result = tensor[None]
            case "less" if tensor.ndim:
                result = tensor[1:].contiguous()
        return result


def _widest(tensor: Tensor) -> torch.dtype:
    return torch.float64 if tensor.is_floating_point() else torch.int64


def _whole(number: float) -> int:
    """Return an integer that an int64 can hold."""
    return 0 if math.isnan(number) else int(max(-(2**62), min(2**62, number)))


Edit = ValueEdit | TensorEdit


def edits(tensors: Mapping[str, Tensor], content: Content) -> st.SearchStrategy[tuple[Edit, ...]]:
    """Return a strategy of a few edits of a file that holds tensors and content."""
    values = {path: _at(content, path) for path in leaves(content)}
    new_paths = [(*path, "more") for path, value in values.items() if isinstance(value, dict)]
    paths = [path for path in values if path] + new_paths
    words = sorted({value for value in values.values() if isinstance(value, str)})
    simple = (
        st.sampled_from([*NONSENSE, *NUMBERS, *words, "auto", "\ud800"])
        | st.integers(-3, 100)
        | st.floats()
        | st.text(max_size=5)
    )
    value = st.recursive(
        simple,
        lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=5), part),
        max_leaves=4,
    )
    in_json = st.builds(ValueEdit, st.sampled_from(paths), value)
    in_tensors = st.builds(
        TensorEdit,
        st.sampled_from(sorted(tensors)),
        st.sampled_from(get_args(Action)),
        st.sampled_from(NUMBERS) | st.floats(),
        st.integers(0, 200),
    )
    return st.lists(in_json | in_tensors, min_size=1, max_size=3).map(tuple)


@dataclass(frozen=True)
class Forgery:
    """Edits of one kind of file."""

    kind: str
    changes: tuple[Edit, ...]


def forgeries(
    kinds: Iterable[str], content_of: Callable[[str], tuple[Tensors, Content]]
) -> st.SearchStrategy[Forgery]:
    """Return a strategy of forged files of some kinds."""

    def of_kind(kind: str) -> st.SearchStrategy[Forgery]:
        return st.builds(Forgery, st.just(kind), edits(*content_of(kind)))

    return st.sampled_from([*kinds]).flatmap(functools.cache(of_kind))


def edited(
    tensors: Tensors, content: Content, changes: tuple[Edit, ...]
) -> tuple[Tensors, Content]:
    """Return what a file holds after some edits."""
    for change in changes:
        tensors, content = change.apply(tensors, content)
    return tensors, content


def _at(content: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        content = content[key]
    return content
