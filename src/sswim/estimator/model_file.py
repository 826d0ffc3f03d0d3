"""The model file: the tensors of a fitted ensemble, by name.

Rows are stored once for all members: where members predict by neighbours, and where they are
smaller than the statistics of the members that predict by features. These statistics are then
computed again on loading; otherwise they are stored, a Gram matrix as its lower triangle.

Checks of the JSON part of a model file: types and ranges of all that it says.

Checks of a model file's tensors against the architectures that it names.

They come before anything is built or computed, so that a forged file costs no more time and memory
than its own size.

Held-out folds and calibrations in a model file, with the checks of both.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, get_type_hints

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.record import CPU_ROWS, Record, RecordT
from sswim.base.validation import UserError, require_flag, require_integer
from sswim.conformal import Calibration, ConformityScores
from sswim.ensemble.ensemble import Ensemble, HeldOutFolds
from sswim.ensemble.plan import FittedKind, Recipe
from sswim.files.sealed_files import (
    SealedFormat,
    require_finite,
    require_form,
    require_moderate,
    require_ordered,
    require_that,
)
from sswim.members.architecture import LARGEST, Architecture
from sswim.members.feature_predictor import (
    MAX_QUICK_ENTRIES,
    ROWS_PER_FEATURE,
    FeaturePredictor,
    condition_by_features,
    condition_on_statistics,
)
from sswim.members.model import SSWIM, check_parameters
from sswim.members.neighbour_predictor import NeighbourPredictor, condition_on_rows
from sswim.members.predictor import Predictor
from sswim.members.statistics import Statistics, unpack_gram
from sswim.rows.imputer import GaussianImputer
from sswim.rows.rows import Measure, Rows
from sswim.rows.scaling import Scaling

KEYS = {
    *("estimator", "parameters", "architectures", "flat_targets", "columns", "inputs"),
    *("history", "kinds", "table_schema", "calibration"),
}
"""Keys of the content."""


def check_keys(content: dict[str, Any]) -> None:
    """Raise unless the content has exactly its keys."""
    if wrong := KEYS.symmetric_difference(content):
        raise ValueError(f"it must have the keys {sorted(KEYS)}, and differs in {sorted(wrong)}")


def read_parameters(content: Any) -> dict[str, Any]:
    """Return the arguments of an estimator; its own checks follow."""
    parameters = dict(content)
    recipe, coordinates = parameters.get("recipe"), parameters.get("coordinates")
    if recipe is not None:
        parameters["recipe"] = Recipe.from_dict(recipe)
    if coordinates is not None:
        parameters["coordinates"] = tuple(coordinates)
    if parameters.get("callback") is not None or parameters.get("device", "auto") != "auto":
        raise ValueError("a file cannot name a callback or a device")
    if parameters.get("random_state") is not None:
        require_integer("random_state", parameters["random_state"], 0, 2**32 - 1)
    require_flag("verbose", parameters.get("verbose", False))
    return parameters


def read_history(content: Any, n_members: int) -> list[Float64[np.ndarray, " steps"]]:
    """Return the objectives of every member's steps."""
    if not isinstance(content, list) or len(content) != n_members:
        raise ValueError(f"there must be a history of each of the {n_members} members")
    for values in content:
        if not isinstance(values, list) or not values or not all(map(_is_number, values)):
            raise ValueError("a history must be a list of finite numbers")
    return [np.array(values, dtype=np.float64) for values in content]


def read_kinds(content: Any) -> tuple[FittedKind, ...]:
    """Return what became of the kinds of members."""
    if not isinstance(content, list):
        raise ValueError("the kinds must be a list")
    return tuple(_read_kind(each) for each in content)


def read_names(content: Any, what: str) -> tuple[str, ...] | None:
    """Return names of columns or inputs, if there are any."""
    if content is None:
        return None
    if not isinstance(content, list) or not all(isinstance(name, str) for name in content):
        raise ValueError(f"{what} must be a list of names")
    return tuple(content)


