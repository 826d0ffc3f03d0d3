"""Model files, pickles and copies of a fitted estimator.

All of them hold the same bytes, those of a model file: plain arrays and JSON, with a version and a
checksum. A pickle or a skops file therefore holds no tensors and no modules of PyTorch, is as small
as a model file, and loads on a machine without the device of the fit.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from sswim.distributed.processes import available_device
from sswim.ensemble.ensemble import PendingUpdates
from sswim.estimator.fitted import Fitted
from sswim.estimator.inputs import InputReader, read_schema
from sswim.estimator.model_file import (
    MODEL,
    ModelContent,
    ModelFileError,
    pack,
    read_parameters,
    stored_members,
    unpack,
)
from sswim.estimator.settings import stored_settings
from sswim.files.records import from_json, to_json
from sswim.files.sealed_files import UNREADABLE

if TYPE_CHECKING:
    from sswim.estimator.base import BaseRegressor

ESTIMATORS = ("SSWIMRegressor", "WarpedGPRegressor", "NeighbourGPRegressor")
"""Names of the classes of estimators."""

MODEL_BYTES = "model_file"
"""Key of the model file's bytes in the state of a fitted estimator."""

LONGEST_REASON = 1000
"""Largest number of characters that an error quotes of a file."""


def save(regressor: BaseRegressor, path: str | os.PathLike[str], *, include_rows: bool) -> None:
    """Write a fitted estimator to a model file."""
    MODEL.write(path, *_pack(regressor, include_rows=include_rows))


def load(path: str | os.PathLike[str]) -> BaseRegressor:
    """Read a model file, and return the estimator that it names. Nothing in it is executed."""
    tensors, read = MODEL.read(path)
    with _consistent(repr(os.fspath(path))):
        content = from_json(ModelContent, read, "it")
        regressor = _estimator_class(content.estimator)(**read_parameters(content.parameters))
        regressor._check_settings()
        regressor._fitted = _unpack(tensors, content, regressor.device)
    return regressor


def to_bytes(regressor: BaseRegressor) -> bytes:
    """Return the bytes of a model file with everything."""
    return MODEL.to_bytes(*_pack(regressor, include_rows=True))


def from_bytes(stored: bytes, device: str) -> Fitted:
    """Return what the estimator had learnt whose model file has these bytes."""
    name = "The state of this estimator"
    tensors, read = MODEL.from_bytes(stored, name)
    with _consistent(name):
        return _unpack(tensors, from_json(ModelContent, read, "it"), device)


def _estimator_class(name: str) -> type[BaseRegressor]:
    """Return the class of estimators of this name."""
    if name not in ESTIMATORS:
        raise ValueError(f"the estimator must be one of {ESTIMATORS}, not {name!r}")
    from sswim import estimator  # noqa: PLC0415 (it imports this module)

    found: type[BaseRegressor] = getattr(estimator, name)
    return found


def _pack(
    regressor: BaseRegressor, *, include_rows: bool
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the JSON-able content of a model file."""
    fitted = regressor._fitted
    ensemble, reader = fitted.ensemble, fitted.reader
    # The device belongs to the machine, and a callback cannot be stored.
    others = {"device": "auto", "verbose": regressor.verbose, "callback": None}
    stored = stored_members(ensemble, include_rows=include_rows)
    schema = None
    if reader.schema is not None:
        from sswim.tables import schema_to_dict  # noqa: PLC0415 (it loads pyarrow)

        schema = schema_to_dict(reader.schema)
    names = [kind.__name__ for kind in type(regressor).__mro__]
    tensors, calibration = pack(
        ensemble, reader.imputer, fitted.calibration, include_rows=include_rows
    )
    content = ModelContent(
        estimator=next(name for name in names if name in ESTIMATORS),
        parameters={**stored_settings(regressor), **others},
        architectures=tuple(ensemble.members[number].model.architecture for number in stored),
        ways=tuple(ensemble.members[number].way for number in stored),
        flat_targets=fitted.flat_targets,
        columns=reader.columns,
        inputs=reader.inputs,
        history=tuple(tuple(fitted.history[number].tolist()) for number in stored),
        kinds=fitted.kinds,
        table_schema=schema,
        calibration=calibration,
    )
    return tensors, to_json(content)


def _unpack(tensors: dict[str, Tensor], content: ModelContent, device: str) -> Fitted:
    """Restore what a fit has learnt from what :func:`_pack` returned."""
    schema = read_schema(content.table_schema)
    unpacked = unpack(
        tensors, content.architectures, content.ways, content.calibration, available_device(device)
    )
    reader = InputReader(unpacked.imputer, content.columns, content.inputs, schema)
    scaling = unpacked.ensemble.scaling
    n_inputs, n_targets = len(scaling.input_mean), len(scaling.target_mean)
    if reader.n_inputs != n_inputs:
        raise ValueError(f"a schema of {reader.n_inputs} inputs for a model of {n_inputs}")
    for names, size in ((content.columns, reader.n_columns), (content.inputs, n_inputs)):
        if names is not None and len(names) != size:
            raise ValueError(f"{len(names)} names for {size} columns or inputs")
    if content.flat_targets and n_targets != 1:
        raise ValueError(f"{n_targets} targets cannot be flat")
    return Fitted(
        reader,
        PendingUpdates(unpacked.ensemble),
        content.kinds,
        [np.array(values) for values in content.history],
        content.flat_targets,
        calibration=unpacked.calibration,
    )


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
