"""Small fitted models with rows for reports, some of them from a hostile table."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from sswim.estimator import BaseRegressor, make_estimator

SCRIPT_NAME = "<script>alert(1)</script>"
IMAGE_TEXT = "</script><img src=x onerror=alert(1)>"
HOSTILE = (
    IMAGE_TEXT,
    "<!--<script>",
    "';alert(1)//",
    "{{7*7}}",
    "\u202eevil\x00\x1b[31m",
    "&lt;b&gt;",
)


@dataclass(frozen=True)
class Case:
    """A fitted model, and rows that it was not fitted to."""

    model: BaseRegressor
    X: Any
    y: Any


def _fit(X: Any, y: Any, n_train: int, **settings: Any) -> Case:
    common = {"depth": 1, "n_components": 32, "n_pseudo": 8, "max_iter": 3, "random_state": 0}
    model = make_estimator(**{**common, **settings})
    model.fit(X[:n_train], y[:n_train])
    return Case(model, X[n_train:], y[n_train:])


@functools.cache
def one_input() -> Case:
    """One input without a name, an output warp, two members."""
    random = np.random.default_rng(0)
    X = random.uniform(-2, 2, (160, 1))
    y = np.sin(3 * X[:, 0]) + 0.1 * random.normal(size=160)
    return _fit(X, y, 60, n_members=2, output_warp="sinh-arcsinh", noise="input-dependent")


@functools.cache
def two_inputs() -> Case:
    """Two named inputs, as on a map."""
    random = np.random.default_rng(1)
    X = pd.DataFrame(random.uniform(-2, 2, (260, 2)), columns=["east", "north"])
    y = np.sin(X["east"]) * X["north"] + 0.1 * random.normal(size=260)
    return _fit(X, y.rename("height"), 60)


@functools.cache
def many_columns() -> Case:
    """Thirty columns, of which two matter."""
    random = np.random.default_rng(2)
    X = pd.DataFrame(random.normal(size=(170, 30)), columns=[f"column {n}" for n in range(30)])
    y = X["column 3"] - X["column 17"] ** 2 + 0.1 * random.normal(size=170)
    return _fit(X, y.rename("thirty"), 100)


@functools.cache
def hostile_table() -> Case:
    """Names, levels and dates that try to become HTML or scripts; some values are missing."""
    random = np.random.default_rng(3)
    n = 160
    X = pd.DataFrame(
        {
            SCRIPT_NAME: random.normal(size=n),
            IMAGE_TEXT: random.choice(HOSTILE, n),
            "day": pd.date_range("2024-01-01", periods=n, freq="D"),
            '"><b onmouseover=alert(1)>': random.choice([True, False], n),
        }
    )
    X.loc[::7, SCRIPT_NAME] = np.nan
    X.loc[::9, IMAGE_TEXT] = None
    y = X[SCRIPT_NAME].fillna(0) + 0.1 * random.normal(size=n)
    return _fit(X, y.rename("</title><script>alert(1)</script>"), 80)
