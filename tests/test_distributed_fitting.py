"""Fits by several processes end where one process ends, up to rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from process_helpers import run_processes

from sswim import SSWIMRegressor
from sswim import survey as surveying
from sswim.data import IterableSource
from sswim.processes import ALONE, Processes

Arrays = dict[str, np.ndarray]

N_ROWS = 1003
"""A prime: no chunk and no number of processes divides it."""

SETTINGS: dict[str, Any] = {
    "n_features": 32,
    "n_pseudo": 8,
    "max_iter": 20,
    "random_state": 3,
    "device": "cpu",
}


def table() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(5)
    x = random.normal(size=(N_ROWS, 3)) * [1.0, 20.0, 0.3] + [0.0, 100.0, -2.0]
    y = np.sin(2 * x[:, 0]) + 0.05 * x[:, 1] + 0.2 * random.normal(size=N_ROWS)
    return x, y


def result(regressor: SSWIMRegressor) -> Arrays:
    """All parameters, and predictions."""
    x = table()[0][:50] + 0.1
    mean, std = regressor.predict(x, return_std=True)
    lower, upper = regressor.predict_interval(x)
    predictions = {"mean": mean, "std": std, "lower": lower, "upper": upper}
    predictions["weights"] = regressor.weights_
    state = {
        f"{number}.{name}": tensor.numpy()
        for number, model in enumerate(regressor._models)
        for name, tensor in model.state_dict().items()
    }
    return predictions | state


def assert_same(ours: Arrays, theirs: Arrays, tolerance: float = 1e-8) -> None:
    assert ours.keys() == theirs.keys()
    for name, values in theirs.items():
        scale = max(np.abs(values).max(initial=0), 1e-300)
        assert np.abs(ours[name] - values).max(initial=0) <= tolerance * scale, name


def fit_arrays(processes: Processes, settings: dict[str, Any]) -> Arrays:
    regressor = SSWIMRegressor(**{**SETTINGS, **settings})
    return result(regressor.fit(*table(), processes=processes))


def uneven(rank: int, size: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of several processes the last has no rows, the others more the later they come."""
    x, y = table()
    if size == 1:
        return [(x[i : i + 97], y[i : i + 97]) for i in range(0, N_ROWS, 97)]
    ends = [0, *(round(N_ROWS * (k / (size - 1)) ** 2) for k in range(1, size)), N_ROWS]
    begin, end = ends[rank], ends[rank + 1]
    return [(x[i : i + 61], y[i : i + 61]) for i in range(begin, end, 61)]


def fit_shards(processes: Processes, settings: dict[str, Any], most: int, memory: int) -> Arrays:
    """A sample of most rows, and shards that are streamed or held."""
    surveying.SAMPLE_ROWS = most
    shards = uneven(processes.rank, processes.size)
    empty = [(np.empty((0, 3)), np.empty(0))]
    source = IterableSource(shards or empty, dealt=True)
    regressor = SSWIMRegressor(**{**SETTINGS, **settings})
    return result(regressor.fit(source, memory=memory, processes=processes))


PLAIN = {
    "one model": {"depth": 1},
    "leave-one-out": {"depth": 1, "objective": "leave-one-out"},
    "noise and output warp": {
        "depth": 1,
        "noise": "input-dependent",
        "output_warp": "sinh-arcsinh",
    },
}


@pytest.mark.parametrize("settings", PLAIN.values(), ids=PLAIN.keys())
def test_rows_dealt_to_processes(settings: dict[str, Any]) -> None:
    expected = fit_arrays(ALONE, settings)
    for n in (2, 4):
        for ours in run_processes(n, fit_arrays, settings):
            assert_same(ours, expected)
