"""Small fitted models for figures, and what every test of figures checks."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sswim.estimator.regressor import SSWIMRegressor

Array = np.ndarray[Any, np.dtype[np.float64]]


def small(**settings: Any) -> SSWIMRegressor:
    common: dict[str, Any] = {"depth": 1, "n_components": 32, "n_pseudo": 8, "max_iter": 5}
    common["random_state"] = 0
    return SSWIMRegressor(**common | settings)


def rows(n_inputs: int, n: int = 60) -> tuple[Array, Array]:
    random = np.random.default_rng(n_inputs)
    X = random.uniform(-2, 2, (n, n_inputs))
    return X, np.sin(3 * X).sum(1) + 0.1 * random.normal(size=n)


@functools.cache
def one() -> SSWIMRegressor:
    """One input, two warps, two members, an output warp, input-dependent noise."""
    settings = {"output_warp": "sinh-arcsinh", "noise": "input-dependent"}
    return small(depth=2, n_members=2, **settings).fit(*rows(1))


@functools.cache
def plain() -> SSWIMRegressor:
    """The same without output warp, under constant noise."""
    return small(depth=2, n_members=2).fit(*rows(1))


@functools.cache
def two() -> SSWIMRegressor:
    """Two inputs."""
    return small(noise="input-dependent").fit(*rows(2))


@functools.cache
def two_targets() -> SSWIMRegressor:
    """One input, two targets, and an output warp."""
    X, y = rows(1)
    return small(output_warp="tanh").fit(X, np.column_stack([y, -y]))


def means(model: SSWIMRegressor, X: Any) -> Array:
    mean = model.predict(X)
    assert isinstance(mean, np.ndarray)
    return mean


def new_axes() -> Axes:
    """Axes of a figure that pyplot knows nothing of."""
    return Figure().subplots()


def labels(ax: Axes) -> list[str]:
    legend = ax.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


@pytest.fixture(autouse=True)
def matplotlib_left_alone() -> Iterator[None]:
    """No figure may change a global setting, or stay with pyplot unless it was asked for."""
    settings, figures = dict(mpl.rcParams), plt.get_fignums()
    yield
    assert dict(mpl.rcParams) == settings
    assert plt.get_fignums() == figures
