"""Model files, pickles and copies of a fitted estimator.

All of them hold the same bytes, those of a model file: plain arrays and JSON, with a version and a
checksum. A pickle or a skops file therefore holds no tensors and no modules of PyTorch, is as small
as a model file, and loads on a machine without the device of the fit.

Rows are stored once for all members: where members predict by neighbours, and where they are
smaller than the statistics of the members that predict by features. These statistics are then
computed again on loading; otherwise they are stored, a Gram matrix as its lower triangle.

All that a file says is checked before anything is built or computed, so that a forged file costs no
more time and memory than its own size.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sswim.base.record import CPU_ROWS
from sswim.base.validation import UserError, require_flag, require_integer
from sswim.conformal import Calibration, ConformityScores
from sswim.distributed.processes import available_device
from sswim.ensemble.ensemble import Ensemble, HeldOutFolds, PendingUpdates
from sswim.ensemble.plan import FittedKind, Recipe
from sswim.estimator.fitted import Fitted
from sswim.estimator.inputs import InputReader
from sswim.estimator.settings import stored_settings
from sswim.files.records import (
    from_json,
    from_tensors,
    require_all_taken,
    take_part,
    take_tensor,
    to_json,
    to_tensors,
)
from sswim.files.sealed_files import (
    UNREADABLE,
    SealedFormat,
    require_form,
    require_moderate,
    require_ordered,
    require_that,
)
from sswim.members import WAYS
from sswim.members.feature_member import MAX_QUICK_ENTRIES, ROWS_PER_FEATURE
from sswim.members.member import Member
from sswim.members.model import SSWIM, Architecture, check_parameters
from sswim.rows.imputer import GaussianImputer
from sswim.rows.rows import Measure, Rows
from sswim.rows.scaling import Scaling

if TYPE_CHECKING:
    from sswim.estimator.base import BaseRegressor

VERSION = 11


class ModelFileError(UserError):
    """A file that cannot be read as a model."""


MODEL = SealedFormat(
    "model",
    VERSION,
    ModelFileError,
    "Save the model again, or copy the file again from where it came.",
)

MAX_ENTRIES = 2**30
"""Largest number of entries of all matrices that are computed on loading: 8 GiB."""

EstimatorName = Literal["SSWIMRegressor", "WarpedGPRegressor", "NeighbourGPRegressor"]

MODEL_BYTES = "model_file"
"""Key of the model file's bytes in the state of a fitted estimator."""

LONGEST_REASON = 1000
"""Largest number of characters that an error quotes of a file."""


@dataclass(frozen=True)
class CalibrationContent:
    """The part of a calibration that JSON holds."""

    labels: tuple[str, ...] | None
    out_of_fold: bool


@dataclass(frozen=True)
class ModelContent:
    """The part of a model file that JSON holds."""

    estimator: EstimatorName
    """Name of the class of estimators."""
    parameters: dict[str, Any]
    """Arguments of the estimator."""
    architectures: tuple[Architecture, ...]
    """Architectures of the members."""
    ways: tuple[str, ...]
    """How each member predicts."""
    flat_targets: bool
    columns: tuple[str, ...] | None
    """Names of the columns."""
    inputs: tuple[str, ...] | None
    """Names of the inputs."""
    history: tuple[tuple[float, ...], ...]
    """Objectives of the members' steps."""
    kinds: tuple[FittedKind, ...]
    table_schema: dict[str, Any] | None
    calibration: CalibrationContent | None

    def __post_init__(self) -> None:
        members = len(self.architectures)
        require_that(
            f"there must be a history of each of the {members} members",
            holds=len(self.history) == members and all(self.history),
        )
        needs_rows = [WAYS[way].needs_rows if way in WAYS else None for way in self.ways]
        require_that(
            "every member must have a way of predicting that suits its architecture",
            holds=needs_rows == [each.n_neighbors > 0 for each in self.architectures],
        )


@dataclass(frozen=True)
class _StoredRows:
    """Standardised rows."""

    inputs: Float[Tensor, "N D"]
    input_variance: Float[Tensor, "N D"] | None
    targets: Float64[Tensor, "N T"]
    weight: Float64[Tensor, " N"] | None


@dataclass(frozen=True)
class _StoredStatistics:
    """Statistics with the lower triangles of their Gram matrices."""

    gram: Float64[Tensor, "G triangle"]
    moment: Float64[Tensor, "F T"]
    energy: Float64[Tensor, " T"]
    log_scale: Float64[Tensor, " T"]
    count: Float64[Tensor, ""]


