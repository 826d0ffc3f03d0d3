"""The model file: the tensors of a fitted ensemble, by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from sswim.base.errors import UserError
from sswim.base.record import Record, RecordT
from sswim.base.sealed_files import SealedFormat
from sswim.model.architecture import Architecture
from sswim.model.sswim import SSWIM
from sswim.posterior.ensemble import Ensemble
from sswim.posterior.predictor import condition_on_statistics
from sswim.posterior.statistics import Statistics
from sswim.rows.scaling import Scaling

VERSION = 5


class ModelFileError(UserError):
    """A file that cannot be read as a model."""


MODEL = SealedFormat(
    "model",
    VERSION,
    ModelFileError,
    "Save the model again, or copy the file again from where it came.",
)


def pack(models: list[SSWIM], ensemble: Ensemble) -> dict[str, Tensor]:
    """Return everything that predictions and further rows need, by name."""
    tensors = _fields("scaling", ensemble.scaling) | {"weights": ensemble.weights}
    for number, (model, member) in enumerate(zip(models, ensemble.members, strict=True)):
        for name, tensor in model.state_dict().items():
            tensors[f"members.{number}.model.{name}"] = tensor
        tensors |= _fields(f"members.{number}.statistics", member.statistics)
    return tensors


def unpack(
    tensors: dict[str, Tensor], architectures: Sequence[Architecture], device: torch.device
) -> tuple[list[SSWIM], Ensemble]:
    """Restore what :func:`pack` returned, given the members' architectures."""

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
        members.append(
            condition_on_statistics(model, restored(Statistics, f"members.{number}.statistics"))
        )
    return models, Ensemble(scaling, tuple(members), tensors["weights"].to(device))


def _fields(prefix: str, record: Record) -> dict[str, Tensor]:
    """Return the tensors of a flat record by the names of its fields."""
    names = [field.name for field in dataclasses.fields(record)]
    return {f"{prefix}.{name}": getattr(record, name) for name in names}
