"""Files of tiny models of several kinds, fitted once, and the rows that they predict."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
from torch import Tensor

from builders.estimators import make_rows, skewed_rows, small
from sswim import load
from sswim.ensemble.plan import Recipe
from sswim.estimator import BaseRegressor
from sswim.estimator.model_file import MODEL

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
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        small(**(TINY | settings)).fit(*rows()).save(path)
        return path.read_bytes()


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
