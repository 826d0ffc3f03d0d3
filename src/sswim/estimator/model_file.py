"""The model file: the tensors of a fitted ensemble, by name.

A member that predicts by features is stored with its statistics. One that predicts by neighbours
needs the rows, which are stored once for all members.
"""

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
from sswim.posterior.feature_predictor import FeaturePredictor, condition_on_statistics
from sswim.posterior.neighbour_predictor import NeighbourPredictor, condition_on_rows
from sswim.posterior.predictor import Predictor
from sswim.posterior.statistics import Statistics
from sswim.rows.measure import Measure
from sswim.rows.rows import Rows
from sswim.rows.scaling import Scaling

VERSION = 6


class ModelFileError(UserError):
    """A file that cannot be read as a model."""


MODEL = SealedFormat(
    "model",
    VERSION,
    ModelFileError,
    "Save the model again, or copy the file again from where it came.",
)


def pack(
    models: list[SSWIM], ensemble: Ensemble, *, include_rows: bool = True
) -> dict[str, Tensor]:
    """Return everything that predictions and further rows need, by name."""
    tensors = _fields("scaling", ensemble.scaling) | {"weights": ensemble.weights}
    for number, (model, member) in enumerate(zip(models, ensemble.members, strict=True)):
        for name, tensor in model.state_dict().items():
            tensors[f"members.{number}.model.{name}"] = tensor
        if isinstance(member, FeaturePredictor):
            tensors |= _fields(f"members.{number}.statistics", member.statistics)
        elif isinstance(member, NeighbourPredictor):
            tensors |= _row_tensors(member.rows if include_rows else member.rows.no_rows())
    return tensors


def unpack(
    tensors: dict[str, Tensor], architectures: Sequence[Architecture], device: torch.device
) -> tuple[list[SSWIM], Ensemble]:
    """Restore what :func:`pack` returned, given the members' architectures."""
    scaling = _restored(Scaling, tensors, "scaling", device)
    if len(architectures) != len(tensors["weights"]):
        raise ValueError(f"{len(tensors['weights'])} weights for {len(architectures)} members")
    rows = _restored_rows(tensors, device)
    models: list[SSWIM] = []
    members: list[Predictor] = []
    for number, architecture in enumerate(architectures):
        model = SSWIM(architecture, len(scaling.input_mean), len(scaling.target_mean))
        prefix = f"members.{number}.model."
        model.load_state_dict({name: tensors[prefix + name] for name in model.state_dict()})
        models.append(model.to(device))
        if architecture.n_neighbors:
            if rows is None:
                raise ValueError("members that predict by neighbours, but no rows")
            members.append(condition_on_rows(model, rows))
        else:
            statistics = _restored(Statistics, tensors, f"members.{number}.statistics", device)
            members.append(condition_on_statistics(model, statistics))
    return models, Ensemble(scaling, tuple(members), tensors["weights"].to(device))


def _fields(prefix: str, record: Record) -> dict[str, Tensor]:
    """Return the tensors of a flat record by the names of its fields."""
    names = [field.name for field in dataclasses.fields(record)]
    return {f"{prefix}.{name}": getattr(record, name) for name in names}


def _restored(
    kind: type[RecordT], tensors: dict[str, Tensor], prefix: str, device: torch.device
) -> RecordT:
    """Restore a flat record."""
    names = [field.name for field in dataclasses.fields(kind)]
    return kind(*(tensors[f"{prefix}.{name}"].to(device) for name in names))


def _row_tensors(rows: Rows) -> dict[str, Tensor]:
    """Return the tensors of standardised rows by name."""
    found = {
        "rows.inputs": rows.inputs.mean,
        "rows.input_variance": rows.inputs.input_variance,
        "rows.targets": rows.targets,
        "rows.weight": rows.weight,
    }
    return {name: tensor for name, tensor in found.items() if tensor is not None}


def _restored_rows(tensors: dict[str, Tensor], device: torch.device) -> Rows | None:
    """Restore the rows, if there are any."""
    if "rows.inputs" not in tensors:
        return None
    found = {
        name: tensors[f"rows.{name}"].to(device)
        for name in ("inputs", "input_variance", "targets", "weight")
        if f"rows.{name}" in tensors
    }
    inputs, targets, weight = found["inputs"], found["targets"], found.get("weight")
    variance = found.get("input_variance")
    others = [tensor for tensor in (weight, variance) if tensor is not None]
    if any(len(tensor) != len(targets) for tensor in (inputs, *others)):
        raise ValueError("rows of different lengths")
    return Rows(Measure(inputs, input_variance=variance), targets, weight)
