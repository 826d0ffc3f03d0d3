"""Damaged and forged model files and checkpoints: they are refused, or what they make is sane.

Damaged files have other bytes; forged ones have any content under a right checksum.
"""

from __future__ import annotations

import functools
import resource
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
from builders.estimators import make_rows, skewed_rows, small
from builders.forgeries import (
    Damage,
    Forgery,
    TensorEdit,
    damaged,
    damages,
    edited,
    forgeries,
)
from builders.fuzzing import fuzz, may_refuse
from hypothesis import example
from hypothesis import strategies as st
from torch import Tensor

from sswim import load
from sswim.base.cholesky import FactorisationError
from sswim.ensemble.plan import Recipe
from sswim.estimator import BaseRegressor
from sswim.estimator.model_file import MODEL, ModelFileError
from sswim.members.checkpoints import CHECKPOINT, RUN, CheckpointError, Checkpoints

N_ROWS = 50
TINY: dict[str, Any] = {"n_components": 8, "n_pseudo": 3, "max_iter": 1}


def _frame() -> tuple[pd.DataFrame, Any]:
    """Return a frame with a number, a category, a date and a gap, and targets."""
    x, y = make_rows(N_ROWS)
    frame = pd.DataFrame({"a": x[:, 0], "b": ["yes" if each > 0 else "no" for each in x[:, 1]]})
    frame["c"] = pd.date_range("2020-01-01", periods=N_ROWS)
    frame.loc[::7, "a"] = None
    return frame, y


FEW_KINDS = Recipe(kinds=("mean", "features-1", "neighbours-0-smooth"), screening=False)
"""A default that is fitted faster."""

Rows = Callable[[], tuple[Any, Any]]

KINDS: dict[str, tuple[dict[str, Any], Rows]] = {
    "ensemble": ({"depth": None, "n_members": 1, "recipe": FEW_KINDS}, _frame),
    "statistics": ({"n_components": 4, "n_members": 2, "output_warp": "tanh"}, make_rows),
    "warps": (
        {
            "depth": 2,
            "output_warp": "sinh-arcsinh",
            "noise": "input-dependent",
            "warps": "separate",
        },
        make_rows,
    ),
    "neighbours": ({"n_neighbors": 8, "inputs": "normal-scores"}, _frame),
    "matrices": ({"depth": 2, "warp_matrix": "full", "warp_dim": 3}, make_rows),
    "projection": (
        {"n_neighbors": 8, "warp_matrix": "projected", "warp_dim": 1, "warps": "joint"},
        make_rows,
    ),
    "targets": ({"n_neighbors": None}, lambda: skewed_rows(N_ROWS, n_targets=2)),
}
"""Settings and rows of each kind of model."""


@functools.cache
def model_bytes(kind: str) -> bytes:
    """Return the file of a model."""
    settings, rows = KINDS[kind]
    with tempfile.NamedTemporaryFile() as file:
        small(**(TINY | settings)).fit(*rows()).save(file.name)
        return Path(file.name).read_bytes()


