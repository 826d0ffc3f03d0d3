"""Checkpoints with damaged bytes, and forged ones: resuming refuses them, or trains on."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from builders.estimators import make_rows, small
from builders.forgeries import (
    Damage,
    Forgery,
    TensorEdit,
    damaged,
    damages,
    edited,
    forgeries,
)
from builders.fuzzing import count_refusal, fuzz
from hypothesis import example
from hypothesis import strategies as st
from torch import Tensor

from sswim.base.cholesky import FactorisationError
from sswim.estimator import BaseRegressor
from sswim.members.checkpoints import CHECKPOINT, RUN, CheckpointError, Checkpoints

KINDS: dict[str, dict[str, Any]] = {
    "features": {"output_warp": "sinh-arcsinh", "noise": "input-dependent"},
    "neighbours": {"n_neighbors": 4},
    "members": {"n_members": 2, "depth": 0},
}
SIZE: dict[str, Any] = {"n_components": 4, "n_pseudo": 2, "max_iter": 4}
ROWS = make_rows(30)

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
            fit(kind, Path(folder), callback=kill)
        except Killed:
            return {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    raise AssertionError("the training was not cut off")


def fit(kind: str, folder: Path, **changes: Any) -> BaseRegressor:
    """Begin a training, or resume it."""
    place = Checkpoints(folder, every=2, resume=True)
    return small(**SIZE, **KINDS[kind], **changes).fit(*ROWS, checkpoints=place)


def member_file(kind: str) -> str:
    """Return the name of the first file of a training."""
    return min(name for name in checkpoint(kind) if name != RUN)


@functools.cache
def content(kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the JSON of a checkpoint; both must stay as they are."""
    return CHECKPOINT.from_bytes(checkpoint(kind)[member_file(kind)], kind)


@pytest.fixture(autouse=True, scope="module")
def _begun() -> None:
    """Train before Hypothesis draws: strategies must not use random numbers of their own."""
    for kind in KINDS:
        content(kind)


def resume(kind: str, changed: Files) -> None:
    """Resume a training with changed files; check what it predicts, or how it is refused."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in (checkpoint(kind) | changed).items():
            (Path(folder) / name).write_bytes(data)
        try:
            regressor = fit(kind, Path(folder))
        except (CheckpointError, FactorisationError):  # right numbers may still diverge
            count_refusal()
            return
    assert np.isfinite(regressor.predict_quantiles(ROWS[0], (0.05, 0.95))).all()


@fuzz(
    small=15,
    full=1000,
    part=100,
    limit=30.0,
    kind=st.sampled_from([*KINDS]),
    file=st.sampled_from(["member", RUN]),
    changes=damages(),
)
def test_a_damaged_checkpoint_is_refused_or_resumed(
    kind: str, file: Literal["member", "run.json"], changes: tuple[Damage, ...]
) -> None:
    name = member_file(kind) if file == "member" else file
    resume(kind, {name: damaged(checkpoint(kind)[name], changes)})


@fuzz(small=15, full=2000, part=100, limit=30.0, forgery=forgeries(KINDS, content))
# The numbers of checkpoints had no limits, and the model predicted NaN.
@example(Forgery("features", (TensorEdit("model.noise_correction", "fill", 1e8),)))
def test_a_forged_checkpoint_is_refused_or_resumed(forgery: Forgery) -> None:
    tensors, json = edited(*content(forgery.kind), forgery.changes)
    resume(forgery.kind, {member_file(forgery.kind): CHECKPOINT.to_bytes(tensors, json)})
