"""Edits of sealed files, as Hypothesis draws them: content changed and sealed anew."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from hypothesis import strategies as st
from torch import Tensor

from builders.forgeries import NONSENSE, changed, leaves

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
        found = tensor
        match self.action:
            case "fill":
                found = value.expand(tensor.shape).clone()
            case "set" if tensor.numel():
                found = tensor.clone()
                found.view(-1)[self.place % tensor.numel()] = value
            case "times" if tensor.is_floating_point():
                found = tensor * number
            case "plus" if tensor.is_floating_point():
                found = tensor + number
            case "dtype":
                real = tensor.real if tensor.is_complex() else tensor
                found = real.to(DTYPES[self.place % len(DTYPES)])
            case "empty":
                found = tensor.new_zeros(0)
            case "longer":
                found = torch.cat((tensor, tensor)) if tensor.ndim else tensor.repeat(2)
            case "axis":
                found = tensor[None]
            case "less" if tensor.ndim:
                found = tensor[1:].contiguous()
        return found


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