@functools.cache
def model_content(kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the JSON of a model file; both must stay as they are."""
    return MODEL.from_bytes(model_bytes(kind), kind)


@functools.cache
def inputs(kind: str) -> Any:
    """Return a few rows that a model can predict."""
    return KINDS[kind][1]()[0][:5]


def load_bytes(data: bytes) -> BaseRegressor:
    """Load a model from the bytes of a file."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        return load(file.name)


TRAININGS: dict[str, dict[str, Any]] = {
    "features": {"output_warp": "sinh-arcsinh", "noise": "input-dependent"},
    "neighbours": {"n_neighbors": 4},
    "members": {"n_members": 2, "depth": 0},
}
SIZE: dict[str, Any] = {"n_components": 4, "n_pseudo": 2, "max_iter": 4}
ROWS = make_rows(30)

SECONDS = 1.0
"""Time of a core in which a file is refused, or loaded and used."""

MEBIBYTES = 256
"""Memory that a file may take, if no file before it took more."""

LONGEST_MESSAGE = 3000

PROBABILITIES = (0.05, 0.5, 0.95)


@pytest.fixture(autouse=True, scope="module")
def _fitted() -> None:
    """Fit before Hypothesis draws: strategies must not use random numbers of their own."""
    for kind in KINDS:
        model_content(kind)
    for kind in TRAININGS:
        checkpoint_content(kind)


@contextmanager
def bounded() -> Iterator[None]:
    """Check that a step takes little time and memory."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    yield
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < SECONDS
    assert (after.ru_maxrss - before.ru_maxrss) / 1024 < MEBIBYTES


def loaded(data: bytes) -> BaseRegressor | None:
    """Load a model; None if the file is refused in the right way."""
    with bounded():
        try:
            return load_bytes(data)
        except ModelFileError as error:
            message = str(error)
    assert len(message) < LONGEST_MESSAGE
    return None


@functools.cache
def expected(kind: str) -> np.ndarray[Any, Any]:
    """Return the predictions of a model before any damage."""
    return load_bytes(model_bytes(kind)).predict_quantiles(inputs(kind), PROBABILITIES)


@fuzz(
    small=40, full=10_000, part=1000, limit=20.0, kind=st.sampled_from([*KINDS]), changes=damages()
)
@example(kind="targets", changes=(Damage("end", 1.0),))
def test_a_damaged_model_is_refused_or_is_the_same(kind: str, changes: tuple[Damage, ...]) -> None:
    regressor = loaded(damaged(model_bytes(kind), changes))
    if regressor is not None:
        found = regressor.predict_quantiles(inputs(kind), PROBABILITIES)
        np.testing.assert_array_equal(found, expected(kind))


@fuzz(small=40, full=10_000, part=250, limit=20.0, forgery=forgeries(KINDS, model_content))
# The k-d tree has no neighbours at infinite distances: it was an IndexError.
@example(
    Forgery("neighbours", (TensorEdit("members.0.model.normal_scores.knots", "times", 1e-300),))
)
# Quantiles were infinite.
@example(Forgery("warps", (TensorEdit("scaling.target_spread", "fill", 1.6e308),)))
def test_a_forged_model_is_refused_or_predicts(forgery: Forgery) -> None:
    tensors, content = edited(*model_content(forgery.kind), forgery.changes)
    regressor = loaded(MODEL.to_bytes(tensors, content))
    if regressor is None:
        return
    rows = inputs(forgery.kind)
    with bounded(), may_refuse():
        mean, std = regressor.predict(rows, return_std=True)
        quantiles = regressor.predict_quantiles(rows, PROBABILITIES)
        for values in (mean, std, quantiles, regressor.predict(rows)):
            assert np.isfinite(values).all()
        assert (std >= 0).all()
        assert (np.diff(quantiles, axis=-1) >= 0).all()


Files = dict[str, bytes]


class Killed(Exception):  # noqa: N818
    """Raised to end a training."""


@functools.cache
def checkpoint(kind: str) -> Files:
    """Return the files of a training that was cut off."""

    def kill(member: int, step: Any) -> None:
        if step.index == 3:
            raise Killed

    with tempfile.TemporaryDirectory() as folder:
        try:
            train(kind, Path(folder), callback=kill)
        except Killed:
            return {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    raise AssertionError("the training was not cut off")


def train(kind: str, folder: Path, **changes: Any) -> BaseRegressor:
    """Begin a training, or resume it."""
    place = Checkpoints(folder, every=2, resume=True)
    return small(**SIZE, **TRAININGS[kind], **changes).fit(*ROWS, checkpoints=place)


def member_file(kind: str) -> str:
    """Return the name of the first file of a training."""
    return min(name for name in checkpoint(kind) if name != RUN)


@functools.cache
def checkpoint_content(kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the JSON of a checkpoint; both must stay as they are."""
    return CHECKPOINT.from_bytes(checkpoint(kind)[member_file(kind)], kind)


def resume(kind: str, changed: Files) -> None:
    """Resume a training with changed files; check what it predicts, or how it is refused."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in (checkpoint(kind) | changed).items():
            (Path(folder) / name).write_bytes(data)
        try:
            regressor = train(kind, Path(folder))
        except (CheckpointError, FactorisationError):  # right numbers may still diverge
            return
    assert np.isfinite(regressor.predict_quantiles(ROWS[0], (0.05, 0.95))).all()


@fuzz(
    small=15,
    full=1000,
    part=100,
    limit=30.0,
    kind=st.sampled_from([*TRAININGS]),
    file=st.sampled_from(["member", RUN]),
    changes=damages(),
)
def test_a_damaged_checkpoint_is_refused_or_resumed(
    kind: str, file: Literal["member", "run.json"], changes: tuple[Damage, ...]
) -> None:
    name = member_file(kind) if file == "member" else file
    resume(kind, {name: damaged(checkpoint(kind)[name], changes)})


@fuzz(small=15, full=2000, part=100, limit=30.0, forgery=forgeries(TRAININGS, checkpoint_content))
# The numbers of checkpoints had no limits, and the model predicted NaN.
@example(Forgery("features", (TensorEdit("model.noise_correction", "fill", 1e8),)))
def test_a_forged_checkpoint_is_refused_or_resumed(forgery: Forgery) -> None:
    tensors, json = edited(*checkpoint_content(forgery.kind), forgery.changes)
    resume(forgery.kind, {member_file(forgery.kind): CHECKPOINT.to_bytes(tensors, json)})
