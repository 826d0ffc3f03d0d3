"""Fixtures of the linear regression: features, targets, weights and precisions of rows.

Test files load them with ``pytest_plugins``.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from builders.models import normal


@pytest.fixture
def features(generator: torch.Generator) -> Tensor:
    return normal(generator, 15, 6)


@pytest.fixture
def targets(generator: torch.Generator, features: Tensor) -> Tensor:
    return features @ normal(generator, 6, 2) + 0.3 * normal(generator, 15, 2)


@pytest.fixture
def weight(generator: torch.Generator) -> Tensor:
    return torch.randint(1, 4, (15,), generator=generator).to(torch.float64)


@pytest.fixture
def log_precision(generator: torch.Generator) -> Tensor:
    """log w, different for every row and target."""
    return normal(generator, 15, 2)
