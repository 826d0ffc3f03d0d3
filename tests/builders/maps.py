"""Rows on maps, and small models of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from sswim.estimator import BaseRegressor, make_estimator

FAST: dict[str, Any] = {
    "depth": 0,
    "n_components": 16,
    "n_pseudo": 4,
    "max_iter": 2,
    "random_state": 0,
    "device": "cpu",
}
"""Settings of a model that is fitted in no time."""


def stations(n: int = 80, seed: int = 0) -> pd.DataFrame:
    """Return places of a plane with a target."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": random.uniform(0, 10, n), "y": random.uniform(40, 45, n)})
    frame["height"] = np.sin(frame["x"]) + 0.1 * frame["y"] + 0.05 * random.normal(size=n)
    return frame


def plane_model(**changes: Any) -> BaseRegressor:
    """Return a model of the stations."""
    frame = stations()
    return make_estimator(**(FAST | changes)).fit(frame[["x", "y"]], frame["height"])


def sphere_rows(n: int = 120, seed: int = 0) -> pd.DataFrame:
    """Return places around the date line, with a target that is smooth across it."""
    random = np.random.default_rng(seed)
    lon, lat = random.uniform(160, 200, n), random.uniform(-20, 20, n)
    frame = pd.DataFrame({"lon": np.mod(lon + 180, 360) - 180, "lat": lat})
    frame["height"] = np.sin(np.radians(6 * lon)) + 0.02 * lat + 0.05 * random.normal(size=n)
    return frame


def sphere_model(**changes: Any) -> BaseRegressor:
    """Return a model of these rows on the sphere."""
    frame = sphere_rows()
    model = make_estimator(coordinates=("lon", "lat"), **(FAST | changes))
    return model.fit(frame[["lon", "lat"]], frame["height"])
