"""The model file: the tensors of a fitted ensemble, by name.

Rows are stored once for all members: where members predict by neighbours, and where they are
smaller than the statistics of the members that predict by features. These statistics are then
computed again on loading; otherwise they are stored, a Gram matrix as its lower triangle.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from sswim.base.errors import UserError
from sswim.base.record import Record, RecordT
from sswim.base.sealed_files import SealedFormat
from sswim.base.stored_tensors import require_form
from sswim.estimator.calibration_file import pack_folds, unpack_folds
from sswim.estimator.model_checks import (
    check_cost,
    check_ensemble,
    check_names,
    check_rows,
    check_scaling,
    check_sizes,
    check_statistics,
    check_weights,
)
from sswim.model.architecture import Architecture
from sswim.model.parameter_checks import check_parameters
from sswim.model.sswim import SSWIM
from sswim.posterior.ensemble import Ensemble
from sswim.posterior.feature_predictor import (
    FeaturePredictor,
    condition_by_features,
    condition_on_statistics,
)
from sswim.posterior.neighbour_predictor import NeighbourPredictor, condition_on_rows
from sswim.posterior.predictor import Predictor
from sswim.posterior.statistics import Statistics, unpack_gram
from sswim.rows.gaussian_imputer import GaussianImputer
from sswim.rows.measure import Measure
from sswim.rows.rows import Rows
from sswim.rows.scaling import Scaling

VERSION = 10


class ModelFileError(UserError):
    """A file that cannot be read as a model."""


MODEL = SealedFormat(
    "model",
    VERSION,
    ModelFileError,
    "Save the model again, or copy the file again from where it came.",
)


def stored_members(ensemble: Ensemble, *, include_rows: bool) -> list[int]:
    """Return the members that a file holds.

    Without rows, members that predict by neighbours are left out if there are others that predict
    more than a constant.
    """
    pairs = list(enumerate(ensemble.members))
    by_features = [number for number, each in pairs if isinstance(each, FeaturePredictor)]
    telling = [
        each for _, each in pairs if isinstance(each, FeaturePredictor) and not each.is_constant
    ]
    return by_features if telling and not include_rows else [number for number, _ in pairs]


def pack(
    models: list[SSWIM], ensemble: Ensemble, *, include_rows: bool = True
) -> dict[str, Tensor]:
    """Return everything that predictions and further rows need, by name.

    Members are numbered as :func:`stored_members` lists them.
    """
    stored = stored_members(ensemble, include_rows=include_rows)
    members = [ensemble.members[number] for number in stored]
    weights = ensemble.weights[stored]
    if len(stored) < len(models):
        weights = weights / weights.sum()
    tensors = _fields("scaling", ensemble.scaling) | {"weights": weights}
    rows = _held_rows(ensemble.rows, members, include_rows=include_rows)
    if rows is not None:
        tensors |= _row_tensors(rows)
    if rows is not None and include_rows and ensemble.folds is not None:
        tensors |= pack_folds(ensemble.folds)
    for number, (old_number, member) in enumerate(zip(stored, members, strict=True)):
        prefix = f"members.{number}"
        for name, tensor in models[old_number].state_dict().items():
            tensors[f"{prefix}.model.{name}"] = tensor
        if isinstance(member, FeaturePredictor) and (rows is None or not member.follows_from(rows)):
            tensors |= _fields(f"{prefix}.statistics", member.statistics)
            tensors[f"{prefix}.statistics.gram"] = member.statistics.packed_gram()
    return tensors


def unpack(
    tensors: dict[str, Tensor], architectures: Sequence[Architecture], device: torch.device
) -> tuple[list[SSWIM], Ensemble]:
    """Restore what :func:`pack` returned, given the architectures of the stored members.

    Raises:
        ValueError: The tensors are not those of the architectures; no memory is taken before.
    """
    n_inputs, n_targets = check_scaling(tensors)
    check_weights(tensors["weights"], len(architectures))
    check_names(tensors, len(architectures))
    check_sizes(tensors, architectures, n_inputs, n_targets)
    n_rows = check_rows(tensors, n_inputs, n_targets)
    parts = [
        _part(tensors, f"members.{number}.statistics.") for number in range(len(architectures))
    ]
    check_cost(architectures, [bool(part) for part in parts], n_rows, n_inputs)
    scaling = _restored(Scaling, tensors, "scaling", device)
    rows = _restored_rows(tensors, device)
    models: list[SSWIM] = []
    members: list[Predictor] = []
    for number, (architecture, part) in enumerate(zip(architectures, parts, strict=True)):
        model = SSWIM(architecture, n_inputs, n_targets)
        state = _part(tensors, f"members.{number}.model.")
        check_parameters(state, model)
        model.load_state_dict(state)
        models.append(model.to(device))
        if part:
            check_statistics(part, architecture, n_inputs, n_targets)
        statistics = _restored_statistics(tensors, f"members.{number}.statistics", device)
        members.append(_conditioned(model, statistics, rows))
    folds = unpack_folds(tensors, len(architectures), device)
    ensemble = Ensemble(scaling, tuple(members), tensors["weights"].to(device), rows, folds)
    check_ensemble(ensemble)
    return models, ensemble


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with a prefix, without it."""
    return {
        name.removeprefix(prefix): each for name, each in tensors.items() if name.startswith(prefix)
    }


def _conditioned(model: SSWIM, statistics: Statistics | None, rows: Rows | None) -> Predictor:
    """Condition a model on statistics if they were stored, else on rows."""
    if statistics is not None:
        return condition_on_statistics(model, statistics)
    assert rows is not None
    if model.architecture.n_neighbors:
        return condition_on_rows(model, rows)
    return condition_by_features(model, rows)


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


def _restored_statistics(
    tensors: dict[str, Tensor], prefix: str, device: torch.device
) -> Statistics | None:
    """Restore statistics, if there are any."""
    if f"{prefix}.gram" not in tensors:
        return None
    n_features = len(tensors[f"{prefix}.moment"])
    gram = unpack_gram(tensors[f"{prefix}.gram"], n_features)
    return _restored(Statistics, {**tensors, f"{prefix}.gram": gram}, prefix, device)


def _held_rows(
    rows: Rows | None, members: Sequence[Predictor], *, include_rows: bool
) -> Rows | None:
    """Return the rows that a file holds; a record of none if neighbours need them but may not."""
    for member in members:
        if isinstance(member, NeighbourPredictor):
            return member.rows if include_rows else member.rows.no_rows()
    return rows if include_rows else None


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
    inputs, variance, targets, weight = (
        tensors[f"rows.{name}"].to(device) if f"rows.{name}" in tensors else None
        for name in ("inputs", "input_variance", "targets", "weight")
    )
    assert inputs is not None
    assert targets is not None
    return Rows(Measure(inputs, input_variance=variance), targets, weight)


def pack_imputer(imputer: GaussianImputer) -> dict[str, Tensor]:
    """Return the tensors of an imputer by name."""
    names = [field.name for field in dataclasses.fields(imputer)]
    return {f"imputer.{name}": torch.from_numpy(getattr(imputer, name)) for name in names}


def unpack_imputer(tensors: dict[str, Tensor]) -> GaussianImputer:
    """Restore an imputer, and check it."""
    names = [field.name for field in dataclasses.fields(GaussianImputer)]
    for name in names:
        tensor = tensors[f"imputer.{name}"]
        require_form(f"imputer.{name}", tensor, tensor.shape, torch.float64)
    return GaussianImputer.checked(*(tensors[f"imputer.{name}"].cpu().numpy() for name in names))
