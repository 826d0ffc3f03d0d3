"""Small fitted models for tests of figures, and checks of what figures draw and write."""

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

from sswim.estimator import BaseRegressor, make_estimator

Array = np.ndarray[Any, np.dtype[np.float64]]


def small_regressor(**settings: Any) -> BaseRegressor:
    common: dict[str, Any] = {"depth": 1, "n_components": 32, "n_pseudo": 8, "max_iter": 5}
    common["random_state"] = 0
    return make_estimator(**common | settings)


def draw_rows(n_inputs: int, n: int = 60) -> tuple[Array, Array]:
    random = np.random.default_rng(n_inputs)
    X = random.uniform(-2, 2, (n, n_inputs))
    return X, np.sin(3 * X).sum(1) + 0.1 * random.normal(size=n)


@functools.cache
def one_input_model() -> BaseRegressor:
    """One input, two warps, two members, an output warp, input-dependent noise."""
    settings = {"output_warp": "sinh-arcsinh", "noise": "input-dependent"}
    return small_regressor(depth=2, n_members=2, **settings).fit(*draw_rows(1))


@functools.cache
def plain_model() -> BaseRegressor:
    """One input, two warps, two members, no output warp, constant noise."""
    return small_regressor(depth=2, n_members=2).fit(*draw_rows(1))


@functools.cache
def two_input_model() -> BaseRegressor:
    """Two inputs, one warp, input-dependent noise."""
    return small_regressor(noise="input-dependent").fit(*draw_rows(2))


@functools.cache
def two_target_model() -> BaseRegressor:
    """One input, two targets, and an output warp."""
    X, y = draw_rows(1)
    return small_regressor(output_warp="tanh").fit(X, np.column_stack([y, -y]))


def new_axes() -> Axes:
    """Axes of a new figure that pyplot does not manage."""
    return Figure().subplots()


def legend_labels(ax: Axes) -> list[str]:
    legend = ax.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


def score_panels(figure: Figure, n_sets: int) -> list[list[Axes]]:
    """Return the panels of errors and those of densities."""
    return [figure.axes[:n_sets], figure.axes[n_sets:]]


@pytest.fixture(autouse=True)
def matplotlib_left_alone() -> Iterator[None]:
    """Check that a test changes no global setting and leaves no figure open in pyplot."""
    settings, figures = dict(mpl.rcParams), plt.get_fignums()
    yield
    assert dict(mpl.rcParams) == settings
    assert plt.get_fignums() == figures
