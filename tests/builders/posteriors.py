"""Small ensembles of members of every kind, for tests of joint posteriors and drawn functions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from builders.models import normal, small_model, small_rows
from builders.neighbours import neighbour_model
from sswim.ensemble.ensemble import Ensemble
from sswim.members import condition
from sswim.members.model import SSWIM
from sswim.rows import Rows, as_rows, learn_scaling

Changes = dict[str, Any]

KINDS: dict[str, list[Changes]] = {
    "depth 0": [{"depth": 0}],
    "depth 1": [{"depth": 1}],
    "depth 2": [{"depth": 2, "warps": "joint"}],
    "normal scores": [{"depth": 1, "inputs": "normal-scores"}],
    "noise": [{"noise": "input-dependent"}],
    "sinh-arcsinh": [{"output_warp": "sinh-arcsinh", "noise": "input-dependent"}],
    "tanh": [{"output_warp": "tanh", "depth": 0}],
    "neighbours": [{"neighbours": 99}],
    "neighbours, one amplitude": [{"neighbours": 99, "local_amplitude": False, "kernel": "rbf"}],
    "few neighbours": [{"neighbours": 6, "kernel": "matern52"}],
    "warped neighbours": [{"neighbours": 99, "depth": 1, "noise": "input-dependent"}],
    "mixture": [
        {"depth": 1, "warps": "joint"},
        {"depth": 0, "inputs": "normal-scores", "output_warp": "sinh-arcsinh"},
        {"neighbours": 99, "kernel": "matern52"},
        {"neighbours": 99, "depth": 1, "output_warp": "tanh", "local_amplitude": False},
    ],
}
"""Settings of the members of an ensemble, by name."""


def far_rows(generator: torch.Generator, n: int = 17, n_targets: int = 2) -> Rows:
    """Rows that are far from standardised."""
    rows = small_rows(generator, n, n_targets)
    return as_rows(10 + 2 * rows.inputs.mean, 5 - 3 * rows.targets)


def far_points(generator: torch.Generator, *shape: int) -> Tensor:
    """Draw points among those rows."""
    return 10 + 2 * normal(generator, *shape, 3)


def small_ensemble(
    rows: Rows, members: list[Changes], generator: torch.Generator, *, uncertain: bool = False
) -> Ensemble:
    """Make an ensemble of members with random parameters and different weights.

    Args:
        rows: Rows in units of the data.
        members: Settings of the members.
        generator: Generator of the parameters.
        uncertain: Whether the inputs of the rows are uncertain.
    """
    scaling = learn_scaling(rows)
    standardised = scaling.rows(rows)
    if uncertain:
        variance = 0.1 * normal(generator, *rows.inputs.mean.shape).square()
        inputs = replace(standardised.inputs, input_variance=variance)
        standardised = replace(standardised, inputs=inputs)
    models = [_model(standardised, generator, **changes) for changes in members]
    weights = torch.arange(1, len(models) + 1, dtype=torch.float64)
    predictors = tuple(condition(model, standardised) for model in models)
    return Ensemble(scaling, predictors, weights / weights.sum())


def _model(
    rows: Rows, generator: torch.Generator, neighbours: int | None = None, **changes: Any
) -> SSWIM:
    if neighbours is None:
        return small_model(rows, generator, **changes)
    return neighbour_model(rows, generator, n_neighbors=neighbours, **changes)
