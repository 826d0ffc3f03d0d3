from __future__ import annotations

import pytest
import torch


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(20201206)


@pytest.fixture(autouse=True)
def _global_random_state_is_left_alone() -> object:
    """No test, and so nothing in the package, may draw from the global generator."""
    before = torch.get_rng_state()
    yield
    assert torch.equal(before, torch.get_rng_state())
