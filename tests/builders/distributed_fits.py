"""Fits whose result must not depend on the number of processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sswim.distributed.processes import ALL_ROWS, Processes, Share
from sswim.estimator import BaseRegressor, make_estimator
from sswim.rows import Chunk, Source, as_chunk
from sswim.rows import summary as surveying

Arrays = dict[str, np.ndarray]

N_ROWS = 1003
"""A prime: no chunk and no number of processes divides it."""

SAMPLE_ROWS = 400
"""Rows of the sample in fits that stream."""

SETTINGS: dict[str, Any] = {
    "n_components": 32,
    "n_pseudo": 8,
    "max_iter": 10,
    "random_state": 3,
    "device": "cpu",
}


def table() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(5)
    x = random.normal(size=(N_ROWS, 3)) * [1.0, 20.0, 0.3] + [0.0, 100.0, -2.0]
    y = np.sin(2 * x[:, 0]) + 0.05 * x[:, 1] + 0.2 * random.normal(size=N_ROWS)
    return x, y


def result(regressor: BaseRegressor) -> Arrays:
    """All parameters, and predictions."""
    x = table()[0][:50] + 0.1
    mean, std = regressor.predict(x, return_std=True)
    lower, upper = regressor.predict_interval(x)
    predictions = {"mean": mean, "std": std, "lower": lower, "upper": upper}
    predictions["weights"] = regressor.weights_
    state = {
        f"{number}.{name}": tensor.cpu().numpy()
        for number, model in enumerate(member.model for member in regressor.members_)
        for name, tensor in model.state_dict().items()
    }
    return predictions | state


def assert_same(ours: Arrays, theirs: Arrays, tolerance: float = 1e-8) -> None:
    assert ours.keys() == theirs.keys()
    for name, values in theirs.items():
        finite = np.isfinite(values)
        assert np.array_equal(ours[name][~finite], values[~finite]), name
        scale = np.abs(values[finite]).max(initial=0)
        difference = np.abs(ours[name][finite] - values[finite]).max(initial=0)
        assert difference <= tolerance * scale, name


def fit_arrays(processes: Processes, settings: dict[str, Any]) -> Arrays:
    regressor = make_estimator(**{**SETTINGS, **settings})
    return result(regressor.fit(*table(), processes=processes))


class UnevenShards(Source):
    """Shards of growing size; the last process has no rows."""

    def chunks(self, share: Share = ALL_ROWS) -> Iterator[Chunk]:
        x, y = table()
        begin, end, size = 0, N_ROWS, 97
        if share.size > 1:
            ends = [round(N_ROWS * (k / (share.size - 1)) ** 2) for k in range(share.size)]
            begin, end = [*ends, N_ROWS][share.rank : share.rank + 2]
            size = 61
        for first in range(begin, end, size):
            numbers = np.arange(first, min(first + size, end))
            yield as_chunk(numbers, x[numbers], y[numbers])


def fit_shards(processes: Processes, settings: dict[str, Any], most: int, memory: int) -> Arrays:
    """Shards that are streamed or held, of which a sample of most rows is in memory."""
    surveying.SAMPLE_ROWS = most
    regressor = make_estimator(**{**SETTINGS, **settings})
    return result(regressor.fit(UnevenShards(), memory=memory, processes=processes))
