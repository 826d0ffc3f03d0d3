"""Fits by several processes end where one process ends, up to rounding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from process_helpers import run_processes

from sswim import SSWIMRegressor
from sswim import survey as surveying
from sswim.data import Chunk, IterableSource, Share, Source
from sswim.data.array_source import as_chunk
from sswim.data.source import WHOLE
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
        f"{number}.{name}": tensor.cpu().numpy()
        for number, model in enumerate(regressor._models)
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
    regressor = SSWIMRegressor(**{**SETTINGS, **settings})
    return result(regressor.fit(*table(), processes=processes))


class UnevenShards(Source):
    """Of several processes the last has no rows, the others more the later they come."""

    def chunks(self, share: Share = WHOLE) -> Iterator[Chunk]:
        x, y = table()
        begin, end, size = 0, N_ROWS, 97
        if share.size > 1:
            ends = [round(N_ROWS * (k / (share.size - 1)) ** 2) for k in range(share.size)]
            begin, end = [*ends, N_ROWS][share.rank : share.rank + 2]
            size = 61
        for first in range(begin, end, size):
            yield as_chunk(
                first, x[first : min(first + size, end)], y[first : min(first + size, end)]
            )


def fit_shards(processes: Processes, settings: dict[str, Any], most: int, memory: int) -> Arrays:
    """Shards that are streamed or held, of which a sample of most rows is in memory."""
    surveying.SAMPLE_ROWS = most
    regressor = SSWIMRegressor(**{**SETTINGS, **settings})
    return result(regressor.fit(UnevenShards(), memory=memory, processes=processes))


ENSEMBLE = {"n_features": 16, "n_members": 2, "max_iter": 5, "dtype": "float64"}
NOISY = {"noise": "input-dependent", "max_iter": 5}
ARRAYS: dict[str, dict[str, Any]] = {
    "one model": {"depth": 1},
    "leave-one-out": {"depth": 1, "objective": "leave-one-out"},
    "noise and output warp": {"depth": 1, **NOISY, "output_warp": "sinh-arcsinh"},
    "members": {"depth": 1, "n_members": 3, "max_iter": 5},
    "ensemble": ENSEMBLE,
}
"""Rows are dealt to processes, of several members these."""
SHARDS: dict[str, tuple[dict[str, Any], int]] = {
    "one model, streamed": ({"depth": 1}, 0),
    "one model, held": ({"depth": 1}, 2**30),
    "noise, streamed": ({"depth": 1, **NOISY}, 0),
    "ensemble, streamed": (ENSEMBLE, 0),
}
SAMPLE_ROWS = 400


def bring(processes: Processes) -> Arrays:
    """Each process has rows of its own; all but the first have none."""
    x, y = table()
    mine = [(x[:500], y[:500]), (x[500:], y[500:])] if processes.first else [(x[:0], y[:0])]
    source = IterableSource(mine, dealt=True)
    regressor = SSWIMRegressor(depth=1, **SETTINGS)
    return result(regressor.fit(source, processes=processes))


def fit_all(processes: Processes) -> dict[str, Arrays]:
    """In one start of processes, which takes longer than the fits."""
    found = {name: fit_arrays(processes, settings) for name, settings in ARRAYS.items()}
    found["brought"] = bring(processes)
    for name, (settings, memory) in SHARDS.items():
        found[name] = fit_shards(processes, settings, SAMPLE_ROWS, memory)
    return found


@pytest.fixture(scope="module")
def alone() -> Iterator[dict[str, Arrays]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(surveying, "SAMPLE_ROWS", surveying.SAMPLE_ROWS)  # to be put back
        yield fit_all(ALONE)


@pytest.mark.parametrize("n", [2, 4])
def test_processes_end_where_one_ends(n: int, alone: dict[str, Arrays]) -> None:
    """Rows in shares of odd sizes and uneven shards, in one of which there is nothing."""
    results = run_processes(n, fit_all)
    for found in results:
        assert isinstance(found, dict), found
        assert found.keys() == alone.keys()
        for name, expected in alone.items():
            assert_same(found[name], expected)
    for found in results[1:]:  # and all have the very same parameters
        assert_same(found["one model"], results[0]["one model"], tolerance=0.0)


def test_a_stream_gives_what_rows_in_memory_give(
    alone: dict[str, Arrays], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_same(alone["brought"], alone["one model"])
    monkeypatch.setattr(surveying, "SAMPLE_ROWS", SAMPLE_ROWS)
    for name, (settings, _) in SHARDS.items():
        assert_same(alone[name], fit_arrays(ALONE, settings))
