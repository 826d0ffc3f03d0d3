"""Rows of ``conformal.py``: real tables, and synthetic ones whose noise no Gaussian model has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sswim_lab.bench.runner import SETS
from sswim_lab.datasets import split
from sswim_lab.datasets.catalogue import data_set

Array = NDArray[np.float64]
Noise = Callable[[np.random.Generator, Array], Array]
"""Draws the noise at rows of inputs."""

REAL = SETS
"""Real tables: those of the accuracy benchmark."""

N_TEST = 1000
"""Number of test rows of a synthetic table."""
SIZES = (100, 300, 1000)
"""Numbers of training rows of a synthetic table."""
GROUPS = "three groups"
GROUP_SIZE = 1000
"""Number of training rows of the table of groups."""
GROUP_NOISE = (0.1, 0.3, 1.0)

SYNTHETIC: dict[str, Noise] = {
    "t(2) noise": lambda random, x: 0.3 * random.standard_t(2, len(x)),
    "exponential noise": lambda random, x: 0.5 * random.exponential(size=len(x)),
    "lognormal noise": lambda random, x: 0.3 * random.lognormal(size=len(x)),
    "noise that grows": lambda random, x: (
        (0.05 + 0.2 * np.abs(x[:, 1])) * random.normal(size=len(x))
    ),
}
"""Noise added to a wave that gets faster along one input and a slope along another."""


@dataclass(frozen=True)
class Case:
    """A table, its number of training rows and a repeat."""

    set: str
    n_train: int
    repeat: int


@dataclass(frozen=True)
class Rows:
    """Training and test rows of a case."""

    train_x: Array
    train_y: Array
    test_x: Array
    test_y: Array
    unit: float
    """The unit of widths: the spread of a real target, and one for synthetic tables."""
    n_distinct: int | None
    """Number of rows that the test rows of all repeats come from; None if every repeat draws new
    ones."""
    train_groups: NDArray[np.int64] | None = None
    test_groups: NDArray[np.int64] | None = None


def real_size(name: str, max_train: int) -> int:
    """Return the number of training rows of a real table, without reading it."""
    facts = data_set(name)
    return min(facts.n_train or round(2 * facts.n_rows / 3), max_train)


def make_rows(case: Case, max_test: int) -> Rows:
    """Read or draw the rows of a case."""
    if case.set in REAL:
        return _real(case, max_test)
    random = np.random.default_rng([case.n_train, case.repeat])
    if case.set == GROUPS:
        return _groups(case, random)
    x = random.uniform(-2, 2, (case.n_train + N_TEST, 2))
    y = _function(x) + SYNTHETIC[case.set](random, x)
    n = case.n_train
    return Rows(x[:n], y[:n], x[n:], y[n:], 1.0, None)


def _real(case: Case, max_test: int) -> Rows:
    rows = split(case.set, case.repeat)
    n = case.n_train
    return Rows(
        rows.train_x[:n],
        rows.train_y[:n],
        rows.test_x[:max_test],
        rows.test_y[:max_test],
        float(rows.train_y[:n].std()),
        data_set(case.set).n_rows,
    )


def _groups(case: Case, random: np.random.Generator) -> Rows:
    """Draw rows of three groups with noise of three strengths; the group is an input too."""
    n = case.n_train
    x = random.uniform(-2, 2, (n + 3 * N_TEST, 2))
    groups = random.integers(len(GROUP_NOISE), size=len(x))
    y = _function(x) + np.array(GROUP_NOISE)[groups] * random.normal(size=len(x))
    x = np.column_stack((x, groups))
    return Rows(x[:n], y[:n], x[n:], y[n:], 1.0, None, groups[:n], groups[n:])


def _function(x: Array) -> Array:
    return np.sin(np.exp(x[:, 0])) + 0.5 * x[:, 1]
