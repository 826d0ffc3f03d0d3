"""The first points of a run, and all points of a random search: a scrambled Sobol sequence."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float64
from torch.quasirandom import SobolEngine


def n_first(dimension: int) -> int:
    """Return how many points every method starts with."""
    return max(5, 2 * dimension)


def sobol_points(dimension: int, n: int, seed: int, skip: int = 0) -> Float64[np.ndarray, "N D"]:
    """Return points of the sequence of a seed, after those that are skipped."""
    engine = SobolEngine(dimension, scramble=True, seed=seed)
    if skip:
        engine.fast_forward(skip)
    return engine.draw(n, dtype=torch.float64).numpy()
