"""Sealed files: tensors and JSON in one safetensors file, with a version and a checksum.

Loading a file executes no code: safetensors holds plain arrays, and the rest is JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as parse_safetensors
from safetensors.torch import save as dump_safetensors
from torch import Tensor

from sswim.base.files import atomic_write


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
            with open(path, "rb") as file:
                data = file.read()
        except OSError as error:
            raise self.error(f"The {self.noun} file {name} cannot be read: {error}.") from error
        return self.from_bytes(data, name)

    def from_bytes(self, data: bytes, name: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the tensors and the content of the bytes that :meth:`to_bytes` returned.

        Args:
            data: The bytes.
            name: Subject of the errors that :meth:`read` describes, such as a quoted path.
        """
        try:
            envelope = self._read_envelope(data)
            tensors = parse_safetensors(data)
        except (SafetensorError, ValueError, TypeError, AttributeError) as error:
            raise self.error(
                f"{name} is not a {self.key}, or it is damaged: {error}. {self.advice}"
            ) from error
        if envelope is None:
            raise self.error(f"{name} is a safetensors file, but not a {self.key}.")
        version, text = envelope.get("version"), str(envelope.get("content"))
        if version != self.version:
            raise self.error(
                f"{name} has {self.noun} format {version!r}; this sswim reads format "
                f"{self.version}. Use the version of sswim that wrote it, or a newer one."
            )
        if _digest(tensors, text) != envelope.get("sha256"):
            raise self.error(
                f"{name} has been altered: its checksum does not match its content. {self.advice}"
            )
        return tensors, json.loads(text)

    def _read_envelope(self, data: bytes) -> dict[str, Any] | None:
        """Return our part of a safetensors header; None if there is none.

        A safetensors file begins with the length of its header in eight bytes, then the header in
        JSON.
        """
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        if not isinstance(header, dict):
            raise ValueError("it has no safetensors header")
        text = header.get("__metadata__", {}).get(self.key)
        return None if text is None else dict(json.loads(text))


def _digest(tensors: dict[str, Tensor], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()
