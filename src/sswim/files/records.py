"""Frozen dataclasses as JSON and as named tensors; the types of their fields say what is allowed.

A file may come from anyone. So all that it says is checked before it is used: types, ranges, shapes
and precisions, and that nothing is missing or left over. Two parts of a record have a reader each:

- JSON: :func:`to_json` writes a dataclass as an object by the names of its fields, and
  :func:`from_json` reads it by their types. A range is part of a type:
  ``Annotated[float, Between(0, 1)]``.
- Tensors: :func:`to_tensors` writes a dataclass of tensors by name, and :func:`from_tensors` reads
  it by the shapes of its fields: in ``Float64[Tensor, "N D"]``, D is one number in a whole file.
  Axes of members (``*B``) are those of a batch, and a file has none.

Readers raise a ValueError with one line that says what is wrong.
"""

from __future__ import annotations

import dataclasses
import reprlib
import types
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
import torch
from torch import Tensor

from sswim.files.sealed_files import require_finite

LARGEST_COUNT = 2**31 - 1
"""Largest integer of a file, unless its type has a range: integers are sizes and counts."""

LARGEST_FLOAT = 1e300
"""Largest size of a number, unless its type has a range."""

RecordT = TypeVar("RecordT")


@dataclasses.dataclass(frozen=True)
class Between:
    """A range of numbers, with its ends."""

    low: int | float
    high: int | float