def load(path: str | os.PathLike[str]) -> BaseRegressor:
    """Read a model file, and return the estimator that it names. Nothing in it is executed."""
    from sswim import estimator  # noqa: PLC0415 (it imports this module)

    tensors, read = MODEL.read(path)
    with _consistent(repr(os.fspath(path))):
        content = from_json(ModelContent, read, "it")
        kind: type[BaseRegressor] = getattr(estimator, content.estimator)
        regressor = kind(**_read_parameters(content.parameters))
        regressor._check_settings()
        regressor._fitted = unpack(tensors, content, available_device(regressor.device))
    return regressor


def from_bytes(stored: bytes, device: str) -> Fitted:
    """Return what the estimator had learnt whose model file has these bytes."""
    name = "The state of this estimator"
    tensors, read = MODEL.from_bytes(stored, name)
    with _consistent(name):
        return unpack(tensors, from_json(ModelContent, read, "it"), available_device(device))


@contextmanager
def _consistent(name: str) -> Iterator[None]:
    """Raise a :class:`ModelFileError` about errors of a model file's content."""
    try:
        yield
    except UNREADABLE as error:
        text = str(error)
        reason = text if len(text) < LONGEST_REASON else f"{text[:LONGEST_REASON]} ..."
        raise ModelFileError(
            f"{name} is a sswim model file, but its content is inconsistent: {reason}."
        ) from error