def read_flag(content: Any, name: str) -> bool:
    """Return a truth value."""
    require_flag(name, content)
    return bool(content)


def _read_kind(content: Any) -> FittedKind:
    kind = FittedKind(**content)
    types = get_type_hints(FittedKind)
    for field in fields(FittedKind):
        value = getattr(kind, field.name)
        if types[field.name] is int:
            require_integer(field.name, value, 0, LARGEST)
        elif types[field.name] is float:
            if not (_is_number(value) and 0 <= value <= 1 + 1e-6):
                raise ValueError(f"{field.name} must lie between 0 and 1, not {value!r}")
        elif not isinstance(value, str):
            raise ValueError(f"{field.name} must be a text")
    return kind


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) < 1e300 and math.isfinite(value)


MAX_ENTRIES = 2**30
"""Largest number of entries of all matrices that are computed on loading: 8 GiB."""


def check_scaling(tensors: Mapping[str, Tensor]) -> tuple[int, int]:
    """Check the scaling, and return the numbers of inputs and of targets."""
    sizes = []
    for name in ("scaling.input_mean", "scaling.target_mean"):
        require_that(f"{name} must be a vector", holds=tensors[name].ndim == 1)
        sizes.append(len(tensors[name]))
    n_inputs, n_targets = sizes
    require_that("a model must have targets", holds=n_targets > 0)
    shapes: dict[str, tuple[int, ...]] = {
        "input_mean": (n_inputs,),
        "input_spread": (n_inputs,),
        "target_mean": (n_targets,),
        "target_spread": (n_targets,),
        "weight_unit": (),
        "input_low": (n_inputs,),
        "input_high": (n_inputs,),
    }
    for name, shape in shapes.items():
        tensor = tensors[f"scaling.{name}"]
        require_form(f"scaling.{name}", tensor, shape, torch.float64)
        require_finite(f"scaling.{name}", tensor, infinite=name in ("input_low", "input_high"))
        if name.endswith(("spread", "unit")):
            require_that(f"scaling.{name} must be positive", holds=(tensor > 0).all())
    require_ordered(tensors, "scaling.input")
    return n_inputs, n_targets


def check_weights(weights: Tensor, n_members: int) -> None:
    """Check the weights of the members."""
    require_form("weights", weights, (n_members,), torch.float64)
    require_finite("weights", weights)
    holds = n_members > 0 and bool((weights >= 0).all()) and abs(float(weights.sum()) - 1) < 1e-6
    require_that("weights must not be negative, and must add up to one", holds=holds)


def check_rows(tensors: Mapping[str, Tensor], n_inputs: int, n_targets: int) -> int | None:
    """Check the rows, and return their number; None if there are none."""
    found = {name for name in tensors if name.startswith("rows.")}
    if not found:
        return None
    inputs, n_rows = tensors["rows.inputs"], len(tensors["rows.targets"])
    dtype = torch.float32 if inputs.dtype == torch.float32 else torch.float64
    forms: dict[str, tuple[tuple[int, ...], torch.dtype]] = {
        "rows.inputs": ((n_rows, n_inputs), dtype),
        "rows.input_variance": ((n_rows, n_inputs), dtype),
        "rows.targets": ((n_rows, n_targets), torch.float64),
        "rows.weight": ((n_rows,), torch.float64),
    }
    for name in sorted(found):
        require_that(f"there is a tensor {name!r}, which nothing needs", holds=name in forms)
        require_form(name, tensors[name], *forms[name])
        require_moderate(name, tensors[name])
        if name in ("rows.weight", "rows.input_variance"):
            require_that(f"{name} must not be negative", holds=(tensors[name] >= 0).all())
    return n_rows


