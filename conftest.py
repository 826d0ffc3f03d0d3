from __future__ import annotations

import pickle
import sys
from collections import Counter
from collections.abc import Iterator
from typing import ClassVar

import jaxtyping
import numpy as np
import pytest
import torch
from builders.shape_checks import JaxtypedOnce

CHECKED_CALLS = 10
"""How often a test checks the shapes of a function's arguments. Every call would take most of the
time of the tests."""


class FirstCalls(type(jaxtyping.config)):  # type: ignore[misc]
    """The configuration of jaxtyping, which asks it at every call whether to check shapes."""

    calls: ClassVar[Counter[object]] = Counter()

    @property
    def jaxtyping_disable(self) -> bool:
        """Whether the calling function has been checked often enough."""
        function = sys._getframe(1).f_locals["fn"]
        code = getattr(function, "__code__", function)  # inner functions are made in every call
        self.calls[code] += 1
        return self.calls[code] > CHECKED_CALLS


jaxtyping.config.__class__ = FirstCalls
jaxtyping.jaxtyped = JaxtypedOnce(jaxtyping.jaxtyped)  # type: ignore[assignment]


@pytest.fixture(autouse=True)
def _shapes_are_checked_anew() -> None:
    FirstCalls.calls.clear()


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(20201206)


@pytest.fixture(autouse=True)
def _global_random_state_is_left_alone() -> Iterator[None]:
    """No test, and so nothing in the package, may draw from a global generator."""

    def states() -> tuple[object, ...]:
        numpy_state = np.random.get_state(legacy=False)  # noqa: NPY002 (the one to leave alone)
        return torch.get_rng_state().numpy().tobytes(), pickle.dumps(numpy_state)

    before = states()
    yield
    assert states() == before
