"""Fits by several processes end where one process ends, up to rounding."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from builders.distributed_fits import (
    SAMPLE_ROWS,
    SETTINGS,
    Arrays,
    assert_same,
    fit_arrays,
    fit_shards,
    result,
    table,
)
from builders.models import small_rows
from builders.neighbours import neighbour_model
from builders.processes import run_processes
from builders.training import let_few_rows_compete

from sswim.distributed.processes import ALONE, Processes
from sswim.ensemble import Recipe
from sswim.estimator import make_estimator
from sswim.members.neighbour_training import MiniBatches, train_by_neighbours
from sswim.rows import IterableSource
from sswim.rows import summary as surveying
from sswim.warps import noise_field as noise_fit

ENSEMBLE = {"n_components": 16, "n_members": 2, "max_iter": 3, "dtype": "float64"}
BY_FEATURES = Recipe(kinds=("mean", "features-1", "features-2"))
NEIGHBOURS = {"depth": 1, "n_neighbors": 16, "max_iter": 8, "dtype": "float64"}
NOISY = {"noise": "input-dependent", "max_iter": 5}
ARRAYS: dict[str, dict[str, Any]] = {
    "one model": {"depth": 1},
    "leave-one-out": {"depth": 1, "objective": "leave-one-out"},
    "noise and output warp": {"depth": 1, **NOISY, "output_warp": "sinh-arcsinh"},
    "members": {"depth": 1, "n_members": 3, "max_iter": 5},
    "projection": {"depth": 1, "warp_matrix": "projected", "warp_dim": 2, "max_iter": 5},
    "full matrix": {**NEIGHBOURS, "warp_matrix": "full"},
    "ensemble": ENSEMBLE,
    "neighbours": NEIGHBOURS,
    "neighbours, members": {**NEIGHBOURS, "n_members": 3},
    "neighbours, noise": {**NEIGHBOURS, "noise": "input-dependent"},
}
"""Settings of fits of arrays. Processes share the rows; if there are several members, those."""
SHARDS: dict[str, tuple[dict[str, Any], int]] = {
    "one model, streamed": ({"depth": 1}, 0),
    "one model, held": ({"depth": 1}, 2**30),
    "noise, streamed": ({"depth": 1, **NOISY}, 0),
    "ensemble by features, streamed": ({**ENSEMBLE, "recipe": BY_FEATURES}, 0),
    "ensemble, held": (ENSEMBLE, 2**30),
    "neighbours, held": (NEIGHBOURS, 2**30),
}
"""Settings of fits of shards, and the memory for rows."""
KEPT_SAMPLE = "ensemble, a sample of the rows"


def bring(processes: Processes) -> Arrays:
    """Fit rows that only the first process has; the others have none."""
    x, y = table()
    mine = [(x[:500], y[:500]), (x[500:], y[500:])] if processes.is_first else [(x[:0], y[:0])]
    source = IterableSource(mine, dealt=True)
    regressor = make_estimator(depth=1, **SETTINGS)
    return result(regressor.fit(source, processes=processes))


def train_by_single_rows(processes: Processes) -> Arrays:
    """Take steps by fewer rows than there are processes."""
    generator = torch.Generator().manual_seed(0)
    rows = small_rows(generator, 7)
    model = neighbour_model(rows, generator, 4)
    settings = MiniBatches(steps=3, batch_rows=1)
    [training] = train_by_neighbours(model, rows, settings, processes=processes)
    return {"values": np.array([step.value for step in training.history])}


def compete(processes: Processes) -> Arrays:
    """Fit kinds of which two are dropped after their first members."""
    recipe = Recipe(kinds=("features-1", "features-2", "neighbours-1"))
    settings = {**SETTINGS, **ENSEMBLE, "n_pseudo": 4, "max_iter": 4, "random_state": 0}
    with pytest.MonkeyPatch.context() as patch:
        let_few_rows_compete(patch, 100, weight=0.3)
        regressor = make_estimator(**settings, recipe=recipe).fit(*table(), processes=processes)
    sizes = [kind.n_members for kind in regressor.kinds_]
    assert {*sizes} == {1, 2}
    return {"sizes": np.array(sizes), **result(regressor)}


def fit_all(processes: Processes) -> dict[str, Arrays]:
    """Fit all settings in one start of the processes, which takes longer than the fits."""
    noise_fit.STEPS = 3
    found = {name: fit_arrays(processes, settings) for name, settings in ARRAYS.items()}
    found["brought"] = bring(processes)
    found["competition"] = compete(processes)
    found["single rows"] = train_by_single_rows(processes)
    for name, (settings, memory) in SHARDS.items():
        found[name] = fit_shards(processes, settings, SAMPLE_ROWS, memory)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* a random sample of that size is kept")
        found[KEPT_SAMPLE] = fit_shards(processes, ENSEMBLE, SAMPLE_ROWS, 0)
    return found


@pytest.fixture(scope="module")
def alone() -> Iterator[dict[str, Arrays]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(surveying, "SAMPLE_ROWS", surveying.SAMPLE_ROWS)  # to be put back
        patch.setattr(noise_fit, "STEPS", noise_fit.STEPS)
        yield fit_all(ALONE)


@pytest.mark.parametrize("n", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_processes_end_where_one_ends(n: int, alone: dict[str, Arrays]) -> None:
    """Shares have odd sizes, and shards have different sizes; one of them is empty."""
    results = run_processes(n, fit_all)
    for found in results:
        assert isinstance(found, dict), found
        assert found.keys() == alone.keys()
        for name, expected in alone.items():
            assert_same(found[name], expected)
    for found in results[1:]:  # and all have the very same parameters
        for name in ("one model", "neighbours"):
            assert_same(found[name], results[0][name], tolerance=0.0)


def test_a_stream_gives_what_rows_in_memory_give(
    alone: dict[str, Arrays], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the memory holds only a sample of the rows that neighbours are among."""
    assert_same(alone["brought"], alone["one model"])
    monkeypatch.setattr(surveying, "SAMPLE_ROWS", SAMPLE_ROWS)
    for name, (settings, _) in SHARDS.items():
        assert_same(alone[name], fit_arrays(ALONE, settings))