def to_json(value: Any) -> Any:
    """Return what JSON can hold: objects for dataclasses, lists for tuples."""
    if dataclasses.is_dataclass(value):
        names = (field.name for field in dataclasses.fields(value))
        return {name: to_json(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {name: to_json(entry) for name, entry in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(entry) for entry in value]
    return value.item() if isinstance(value, np.generic) else value


def from_json(kind: type[RecordT], content: Any, name: str) -> RecordT:
    """Return the dataclass whose fields JSON holds; its own checks follow.

    Args:
        kind: A dataclass with fields of type int, float, bool, str, None, ``Any``, ``Literal``,
            dict, list or tuple, or dataclasses again, and unions of these.
        content: The JSON.
        name: Subject of errors.
    """
    return cast(RecordT, _read(kind, content, name))


def _read(kind: Any, content: Any, name: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _read_number(arguments[0], content, name, arguments[1])
    if kind in (int, float):
        return _read_number(kind, content, name, None)
    if dataclasses.is_dataclass(kind):
        return _read_fields(kind, content, name)
    if origin in (Union, types.UnionType):
        return _read_union(arguments, content, name)
    if origin in (tuple, list, dict):
        return _read_items(origin, arguments, content, name)
    if origin is Literal:
        is_choice = any(content == one and type(content) is type(one) for one in arguments)
        _require(is_choice, name, f"one of {arguments}", content)
    elif kind is not Any:
        _require(isinstance(content, kind), name, _NOUNS[kind], content)
    return content


_NOUNS = {bool: "true or false", str: "a text", types.NoneType: "null"}


def _read_fields(kind: Any, content: Any, name: str) -> Any:
    hints = _types(kind)
    _require(isinstance(content, dict), name, "an object", content)
    if wrong := hints.keys() ^ content.keys():
        raise ValueError(f"{name} must have {sorted(hints)}, and differs in {_short(wrong)}")
    return kind(**{key: _read(hints[key], entry, key) for key, entry in content.items()})


def _read_union(choices: Iterable[Any], content: Any, name: str) -> Any:
    """Read the one type that suits, or None."""
    if content is None and types.NoneType in choices:
        return None
    kinds = [one for one in choices if one is not types.NoneType]
    for one in kinds[:-1]:
        try:
            return _read(one, content, name)
        except ValueError:
            continue
    return _read(kinds[-1], content, name)


def _read_items(origin: Any, arguments: tuple[Any, ...], content: Any, name: str) -> Any:
    if origin is dict:
        _require(isinstance(content, dict), name, "an object", content)
        return {key: _read(arguments[1], entry, f"{name}.{key}") for key, entry in content.items()}
    _require(isinstance(content, list), name, "a list", content)
    if origin is list or arguments[-1] is Ellipsis:
        arguments = (arguments[0],) * len(content)
    _require(len(arguments) == len(content), name, f"a list of {len(arguments)}", content)
    pairs = zip(arguments, content, strict=True)
    return origin(_read(kind, entry, f"an entry of {name}") for kind, entry in pairs)


def _read_number(kind: type, content: Any, name: str, limits: Between | None) -> Any:
    whole = kind is int
    noun = "an integer" if whole else "a number"
    is_number = isinstance(content, int if whole else int | float) and not isinstance(content, bool)
    if limits is None:
        limits = Between(0, LARGEST_COUNT) if whole else Between(-LARGEST_FLOAT, LARGEST_FLOAT)
    within = is_number and limits.low <= content <= limits.high
    _require(within, name, f"{noun} between {limits.low} and {limits.high}", content)
    return kind(content)


def _require(holds: bool, name: str, rule: str, content: Any) -> None:
    if not holds:
        raise ValueError(f"{name} must be {rule}, not {_short(content)}")


def _short(content: Any) -> str:
    return reprlib.repr(sorted(content) if isinstance(content, set) else content)


@cache
def _types(kind: Any) -> dict[str, Any]:
    """Return the types of the fields that a dataclass is made of."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind) if field.init}


def to_tensors(record: Any, prefix: str) -> dict[str, Tensor]:
    """Return the tensors of a dataclass by the names of its fields; fields that are None have none.

    Args:
        record: A dataclass whose fields are tensors, arrays or None.
        prefix: Text in front of every name, with a dot after it.
    """
    names = (field.name for field in dataclasses.fields(record))
    named = {name: getattr(record, name) for name in names}
    return {
        f"{prefix}.{name}": torch.as_tensor(value)
        for name, value in named.items()
        if value is not None
    }


def from_tensors(
    kind: type[RecordT],
    tensors: dict[str, Tensor],
    prefix: str,
    sizes: dict[str, int],
    *,
    infinite: Collection[str] = (),
) -> RecordT:
    """Take the tensors of a dataclass out of those of a file, and return the dataclass.

    Args:
        kind: A dataclass whose fields are tensors or arrays, or None where there may be none.
        tensors: The tensors of a file, without those that were taken before.
        prefix: Text in front of every name, with a dot after it.
        sizes: Lengths of axes by the names that shapes have for them; new names are added. Axes
            of members, such as ``*B``, are there only if they have a length.
        infinite: Names of fields in which infinity, but not NaN, has a meaning.
    """
    parts: dict[str, Any] = {}
    for field, hint in _types(cast(Any, kind)).items():
        name = f"{prefix}.{field}"
        choices = [hint] if get_origin(hint) is None else [*get_args(hint)]
        if name not in tensors and types.NoneType in choices:
            parts[field] = None
            continue
        [form] = (one for one in choices if one is not types.NoneType)
        tensor = take_tensor(tensors, name)
        _require_form(name, tensor, form, sizes)
        require_finite(name, tensor, infinite=field in infinite)
        parts[field] = tensor.cpu().numpy() if form.array_type is np.ndarray else tensor
    return kind(**parts)


def take_tensor(tensors: dict[str, Tensor], name: str) -> Tensor:
    """Take one tensor out of those of a file."""
    if name not in tensors:
        raise ValueError(f"there is no tensor {name!r}")
    return tensors.pop(name)


def take_part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Take the tensors out whose names begin with a prefix and a dot, which their names lose."""
    names = [name for name in tensors if name.startswith(f"{prefix}.")]
    return {name.removeprefix(f"{prefix}."): tensors.pop(name) for name in names}


def require_all_taken(tensors: Mapping[str, Tensor]) -> None:
    """Raise if a file has tensors that no reader has taken."""
    for name in tensors:
        raise ValueError(f"there is a tensor {_short(name)}, which nothing needs")


def _require_form(name: str, tensor: Tensor, form: Any, sizes: dict[str, int]) -> None:
    """Raise unless a tensor has the precision and the shape of a field's type."""
    axes = [axis for axis in form.dim_str.split() if not axis.startswith("*") or axis in sizes]
    dtype = str(tensor.dtype).removeprefix("torch.")
    allowed = [one for one in form.dtypes if one in ("float32", "float64", "int64", "bool")]
    if tensor.ndim == len(axes):
        for axis, length in zip(axes, tensor.shape, strict=True):
            sizes.setdefault(axis, length)
    shape = tuple(sizes.get(axis, axis) for axis in axes)
    if tuple(tensor.shape) != shape or dtype not in allowed:
        raise ValueError(
            f"the tensor {name!r} must have shape {shape} and type {' or '.join(allowed)}, but has "
            f"{tuple(tensor.shape)} and {dtype}"
        )
