"""Model files, pickles and copies of a fitted estimator.

All of them hold the same bytes, those of a model file: plain arrays and JSON, with a version and a
checksum. A pickle or a skops file therefore holds no tensors and no modules of PyTorch, is as small
as a model file, and loads on a machine without the device of the fit.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from sswim.base.devices import available_device
from sswim.base.validation import RandomState
from sswim.ensemble.ensemble import PendingUpdates
from sswim.ensemble.plan import FittedKind, Recipe
from sswim.estimator.inputs import InputReader, read_schema
from sswim.estimator.interval_methods import IntervalMethods
from sswim.estimator.model_file import (
    MODEL,
    ModelFileError,
    check_keys,
    pack,
    pack_calibration,
    pack_imputer,
    read_flag,
    read_history,
    read_kinds,
    read_names,
    read_parameters,
    stored_members,
    unpack,
    unpack_calibration,
    unpack_imputer,
)
from sswim.estimator.settings import check_settings
from sswim.files.sealed_files import UNREADABLE
from sswim.members.architecture import Architecture

MODEL_BYTES = "model_file"
"""Key of the model file's bytes in the state of a fitted estimator."""

FITTED = (
    *("_models", "_updates", "_fitted_rows", "_flat_targets", "history_", "recipe_", "n_iter_"),
    *("n_features_in_", "feature_names_in_", "input_names_", "_reader"),
    *("_calibration", "_conformal"),
)
"""Attributes of a fitted estimator that follow from those bytes, or are left out."""

LONGEST_REASON = 1000
"""Largest number of characters that an error quotes of a file."""

EstimatorT = TypeVar("EstimatorT", bound="Persistence")


class Persistence(IntervalMethods):
    """The methods of an estimator that save, load, pickle and copy it."""

    device: str
    random_state: RandomState
    verbose: bool
    recipe: Recipe | None
    history_: list[np.ndarray[Any, Any]]
    recipe_: tuple[FittedKind, ...]

    def save(self, path: str | os.PathLike[str], *, include_rows: bool = True) -> None:
        """Write the model to one file.

        Members that predict by neighbours need the rows, and of few rows the other members are
        computed again from them, which makes the file small. Else the file holds no rows.

        Args:
            path: The file.
            include_rows: Whether the file may hold rows. Without them, members that predict by
                neighbours are left out, and the others have their weight. If there are no others,
                the model can predict again after ``partial_fit`` with rows.
        """
        MODEL.write(path, *self._pack(include_rows=include_rows))

    @classmethod
    def load(cls: type[EstimatorT], path: str | os.PathLike[str]) -> EstimatorT:
        """Read a model that ``save`` wrote. Nothing in the file is executed."""
        tensors, content = MODEL.read(path)
        with _consistent(repr(os.fspath(path))):
            check_keys(content)
            regressor = cls(**read_parameters(content["parameters"]))
            check_settings(regressor)
            regressor._restore(tensors, content)
        return regressor

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickles and copies: parameters, and the bytes of a model file.

        An estimator that is not fitted has its parameters only. The arrays of ``fit`` are left out.
        """
        state = super().__getstate__()
        if not self.__sklearn_is_fitted__():
            return state
        kept = {name: value for name, value in state.items() if name not in FITTED}
        return {**kept, MODEL_BYTES: MODEL.to_bytes(*self._pack(include_rows=True))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore what ``__getstate__`` returned."""
        others = {name: value for name, value in state.items() if name != MODEL_BYTES}
        super().__setstate__(others)
        if MODEL_BYTES in state:
            name = "The state of this estimator"
            tensors, content = MODEL.from_bytes(state[MODEL_BYTES], name)
            with _consistent(name):
                check_keys(content)
                self._restore(tensors, content)

    def _pack(self, *, include_rows: bool) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the tensors and the JSON-able content of a model file."""
        ensemble = self._ensemble_of_fit()
        # The device belongs to the machine, and a callback cannot be stored.
        others = {"device": "auto", "verbose": self.verbose, "callback": None}
        stored = stored_members(ensemble, include_rows=include_rows)
        content = {
            "parameters": {**self._settings(), **others},
            "architectures": [asdict(self._models[number].architecture) for number in stored],
            "flat_targets": self._flat_targets,
            "columns": self._reader.columns,
            "inputs": self._reader.inputs,
            "history": [self.history_[number].tolist() for number in stored],
            "recipe": [asdict(kind) for kind in self.recipe_],
            "table_schema": getattr(self, "table_schema_", None),
        }
        tensors = pack(self._models, ensemble, include_rows=include_rows)
        scores, content["calibration"] = pack_calibration(
            self._calibration, tensors, ensemble, len(stored)
        )
        return tensors | scores | pack_imputer(self._reader.imputer), content

    def _restore(self, tensors: dict[str, Tensor], content: dict[str, Any]) -> None:
        """Set the attributes of a fitted estimator from what :meth:`_pack` returned."""
        device = available_device(self.device)
        architectures = [Architecture(**each) for each in content["architectures"]]
        history = read_history(content["history"], len(architectures))
        recipe = read_kinds(content["recipe"])
        flat_targets = read_flag(content["flat_targets"], "flat_targets")
        columns, inputs = (read_names(content[key], key) for key in ("columns", "inputs"))
        schema = read_schema(content["table_schema"])
        models, ensemble = unpack(tensors, architectures, device)
        calibration = unpack_calibration(content["calibration"], tensors, ensemble)
        reader = InputReader(unpack_imputer(tensors), columns, inputs, schema)
        n_inputs, n_targets = (
            len(mean) for mean in (ensemble.scaling.input_mean, ensemble.scaling.target_mean)
        )
        if reader.n_inputs != n_inputs:
            raise ValueError(f"a schema of {reader.n_inputs} inputs for a model of {n_inputs}")
        for names, size in ((columns, reader.n_columns), (inputs, n_inputs)):
            if names is not None and len(names) != size:
                raise ValueError(f"{len(names)} names for {size} columns or inputs")
        if flat_targets and n_targets != 1:
            raise ValueError(f"{n_targets} targets cannot be flat")
        self._models, self._updates = models, PendingUpdates(ensemble)
        self.history_, self.recipe_, self._flat_targets = history, recipe, flat_targets
        self._fitted_rows = None
        self.n_iter_ = max(len(values) - 1 for values in history)
        self._set_fitted(reader, _calibration=calibration, _conformal=None)

    def _settings(self) -> dict[str, Any]:
        """Return the JSON-able arguments that decide what is learnt."""
        settings = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in self.get_params().items()
            if name not in ("device", "verbose", "callback")
        }
        if self.recipe is not None:
            settings["recipe"] = asdict(self.recipe)
        if isinstance(self.random_state, np.random.RandomState):
            settings["random_state"] = None  # its state cannot be stored
        return settings


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
