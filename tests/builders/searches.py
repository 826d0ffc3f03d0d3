"""Random search, for comparison with optimisers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def funnel(x: float, y: float) -> float:
    """Return a function of the unit square with a sharp minimum of −3 at (0.8, 0.3)."""
    return float(np.log10(0.001 + (x - 0.8) ** 2 + (y - 0.3) ** 2))


def lucky_random_search(loss: Callable[[float, float], float], n_trials: int) -> float:
    """Return what one in four random searches of the unit square gets below."""
    points = np.random.default_rng(0).uniform(size=(400, n_trials, 2))
    return float(np.quantile([min(loss(*point) for point in search) for search in points], 0.25))
