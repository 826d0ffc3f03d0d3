"""Sealed files: tensors and JSON in one safetensors file, with a version and a checksum.

Loading a file executes no code: safetensors holds plain arrays, and the rest is JSON. A checksum
finds damage, but it is no signature: anyone can write a file with a right one. Readers therefore
check what a file says before they use it, by the functions below and :mod:`sswim.files.records`.
"""

from __future__ import annotations

import hashlib
import json
import os
import reprlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as parse_safetensors
from safetensors.torch import save as dump_safetensors
from torch import Tensor

from sswim.files.output_files import atomic_write

UNREADABLE = (
    *(ArithmeticError, LookupError, MemoryError, RecursionError, RuntimeError),
    *(TypeError, ValueError),
)
"""Errors that content of a wrong type, shape or size can cause where it is read."""


@dataclass(frozen=True)
class SealedFormat:
    """A kind of sealed file, with methods that write and read it."""

    noun: str
    """Name of the content, such as "model": in messages and in the file itself."""
    version: int
    """Version of the format; files of another version are not read."""
    error: type[ValueError]
    """Type of the error that is raised where a file cannot be read."""
    advice: str
    """Last sentence of that error: what the user can do."""

    @property
    def key(self) -> str:
        """Metadata key that holds everything but the tensors.

        There is only one key because safetensors writes several in any order, and files with equal
        content should have equal bytes.
        """
        return f"sswim {self.noun}"

    def write(
        self, path: str | os.PathLike[str], tensors: dict[str, Tensor], content: dict[str, Any]
    ) -> None:
        """Write tensors and JSON-able content; an incomplete file is never left behind."""
        data = self.to_bytes(tensors, content)
        with atomic_write(path) as temporary:
            temporary.write_bytes(data)

    def to_bytes(self, tensors: dict[str, Tensor], content: dict[str, Any]) -> bytes:
        """Return the bytes of a file with tensors and JSON-able content."""
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        text = json.dumps(content, sort_keys=True)
        digest = _digest(tensors, text)
        envelope = {"version": self.version, "content": text, "sha256": digest}
        return dump_safetensors(tensors, {self.key: json.dumps(envelope)})

    def read(self, path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Read the tensors and the content that :meth:`write` wrote.

        Raises:
            ValueError: The file cannot be read, is damaged or has another version; the error has
                the type :attr:`error`.
        """
        name = repr(os.fspath(path))
        try:
            if os.path.exists(path) and not os.path.isfile(path):  # a device has no end
                raise OSError("it is not a regular file")
            with open(path, "rb") as file:
                data = file.read()
        except (OSError, ValueError) as error:  # a path with a null character is a ValueError
            raise self.error(f"The {self.noun} file {name} cannot be read: {error}.") from error
        return self.from_bytes(data, name)

    def from_bytes(self, data: bytes, name: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the tensors and the content of the bytes that :meth:`to_bytes` returned.

        Args:
            data: The bytes.
            name: Subject of the errors that :meth:`read` describes, such as a quoted path.
        """
        with self._readable(name):
            envelope = self._read_envelope(data)
        if envelope is None:
            raise self.error(f"{name} is a safetensors file, but not a {self.key}.")
        version, text = envelope.get("version"), envelope.get("content")
        if version != self.version or isinstance(version, bool):
            raise self.error(
                f"{name} has {self.noun} format {reprlib.repr(version)}; this sswim reads format "
                f"{self.version}. Use the version of sswim that wrote it, or a newer one."
            )
        with self._readable(name):
            tensors = parse_safetensors(data)
            if not isinstance(text, str):
                raise ValueError("its content is no text")
            is_whole = _digest(tensors, text) == envelope.get("sha256")
        if not is_whole:
            raise self.error(
                f"{name} has been altered: its checksum does not match its content. {self.advice}"
            )
        with self._readable(name):
            content = parse_json(text)
            if not isinstance(content, dict):
                raise ValueError("its content is no JSON object")
        return tensors, content

    @contextmanager
    def _readable(self, name: str) -> Iterator[None]:
        """Raise an error of the format's type about bytes that cannot be parsed."""
        try:
            yield
        except (SafetensorError, AttributeError, *UNREADABLE) as error:
            reason = reprlib.repr(str(error))[1:-1]
            raise self.error(
                f"{name} is not a {self.key}, or it is damaged: {reason}. {self.advice}"
            ) from error

    def _read_envelope(self, data: bytes) -> dict[str, Any] | None:
        """Return our part of a safetensors header; None if there is none.

        A safetensors file begins with the length of its header in eight bytes, then the header in
        JSON.
        """
        length = int.from_bytes(data[:8], "little")
        if length > len(data) - 8:
            raise ValueError("its header is longer than the file")
        header = parse_json(data[8 : 8 + length].decode())
        if not isinstance(header, dict):
            raise ValueError("it has no safetensors header")
        text = header.get("__metadata__", {}).get(self.key)
        return None if text is None else dict(parse_json(text))


def _digest(tensors: dict[str, Tensor], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


def parse_json(text: str) -> Any:
    """Parse JSON from a file; refuse what has no one meaning or no end.

    Raises:
        ValueError: The text is no JSON, is nested too deeply, or has the same key twice.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except RecursionError as error:
        raise ValueError("its JSON is nested too deeply") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; of two equal keys readers would each take another."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("its JSON has the same key twice")
    return found


def differences(theirs: Mapping[str, Any], ours: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Describe every entry in which two mappings differ, at any depth.

    Args:
        theirs: The mapping whose values are named first: "depth is 2, not 1".
        ours: The mapping whose values are named second.
        prefix: Text in front of every key, for nested mappings.
    """
    found = []
    for key in {**theirs, **ours}:
        their_value, our_value = theirs.get(key), ours.get(key)
        if isinstance(their_value, Mapping) and isinstance(our_value, Mapping):
            found += differences(their_value, our_value, f"{prefix}{key}.")
        elif their_value != our_value:
            found.append(f"{prefix}{key} is {their_value!r}, not {our_value!r}")
    return found


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
