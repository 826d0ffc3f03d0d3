"""Small estimators, rows for them, and a fixture that makes their fits faster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sswim.ensemble.ensemble import PendingUpdates, make_ensemble
from sswim.estimator import BaseRegressor, make_estimator
from sswim.members import Member
from sswim.rows import Rows
from sswim.warps import noise_field as noise_fit

Array = np.ndarray[Any, Any]


def small(**changes: Any) -> BaseRegressor:
    """Make an estimator of one shallow member that is trained quickly; with no depth, an ensemble.

    Changes that are None leave a setting at its default.
    """
    settings: dict[str, Any] = {
        "depth": 1,
        "n_components": 32,
        "n_pseudo": 8,
        "max_iter": 5,
        "random_state": 0,
        "device": "cpu",
    }
    settings |= changes
    return make_estimator(
        **{name: settings[name] for name in settings if settings[name] is not None}
    )


def condition_on(regressor: BaseRegressor, *members: Member, rows: Rows | None = None) -> None:
    """Replace the members of a fitted estimator."""
    old = regressor._ensemble
    ensemble = make_ensemble(old.scaling, members, old.weights, rows)
    regressor._fitted = replace(regressor._fitted, updates=PendingUpdates(ensemble))


def make_rows(n: int = 60, d: int = 2, seed: int = 0) -> tuple[Array, Array]:
    """Draw inputs, and a noisy sine of the first input."""
    random = np.random.default_rng(seed)
    x = random.uniform(-2, 2, size=(n, d))
    return x, np.sin(2 * x[:, 0]) + 0.1 * random.normal(size=n)


def skewed_rows(n: int = 120, seed: int = 0, n_targets: int = 1) -> tuple[Array, Array]:
    """Draw inputs, and targets with a long tail whose noise grows with the first input."""
    random = np.random.default_rng(seed)
    x = random.uniform(-2, 2, size=(n, 2))
    noise = 0.1 * np.exp(0.8 * x[:, :1]) * random.normal(size=(n, n_targets))
    y = np.exp(np.sin(2 * x[:, 1:]) + noise)
    return x, 5 + 3 * (y[:, 0] if n_targets == 1 else y)


def with_value(array: Array, value: float) -> Array:
    """Return a copy of an array with another value in its fourth place."""
    changed = array.copy()
    changed.flat[3] = value
    return changed


@pytest.fixture(autouse=True, scope="module")
def few_noise_steps() -> Iterator[None]:
    """Learn noise in few steps; other tests check how well it is learnt."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise_fit, "STEPS", 5)
        yield
