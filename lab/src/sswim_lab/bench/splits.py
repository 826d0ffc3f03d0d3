"""Training and test rows of a data set by its name, with a synthetic one that needs no file."""

from __future__ import annotations

import numpy as np

from sswim_lab.datasets import Split, split

SYNTHETIC = "synthetic"
"""Name of the synthetic data set."""
N_ROWS, N_TRAIN = 450, 300


def load_split(name: str, repeat: int, folder: str | None = None) -> Split:
    """Return the rows of one repeat of a named data set, or of the synthetic one."""
    return _synthetic_split(repeat) if name == SYNTHETIC else split(name, repeat, folder)


def _synthetic_split(repeat: int) -> Split:
    """Draw a wave that gets faster along one input and a slope along another, with noise."""
    random = np.random.default_rng(repeat)
    x = random.uniform(-2, 2, (N_ROWS, 3))
    y = np.sin(np.exp(x[:, 0])) + 0.5 * x[:, 1] + 0.1 * random.normal(size=N_ROWS)
    return Split(x[:N_TRAIN], y[:N_TRAIN], x[N_TRAIN:], y[N_TRAIN:])
