"""The model file: tensors and JSON in one safetensors file, with a version and a checksum.

Loading executes nothing: safetensors holds plain arrays, and the rest is JSON.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Sequence
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as parse_safetensors
from safetensors.torch import save as dump_safetensors
from torch import Tensor

from sswim.architecture import Architecture
from sswim.ensemble import Ensemble
from sswim.files import written_whole
from sswim.linear import Statistics
from sswim.model import SSWIM
from sswim.predictor import predictor
from sswim.record import Record, RecordT
from sswim.scaling import Scaling

KEY = "sswim model"
VERSION = 4


class ModelFileError(ValueError):
    """A file that cannot be read as a model."""


def write_model_file(
    path: str | os.PathLike[str], tensors: dict[str, Tensor], content: dict[str, Any]
) -> None:
    """Write tensors and JSON-able content; the file is whole or not there at all."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(content, sort_keys=True)
    digest = _digest(tensors, text)
    envelope = {"version": VERSION, "content": text, "sha256": digest}
    # All under one key: safetensors writes several in any order, and equal models should be equal.
    data = dump_safetensors(tensors, {KEY: json.dumps(envelope)})
    with written_whole(path) as temporary:
        temporary.write_bytes(data)


def read_model_file(
    path: str | os.PathLike[str],
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what :func:`write_model_file` wrote, or say why that cannot be done."""
    name = os.fspath(path)
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise ModelFileError(f"The model file {name!r} cannot be read: {error}.") from error
    try:
        envelope = _envelope(data)
        tensors = parse_safetensors(data)
    except (SafetensorError, ValueError, TypeError, AttributeError) as error:
        raise ModelFileError(
            f"{name!r} is not a sswim model, or it is damaged: {error}. "
            "Save the model again, or copy the file again from where it came."
        ) from error
    if envelope is None:
        raise ModelFileError(f"{name!r} is a safetensors file, but not a sswim model.")
    version, text = envelope.get("version"), str(envelope.get("content"))
    if version != VERSION:
        raise ModelFileError(
            f"{name!r} has model format {version!r}; this sswim reads format {VERSION}. "
            "Use the version of sswim that wrote it, or a newer one."
        )
    if _digest(tensors, text) != envelope.get("sha256"):
        raise ModelFileError(
            f"{name!r} has been altered: its checksum does not fit its content. "
            "Save the model again, or copy the file again from where it came."
        )
    return tensors, json.loads(text)


def pack(models: list[SSWIM], ensemble: Ensemble) -> dict[str, Tensor]:
    """Everything that predictions and further rows need, under names."""
    tensors = _fields("scaling", ensemble.scaling) | {"weights": ensemble.weights}
    for number, (model, member) in enumerate(zip(models, ensemble.members, strict=True)):
        for name, tensor in model.state_dict().items():
            tensors[f"members.{number}.model.{name}"] = tensor
        tensors |= _fields(f"members.{number}.statistics", member.statistics)
    return tensors


def unpack(
    tensors: dict[str, Tensor], architectures: Sequence[Architecture], device: torch.device
) -> tuple[list[SSWIM], Ensemble]:
    """Undo :func:`pack`, given the members' architectures."""

    def restored(kind: type[RecordT], prefix: str) -> RecordT:
        names = [field.name for field in dataclasses.fields(kind)]
        return kind(*(tensors[f"{prefix}.{name}"].to(device) for name in names))

    scaling = restored(Scaling, "scaling")
    if len(architectures) != len(tensors["weights"]):
        raise ValueError(f"{len(tensors['weights'])} weights for {len(architectures)} members")
    models, members = [], []
    for number, architecture in enumerate(architectures):
        model = SSWIM(architecture, len(scaling.input_mean), len(scaling.target_mean))
        prefix = f"members.{number}.model."
        model.load_state_dict({name: tensors[prefix + name] for name in model.state_dict()})
        models.append(model.to(device))
        members.append(predictor(model, restored(Statistics, f"members.{number}.statistics")))
    return models, Ensemble(scaling, tuple(members), tensors["weights"].to(device))


def _fields(prefix: str, record: Record) -> dict[str, Tensor]:
    """The tensors of a flat record under the names of its fields."""
    names = [field.name for field in dataclasses.fields(record)]
    return {f"{prefix}.{name}": getattr(record, name) for name in names}


def _envelope(data: bytes) -> dict[str, Any] | None:
    """Our part of a safetensors header, which is eight bytes of length and then JSON."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    if not isinstance(header, dict):
        raise ValueError("its header is not that of a safetensors file")
    text = header.get("__metadata__", {}).get(KEY)
    return None if text is None else dict(json.loads(text))


def _digest(tensors: dict[str, Tensor], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()