def check_names(tensors: Mapping[str, Tensor], n_members: int) -> None:
    """Check that there are no tensors which nothing needs."""
    fields = {
        "scaling": Scaling,
        "imputer": GaussianImputer,
        "statistics": Statistics,
        "folds": HeldOutFolds,
        "held_out": ConformityScores,
    }
    names = {kind: {each.name for each in dataclasses.fields(fields[kind])} for kind in fields}
    for name in tensors:
        match name.split(".", 3):
            case ["weights"] | ["rows", _]:  # rows have a check of their own
                continue
            case ["scaling" | "imputer" | "folds" | "held_out" as kind, field] if (
                field in names[kind]
            ):
                continue
            case ["members", number, "statistics", field] if field in names["statistics"]:
                pass
            case ["members", number, "model", _]:  # as have models
                pass
            case _:
                number = ""
        is_member = number.isascii() and number.isdecimal() and len(number) < 10
        if not is_member or str(int(number)) != number or int(number) >= n_members:
            raise ValueError(f"there is a tensor {name!r}, which nothing needs")


def check_sizes(
    tensors: Mapping[str, Tensor],
    architectures: Sequence[Architecture],
    n_inputs: int,
    n_targets: int,
) -> None:
    """Check that the large tensors of every member have the shapes that its architecture implies.

    The members can then be built: they are no larger than the file.
    """
    for number, architecture in enumerate(architectures):
        require_that(
            f"member {number} has more warps than the file has tensors",
            holds=architecture.depth <= len(tensors),
        )
        for parameter, shape in _large_tensors(architecture, n_inputs, n_targets):
            name = f"members.{number}.model.{parameter}"
            require_form(name, tensors[name], shape, torch.float64)


