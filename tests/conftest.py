from __future__ import annotations

import numpy as np
import pytest
import torch


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(20201206)


@pytest.fixture(autouse=True)
def _global_random_state_is_left_alone() -> object:
    """No test, and so nothing in the package, may draw from a global generator."""

    def states() -> tuple[object, ...]:
        numpy_state = str(np.random.get_state())  # noqa: NPY002 (the one to leave alone)
        return torch.get_rng_state().tolist(), numpy_state

    before = states()
    yield
    assert states() == before
