"""Random states as scikit-learn has them, and PyTorch generators seeded from them."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.utils import check_random_state

RandomState = int | np.random.RandomState | None
"""An integer seed, a NumPy generator, or None for a different draw every time."""


def draw_generator(random_state: RandomState) -> torch.Generator:
    """Return a PyTorch generator on the CPU, with a seed drawn from a random state."""
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    return torch.Generator().manual_seed(seed)
