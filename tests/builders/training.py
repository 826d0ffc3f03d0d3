"""Standardised rows as a fit has them, and kinds of members."""

from __future__ import annotations

import pytest
import torch

from sswim.ensemble import member_training, stacking
from sswim.members import kinds
from sswim.members.kinds import Kind
from sswim.members.model import Architecture
from sswim.members.neighbour_training import MiniBatches
from sswim.members.objective import MAP, Objective
from sswim.members.training import Adam
from sswim.rows import Rows, TrainingRows


def training_rows(rows: Rows) -> TrainingRows:
    """Rows of one process that are standardised already, all of them in the sample and kept."""
    low, high = rows.targets.amin(0), rows.targets.amax(0)
    return TrainingRows(rows, rows, len(rows), low, high, torch.device("cpu"), rows)


def kind_of(
    architecture: Architecture,
    n_members: int = 1,
    steps: int = 5,
    objective: Objective = MAP,
) -> Kind:
    """Make a kind with the optimiser of the way it predicts."""
    by_neighbours = architecture.n_neighbors > 0
    way = "neighbours" if by_neighbours else "features"
    optimiser = MiniBatches(steps) if by_neighbours else Adam(steps)
    name = f"{way}-{architecture.depth}"
    return Kind(name, way, architecture, objective, optimiser, n_members)


def let_few_rows_compete(patch: pytest.MonkeyPatch, n_rows: int, weight: float = 0.05) -> None:
    """Let kinds compete, and prune them, by this many left-out rows.

    Of few rows the prior alone gives every kind some weight, so a kind pays that has more of it.
    """
    patch.setattr(kinds, "COMPETITION_ROWS", n_rows)
    patch.setattr(member_training, "COMPETITION_WEIGHT", weight)
    patch.setattr(stacking, "PRUNING_ROWS", n_rows)