def _read_parameters(content: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of an estimator; its own checks follow."""
    parameters = dict(content)
    if parameters.get("recipe") is not None:
        parameters["recipe"] = from_json(Recipe, parameters["recipe"], "the recipe")
    if parameters.get("coordinates") is not None:
        parameters["coordinates"] = tuple(parameters["coordinates"])
    if parameters.get("callback") is not None or parameters.get("device", "auto") != "auto":
        raise ValueError("a file cannot name a callback or a device")
    if parameters.get("random_state") is not None:
        require_integer("random_state", parameters["random_state"], 0, 2**32 - 1)
    require_flag("verbose", parameters.get("verbose", False))
    return parameters


def pack(
    regressor: BaseRegressor, *, include_rows: bool
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return everything that predictions and further rows need: tensors by name, and JSON.

    Without rows, members that predict by neighbours are left out if there are others that predict
    more than a constant.
    """
    fitted = regressor._fitted
    ensemble, reader = fitted.ensemble, fitted.reader
    stored = list(range(len(ensemble.members)))
    by_sums = [number for number in stored if not ensemble.members[number].needs_rows]
    if not (include_rows or all(ensemble.members[number].is_constant for number in by_sums)):
        stored = by_sums
    members = [ensemble.members[number] for number in stored]
    weights = ensemble.weights[stored]
    is_whole = len(stored) == len(ensemble.members)
    if not is_whole:
        weights = weights / weights.sum()
    tensors = to_tensors(ensemble.scaling, "scaling") | {"weights": weights}
    tensors |= to_tensors(reader.imputer, "imputer")
    rows = ensemble.rows if include_rows else None
    for member in members:
        if member.held_rows is not None:  # none of them, if neighbours need them but may not
            rows = member.held_rows if include_rows else member.held_rows.no_rows()
    if rows is not None:
        variance = rows.inputs.input_variance
        kept = _StoredRows(rows.inputs.mean, variance, rows.targets, rows.weight)
        tensors |= to_tensors(kept, "rows")
    has_folds = rows is not None and include_rows and ensemble.folds is not None
    if has_folds:
        tensors |= to_tensors(ensemble.folds, "folds")
    for number, member in enumerate(members):
        parts = {"model": member.model.state_dict(), "statistics": member.stored(rows)}
        for part, named in parts.items():
            for name, tensor in named.items():
                tensors[f"members.{number}.{part}.{name}"] = tensor
    # Left out where the file does not hold what its scores are of: members, or rows of folds.
    calibration = fitted.calibration if is_whole else None
    if calibration is not None and calibration.out_of_fold and not has_folds:
        calibration = None
    described = None
    if calibration is not None:
        tensors |= to_tensors(calibration.held_out, "held_out")
        described = CalibrationContent(calibration.labels, calibration.out_of_fold)
    schema = None
    if reader.schema is not None:
        from sswim.tables import schema_to_dict  # noqa: PLC0415 (it loads pyarrow)

        schema = schema_to_dict(reader.schema)
    # The device belongs to the machine, and a callback cannot be stored.
    others = {"device": "auto", "verbose": regressor.verbose, "callback": None}
    names = [kind.__name__ for kind in type(regressor).__mro__]
    content = ModelContent(
        estimator=next(name for name in get_args(EstimatorName) if name in names),
        parameters={**stored_settings(regressor), **others},
        architectures=tuple(member.model.architecture for member in members),
        ways=tuple(member.way for member in members),
        flat_targets=fitted.flat_targets,
        columns=reader.columns,
        inputs=reader.inputs,
        history=tuple(tuple(fitted.history[number].tolist()) for number in stored),
        kinds=fitted.kinds,
        table_schema=schema,
        calibration=described,
    )
    return tensors, to_json(content)


def unpack(tensors: dict[str, Tensor], content: ModelContent, device: torch.device) -> Fitted:
    """Restore what a fit has learnt from what :func:`pack` returned.

    Raises:
        ValueError: The content is inconsistent; no memory is taken before.
    """
    schema = None
    if content.table_schema is not None:
        from sswim.tables import schema_from_dict  # noqa: PLC0415 (it loads pyarrow)

        schema = schema_from_dict(content.table_schema)
    tensors, architectures = dict(tensors), content.architectures
    n_members = len(architectures)
    sizes: dict[str, int] = {}
    scaling = _take_scaling(tensors, sizes)
    weights = take_tensor(tensors, "weights")
    require_form("weights", weights, (n_members,), torch.float64)
    require_that("a model must have members", holds=n_members > 0)
    _require_shares("weights", weights)
    rows = _take_rows(tensors, sizes)
    states = [take_part(tensors, f"members.{number}.model") for number in range(n_members)]
    statistics = [
        _take_statistics(tensors, f"members.{number}.statistics", architecture, sizes)
        for number, architecture in enumerate(architectures)
    ]
    folds = _take_folds(tensors, n_members)
    calibration = _take_calibration(tensors, content.calibration, folds, rows, sizes["T"], device)
    imputer = GaussianImputer.checked(
        *astuple(from_tensors(GaussianImputer, tensors, "imputer", {}))
    )
    require_all_taken(tensors)
    _check_cost(architectures, [bool(own) for own in statistics], rows, sizes["D"])
    for number, (architecture, state) in enumerate(zip(architectures, states, strict=True)):
        require_that(
            f"member {number} has more warps than the file has tensors",
            holds=architecture.depth <= len(state),
        )
        with torch.device("meta"):  # of the right shapes, without any memory
            form = SSWIM(architecture, sizes["D"], sizes["T"])
        check_parameters(state, form)
    if rows is not None:
        rows = rows.to(device=device)
    members: list[Member] = []
    parts = zip(architectures, content.ways, states, statistics, strict=True)
    for number, (architecture, way, state, own) in enumerate(parts):
        model = SSWIM(architecture, sizes["D"], sizes["T"])
        model.load_state_dict(state)
        members.append(WAYS[way].restore(model.to(device), own, rows))
        is_nan = any(one.isnan().any() for one in members[-1].tensors() if one.is_floating_point())
        require_that(  # numbers may be right alone, but not together
            f"the parameters of member {number} must give finite predictions", holds=not is_nan
        )
    folds = None if folds is None else folds.to(device=device)
    ensemble = Ensemble(scaling.to(device=device), tuple(members), weights.to(device), rows, folds)
    reader = InputReader(imputer, content.columns, content.inputs, schema)
    n_inputs, n_targets = sizes["D"], sizes["T"]
    if reader.n_inputs != n_inputs:
        raise ValueError(f"a schema of {reader.n_inputs} inputs for a model of {n_inputs}")
    for names, size in ((content.columns, reader.n_columns), (content.inputs, n_inputs)):
        if names is not None and len(names) != size:
            raise ValueError(f"{len(names)} names for {size} columns or inputs")
    if content.flat_targets and n_targets != 1:
        raise ValueError(f"{n_targets} targets cannot be flat")
    return Fitted(
        reader,
        PendingUpdates(ensemble),
        content.kinds,
        [np.array(values) for values in content.history],
        content.flat_targets,
        calibration=calibration,
    )


def _take_scaling(tensors: dict[str, Tensor], sizes: dict[str, int]) -> Scaling:
    """Read the scaling, which says how many inputs (D) and targets (T) there are."""
    infinite = ("input_low", "input_high")
    scaling = from_tensors(Scaling, tensors, "scaling", sizes, infinite=infinite)
    require_that("a model must have targets", holds=sizes["T"] > 0)
    for name in ("input_spread", "target_spread", "weight_unit"):
        require_that(f"scaling.{name} must be positive", holds=(getattr(scaling, name) > 0).all())
    require_ordered(to_tensors(scaling, "scaling"), "scaling.input")
    return scaling


def _take_rows(tensors: dict[str, Tensor], sizes: dict[str, int]) -> Rows | None:
    """Read the rows, if there are any."""
    if "rows.inputs" not in tensors:
        return None
    rows = from_tensors(_StoredRows, tensors, "rows", sizes)
    variance = rows.input_variance
    if variance is not None:
        require_form("rows.input_variance", variance, rows.inputs.shape, rows.inputs.dtype)
    for name, tensor in to_tensors(rows, "rows").items():
        require_moderate(name, tensor)
        if name in ("rows.weight", "rows.input_variance"):
            _require_not_negative(name, tensor)
    return Rows(Measure(rows.inputs, input_variance=variance), rows.targets, rows.weight)


def _take_statistics(
    tensors: dict[str, Tensor], prefix: str, architecture: Architecture, sizes: dict[str, int]
) -> dict[str, Tensor]:
    """Read the stored statistics of a member, if there are any."""
    if f"{prefix}.gram" not in tensors:
        return {}
    require_that(
        "members that predict by neighbours have no statistics",
        holds=not architecture.n_neighbors,
    )
    n_features = 2 * architecture.n_frequencies
    own = {"T": sizes["T"], "F": n_features, "triangle": n_features * (n_features + 1) // 2}
    packed = from_tensors(_StoredStatistics, tensors, prefix, own)
    require_that(
        "there must be one Gram matrix, or one for each target",
        holds=len(packed.gram) in (1, sizes["T"]),
    )
    for name, tensor in to_tensors(packed, "statistics").items():
        require_moderate(name, tensor)
    for name in ("energy", "count"):
        _require_not_negative(f"statistics.{name}", getattr(packed, name))
    return vars(packed)


def _take_folds(tensors: dict[str, Tensor], n_members: int) -> HeldOutFolds | None:
    """Read the held-out folds, if there are any."""
    if "folds.keys" not in tensors:
        return None
    folds = from_tensors(HeldOutFolds, tensors, "folds", {"members": n_members})
    keys, fold = folds.keys, folds.fold
    require_that("keys of folds must increase", holds=(keys[1:] > keys[:-1]).all())
    require_that("rows must be in folds", holds=((fold >= 0) & (fold < folds.n_folds)).all())
    require_that("every fold must have rows", holds=len(fold.unique()) == folds.n_folds > 0)
    _require_shares("folds.weights", folds.weights)
    return folds


def _take_calibration(
    tensors: dict[str, Tensor],
    calibration: CalibrationContent | None,
    folds: HeldOutFolds | None,
    rows: Rows | None,
    n_targets: int,
    device: torch.device,
) -> Calibration | None:
    """Read a calibration, if there is one."""
    if calibration is None:
        return None
    n_folds = 1
    if calibration.out_of_fold:
        require_that(
            "a calibration out of fold needs folds and rows",
            holds=folds is not None and rows is not None and len(rows) > 0,
        )
        assert folds is not None
        n_folds = folds.n_folds
    scores = from_tensors(ConformityScores, tensors, "held_out", {"S": n_targets, "T": n_targets})
    n_groups = 1 if calibration.labels is None else len(calibration.labels)
    for name, number in (("fold", n_folds), ("group", n_groups)):
        values = getattr(scores, name)
        require_that(
            f"held-out rows must be in a {name}", holds=((values >= 0) & (values < number)).all()
        )
    for name in ("distance", "weight", "pit"):
        _require_not_negative(f"held_out.{name}", getattr(scores, name))
    require_that("probabilities must be at most one", holds=(scores.pit <= 1).all())
    for name in ("scores", "median", "distance", "weight"):
        require_moderate(f"held_out.{name}", getattr(scores, name))
    return Calibration(scores.to(device=device), calibration.labels, calibration.out_of_fold)


def _require_not_negative(name: str, tensor: Tensor) -> None:
    require_that(f"{name} must not be negative", holds=(tensor >= 0).all())


def _require_shares(name: str, weights: Tensor) -> None:
    require_that(
        f"{name} must not be negative, and must add up to one",
        holds=(weights >= 0).all() & ((weights.sum(-1) - 1).abs() < 1e-6).all(),
    )


def _check_cost(
    architectures: Sequence[Architecture],
    has_statistics: Sequence[bool],
    rows: Rows | None,
    n_inputs: int,
) -> None:
    """Check that what is computed from the tensors fits in a bounded memory."""
    n_rows = None if rows is None else len(rows)
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