def check_statistics(
    tensors: Mapping[str, Tensor], architecture: Architecture, n_inputs: int, n_targets: int
) -> None:
    """Check the statistics of a member, by their names, before its Gram matrix is unpacked."""
    n_features = 2 * architecture.n_frequencies
    gram = tensors["gram"]
    require_that(
        "members that predict by neighbours have no statistics",
        holds=not architecture.n_neighbors,
    )
    require_that(
        "there must be one Gram matrix, or one for each target",
        holds=gram.ndim == 2 and len(gram) in (1, n_targets),
    )
    shapes: dict[str, tuple[int, ...]] = {
        "gram": (len(gram), n_features * (n_features + 1) // 2),
        "moment": (n_features, n_targets),
        "energy": (n_targets,),
        "log_scale": (n_targets,),
        "count": (),
    }
    for name, shape in shapes.items():
        require_form(f"statistics.{name}", tensors[name], shape, torch.float64)
        require_moderate(f"statistics.{name}", tensors[name])
    for name in ("energy", "count"):
        require_that(f"statistics.{name} must not be negative", holds=(tensors[name] >= 0).all())


def check_cost(
    architectures: Sequence[Architecture],
    has_statistics: Sequence[bool],
    n_rows: int | None,
    n_inputs: int,
) -> None:
    """Check that what is computed from the tensors fits in a bounded memory."""
    total = 0
    for architecture, is_stored in zip(architectures, has_statistics, strict=True):
        n_gps = architecture.depth * (1 if architecture.warps == "joint" else 2)
        n_pseudo = architecture.n_pseudo
        total += n_gps * n_pseudo * (n_pseudo + 2 * architecture.warp_frequencies)
        if architecture.warp_matrix == "full" and n_rows is not None:
            n_largest = max(n_inputs, architecture.warped_dim(n_inputs))
            total += min(n_rows, CPU_ROWS) * (n_largest + 1) * architecture.warped_dim(n_inputs)
        require_that(
            "members without statistics, but no rows",
            holds=is_stored or n_rows is not None,
        )
        if architecture.n_neighbors or is_stored or n_rows is None:
            continue
        n_features = 2 * architecture.n_frequencies
        is_quick = n_features**2 <= MAX_QUICK_ENTRIES and n_rows <= ROWS_PER_FEATURE * n_features
        require_that(
            "members without statistics must have few features, and few rows for these",
            holds=n_rows > 0 and is_quick,
        )
        total += n_features**2
    require_that("a model must need no more than 8 GiB", holds=total <= MAX_ENTRIES)


def check_ensemble(ensemble: Ensemble) -> None:
    """Check the predictors: numbers may be right alone, but not together."""
    for number, member in enumerate(ensemble.members):
        require_that(
            f"the parameters of member {number} must give finite predictions",
            holds=not any(each.isnan().any() for each in _floats(member)),
        )


def _floats(member: Predictor) -> Iterator[Tensor]:
    return (each for each in member.tensors() if each.is_floating_point())


def _large_tensors(
    architecture: Architecture, n_inputs: int, n_targets: int
) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the names and shapes of the tensors whose sizes the architecture sets."""
    n_frequencies = 0 if architecture.n_neighbors else architecture.n_frequencies
    warped_dim = architecture.warped_dim(n_inputs)
    yield "spectrum.unit_frequencies", (n_frequencies, warped_dim)
    is_full = architecture.warp_matrix == "full"
    for layer in range(architecture.depth):
        n_before = n_inputs if layer == 0 else warped_dim
        if layer == 0 and architecture.warp_matrix != "diagonal":
            yield "layers.0.projection.directions", (warped_dim, n_inputs)
            yield "layers.0.projection.deviations", (warped_dim, n_inputs)
        n_seen, n_columns = (n_before, n_before) if is_full else (warped_dim, 1)
        is_joint = architecture.warps == "joint"
        for part, n_functions in enumerate((n_columns + 1,) if is_joint else (n_columns, 1)):
            prefix = f"layers.{layer}.parts.{part}"
            n_frequencies, n_pseudo = architecture.warp_frequencies, architecture.n_pseudo
            yield f"{prefix}.spectrum.unit_frequencies", (n_frequencies, n_seen)
            yield f"{prefix}.pseudo_inputs", (n_pseudo, n_seen)
            yield f"{prefix}.pseudo_targets", (n_pseudo, n_functions * warped_dim)
    if architecture.output_warp != "none":
        n_terms = architecture.n_output_terms
        is_sinh = architecture.output_warp == "sinh-arcsinh"
        n_coordinates = 4 * n_terms if is_sinh else 3 * n_terms + 1
        yield "output_warp.coordinates", (n_coordinates, n_targets)
    if architecture.noise == "input-dependent":
        n_frequencies = architecture.n_noise_frequencies
        yield "noise_field.spectrum.unit_frequencies", (n_frequencies, n_inputs)
        yield "noise_field.coefficients", (2 * n_frequencies, n_targets)


FOLDS, HELD_OUT = "folds", "held_out"
"""Prefixes of the names of tensors."""

_LARGEST = 1e150
"""Largest size of a number, whose square is still finite."""


def pack_folds(folds: HeldOutFolds) -> dict[str, Tensor]:
    """Return the tensors of held-out folds by name."""
    return {f"{FOLDS}.{each.name}": getattr(folds, each.name) for each in fields(folds)}


def unpack_folds(
    tensors: dict[str, Tensor], n_members: int, device: torch.device
) -> HeldOutFolds | None:
    """Restore held-out folds, if there are any, and check them."""
    if f"{FOLDS}.keys" not in tensors:
        return None
    names = [each.name for each in fields(HeldOutFolds)]
    keys, fold, weights = (tensors[f"{FOLDS}.{name}"] for name in names)
    n_keys, n_folds = keys.numel(), weights.shape[0] if weights.ndim else 0
    require_form(f"{FOLDS}.keys", keys, (n_keys,), torch.int64)
    require_form(f"{FOLDS}.fold", fold, (n_keys,), torch.int64)
    require_form(f"{FOLDS}.weights", weights, (n_folds, n_members), torch.float64)
    require_finite(f"{FOLDS}.weights", weights)
    require_that("keys of folds must increase", holds=(keys[1:] > keys[:-1]).all())
    require_that("rows must be in folds", holds=((fold >= 0) & (fold < n_folds)).all())
    require_that("every fold must have rows", holds=len(fold.unique()) == n_folds)
    sums = weights.sum(1) if n_folds else weights.new_zeros(1)
    require_that(
        "weights in a fold must not be negative, and must add up to one",
        holds=(weights >= 0).all() & ((sums - 1).abs() < 1e-6).all(),
    )
    return HeldOutFolds(keys.to(device), fold.to(device), weights.to(device))


def pack_calibration(
    calibration: Calibration | None, tensors: dict[str, Tensor], ensemble: Ensemble, n_stored: int
) -> tuple[dict[str, Tensor], dict[str, Any] | None]:
    """Return the tensors of a calibration by name, and what is JSON-able.

    A file without what the scores are of, all members or the rows of the folds, has none.

    Args:
        calibration: The calibration, if there is one.
        tensors: The tensors of the ensemble that the file holds.
        ensemble: The ensemble.
        n_stored: Number of members that the file holds.
    """
    if calibration is None or n_stored < len(ensemble.members):
        return {}, None
    if calibration.out_of_fold and f"{FOLDS}.keys" not in tensors:
        return {}, None
    scored = calibration.held_out
    found = {f"{HELD_OUT}.{each.name}": getattr(scored, each.name) for each in fields(scored)}
    labels = None if calibration.labels is None else list(calibration.labels)
    return found, {"labels": labels, "out_of_fold": calibration.out_of_fold}


def unpack_calibration(
    content: Any, tensors: dict[str, Tensor], ensemble: Ensemble
) -> Calibration | None:
    """Restore a calibration, if there is one, and check it."""
    found = {name for name in tensors if name.startswith(f"{HELD_OUT}.")}
    if content is None:
        require_that("a calibration must say what it is of", holds=not found)
        return None
    if not isinstance(content, dict) or set(content) != {"labels", "out_of_fold"}:
        raise ValueError("a calibration must have labels and out_of_fold")
    labels = read_names(content["labels"], "labels")
    out_of_fold = read_flag(content["out_of_fold"], "out_of_fold")
    n_folds = 1
    if out_of_fold:
        require_that(
            "a calibration out of fold needs folds and rows",
            holds=ensemble.folds is not None and bool(ensemble.rows),
        )
        assert ensemble.folds is not None
        n_folds = ensemble.folds.n_folds
    parts = {each.name: tensors[f"{HELD_OUT}.{each.name}"] for each in fields(ConformityScores)}
    n_rows, n_targets = len(parts["scores"]), len(ensemble.scaling.target_mean)
    n_groups = 1 if labels is None else len(labels)
    for name, tensor in parts.items():
        shape = (n_rows, n_targets) if name in ("scores", "pit", "median") else (n_rows,)
        is_number = name in ("fold", "group")
        require_form(
            f"{HELD_OUT}.{name}", tensor, shape, torch.int64 if is_number else torch.float64
        )
        require_finite(f"{HELD_OUT}.{name}", tensor)
    for name, number in (("fold", n_folds), ("group", n_groups)):
        holds = ((parts[name] >= 0) & (parts[name] < number)).all()
        require_that(f"held-out rows must be in a {name}", holds=holds)
    for name in ("distance", "weight", "pit"):
        require_that(f"{HELD_OUT}.{name} must not be negative", holds=(parts[name] >= 0).all())
    require_that("probabilities must be at most one", holds=(parts["pit"] <= 1).all())
    for name in ("scores", "median", "distance", "weight"):
        holds = (parts[name].abs() <= _LARGEST).all()
        require_that(f"{HELD_OUT}.{name} must have numbers of at most {_LARGEST:g}", holds=holds)
    held_out = ConformityScores(**parts).to(device=ensemble.weights.device)
    return Calibration(held_out, labels, out_of_fold)


VERSION = 11


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
