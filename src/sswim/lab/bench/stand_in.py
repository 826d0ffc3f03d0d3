"""Made-up rows under a name of their own, to try things out where no data set is at hand."""

from __future__ import annotations

import numpy as np

from sswim.lab.datasets.named import Split, split

STAND_IN = "synthetic"
"""Its name."""
N_ROWS, N_TRAIN = 450, 300


def split_of(name: str, repeat: int, folder: str | None = None) -> Split:
    """The rows of a repeat of a named data set, or made-up ones."""
    return _made_up(repeat) if name == STAND_IN else split(name, repeat, folder)


def _made_up(repeat: int) -> Split:
    """A wave that gets faster along one input and a slope along another, with noise."""
    random = np.random.default_rng(repeat)
    x = random.uniform(-2, 2, (N_ROWS, 3))
    y = np.sin(np.exp(x[:, 0])) + 0.5 * x[:, 1] + 0.1 * random.normal(size=N_ROWS)
    return Split(x[:N_TRAIN], y[:N_TRAIN], x[N_TRAIN:], y[N_TRAIN:])
