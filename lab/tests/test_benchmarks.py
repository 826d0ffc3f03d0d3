"""Tests of the benchmark scripts: their output and result files, never the speed itself."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import peers
import prediction
import pytest
import race
import speed
import step
import torch
from peers import Case, counted_seconds, synthetic
from scaling import slope
from scripting import read_rows
from speed import table
from sswim_lab.datasets import Split
from timing import Comparison, Rounds, Timing, compare

from sswim import WarpedGPRegressor

CPU = torch.device("cpu")
TINY = Case(rows=200, depth=1, features=32, pseudo=8)
ONCE = Rounds(max_rounds=1)


def made_up_results(case: Case) -> dict[str, Any]:
    """Return made-up results of a case."""
    seconds = {f"{name}_s": 0.5 for name in step.NAMES}
    peaks = {f"{name}_peak_bytes": 2**20 for name in step.NAMES}
    machine = {"device": "cpu", "device_name": "x86_64", "threads": 2, "versions": "sswim 0"}
    left_out = {"exact_gp": "only up to 2000 rows"}
    return {**machine, **asdict(case), **seconds, **peaks, "left_out": left_out}


def test_workloads_run_in_rounds_after_a_warm_up() -> None:
    order: list[str] = []

    def workload(name: str, seconds: list[float]) -> Callable[[], list[float]]:
        def run() -> list[float]:
            order.append(name)
            return [seconds.pop(0)]

        return run

    workloads = {"a": workload("a", [9, 9, 1, 2, 6]), "b": workload("b", [9, 9, 4, 5, 4])}
    rounds = Rounds(max_rounds=3, min_rounds=3, min_seconds=1e9)
    comparison = compare(workloads, CPU, rounds)
    assert "".join(order) == "aabb" + "ababab"
    assert comparison.left_out == {}
    a, b = comparison.timings["a"], comparison.timings["b"]
    assert (a.seconds, a.lower, a.upper, a.repeats) == (2, 1.5, 4, 3)
    assert b.seconds == 4


def test_quick_workloads_run_more_rounds_than_slow_ones() -> None:
    rounds = Rounds(20, min_rounds=5, min_seconds=1.0, min_slow_rounds=2, max_seconds=30.0)
    assert not rounds.is_enough(4, 2.0)
    assert not rounds.is_enough(5, 0.5)
    assert rounds.is_enough(5, 1.0)
    assert rounds.is_enough(20, 0.1)
    assert not rounds.is_enough(1, 40.0)
    assert rounds.is_enough(2, 30.0)


def test_the_peak_is_what_a_workload_allocates() -> None:
    def allocate() -> None:
        torch.ones(4_000_000, dtype=torch.float64)

    timing = compare({"allocate": allocate}, CPU, ONCE).timings["allocate"]
    assert timing.seconds > 0
    if timing.peak_bytes is None:
        pytest.skip("the peak memory of a process is only known on Linux")
    assert timing.peak_bytes == pytest.approx(32e6, rel=0.2)


def test_a_workload_that_does_not_fit_into_the_gpu_is_left_out() -> None:
    def too_large() -> None:
        raise torch.OutOfMemoryError("Tried to allocate 200.00 GiB.\nMore words.")

    comparison = compare({"large": too_large, "small": lambda: [1.0]}, CPU, ONCE)
    assert list(comparison.timings) == ["small"]
    assert comparison.left_out["large"].endswith("Tried to allocate 200.00 GiB.")


def test_steps_rows_and_slopes() -> None:
    ends = np.cumsum([0.0, *range(1, 16)]).tolist()
    assert counted_seconds(ends) == list(range(6, 16))  # the first steps do not count
    assert counted_seconds([0.0, 5.0]) == [5.0]
    assert counted_seconds([0.0, 9.0, 10.0]) == [1.0]
    data = synthetic(500, 2)
    for values in (data.x, data.y):
        assert values.mean(0).abs().max() < 1e-12
        assert values.std(0, correction=0).sub(1).abs().max() < 1e-12
    rows = [100, 1000, 10_000]
    assert slope(rows, [3e-6 * n**0.9 for n in rows]) == pytest.approx(0.9)


def test_the_script_prints_one_object() -> None:
    options = [f"--{name}={value}" for name, value in asdict(TINY).items()]
    command = [sys.executable, step.__file__, *options, "--device=cpu", "--repeats=1", "--json"]
    result = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert set(speed.COLUMNS) <= set(result)
    assert {name: result[name] for name in asdict(TINY)} == asdict(TINY)
    assert result["left_out"] == {}
    for name in step.NAMES:
        assert result[f"{name}_s"] > 0
        lower, upper = result["quartiles"][name]
        assert lower <= result[f"{name}_s"] <= upper
    assert result["sswim/gram"] == pytest.approx(result["sswim_s"] / result["gram_s"])
    assert result["sgpr/sswim"] == pytest.approx(result["sgpr_s"] / result["sswim_s"])


def test_members_are_trained_together_and_peers_in_turn() -> None:
    case = Case(rows=60, depth=0, features=8, pseudo=4, members=3, dtype="float32")
    result = step.measure_step(case, CPU, peers=False, rounds=ONCE)
    assert result["sswim_s"] > 0
    assert result["sgpr_s"] is result["sgpr/sswim"] is None
    assert result["left_out"]["sgpr"] == "not asked for"
    assert "sgpr_s: left out, not asked for" in step.lines(result)
    ratios = step.ratios({**result, "sswim_s": 2.0, "gram_s": 0.5, "sgpr_s": 4.0})
    assert (ratios["sswim/gram"], ratios["sgpr/sswim"]) == (4.0, 6.0)


def test_peers_that_cannot_run_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gpytorch_peers", None)
    monkeypatch.setattr(peers, "EXACT_GP_MAX_ROWS", 100)
    reasons = dict(peers.workloads(TINY, CPU, peers=True))
    assert "pip install 'sswim-lab[peers]'" in str(reasons["sgpr"])
    assert "pip install 'sswim-lab[peers]'" in str(reasons["svgp_epoch"])
    assert reasons["exact_gp"] == "only up to 100 rows"
    monkeypatch.setattr(peers, "available_bytes", lambda: 2**10)
    assert "GiB of memory" in str(dict(peers.workloads(TINY, CPU, peers=True))["sgpr"])


def test_cases_of_the_file_are_not_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "results" / "speed.csv"
    many, few = Case(500, 1), Case(100, 1)
    seen: list[Case] = []

    def run(case: Case) -> dict[str, Any]:
        seen.append(case)
        if case == many and seen.count(many) == 1:
            raise subprocess.CalledProcessError(1, "step")
        return made_up_results(case)

    assert speed.run([many, few], path, run) == [many]
    assert speed.run([many, few], path, run) == []
    assert speed.run([many, few], path, run) == []
    assert seen == [few, many, many]
    [first, _] = read_rows(path)
    assert list(first) == ["date", *speed.COLUMNS]
    assert (first["rows"], first["sswim_s"]) == ("100", "0.5")
    assert json.loads(first["left_out"]) == {"exact_gp": "only up to 2000 rows"}


def write_speeds(path: Path, **changes: Any) -> list[dict[str, str]]:
    rows = [made_up_results(Case(1000, 1)), made_up_results(Case(10_000, 1, members=8))]
    rows[1] |= {"sgpr_s": 2.0, "exact_gp_s": None, "sgpr_peak_bytes": None}
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, speed.COLUMNS)
        writer.writeheader()
        writer.writerows([{**row, **changes} for row in rows])
    return read_rows(path)


def test_the_table_has_ratios_and_milliseconds_of_a_gpu(tmp_path: Path) -> None:
    header, _, first, second, *_, caption = table(write_speeds(tmp_path / "cpu.csv")).split("\n")
    assert "ms" not in header
    assert first == "| 1,000 | 1 | joint | 1 | float64 | 1 | 1 | 1 | 1 | 1 | 1 |"
    assert second == "| 10,000 | 1 | joint | 8 | float64 | 1 | 32 | 8 | – | 1 | – |"
    assert caption == "x86_64, 2 threads; sswim 0."
    gpu = write_speeds(tmp_path / "cuda.csv", device="cuda", device_name="GPU")
    header, _, first, *_ = table(gpu).split("\n")
    assert "sswim, ms" in header
    assert first.startswith("| 1,000 | 1 | joint | 1 | float64 | 500 | 500 | 500 | 1 |")


def test_products_have_the_shapes_of_all_members(monkeypatch: pytest.MonkeyPatch) -> None:
    data = synthetic(40, 3)
    settings: dict[str, Any] = {"n_components": 16, "n_pseudo": 4, "max_iter": 1, "random_state": 0}
    regressor = WarpedGPRegressor(depth=1, n_members=2, device="cpu", **settings)
    regressor.fit(data.x.numpy(), data.y.numpy())
    shapes = prediction.product_shapes(regressor, variance=True)
    assert shapes == 2 * [(16, 4), (16, 4), (16, 16)]
    assert prediction.product_shapes(regressor, variance=False)[-1] == (16, 1)
    joint = WarpedGPRegressor(depth=1, warps="joint", device="cpu", **settings)
    joint.fit(data.x.numpy(), data.y.numpy())
    multiplied = []
    monkeypatch.setattr(torch, "mm", lambda a, b: multiplied.append((*a.shape, b.shape[1])))
    prediction.products(joint, 5000, CPU, dtype=torch.float32, variance=True)()
    assert multiplied == [(n, *shape) for n in (4096, 904) for shape in ((16, 4), (16, 16))]


def test_ratios_of_predictions() -> None:
    seconds = {"one warp, std": 2.0, "one warp, products of std": 1.0, prediction.SVGP_NAME: 6.0}
    timings = {name: Timing(value, value, value, 1, None) for name, value in seconds.items()}
    assert prediction.ratios(Comparison(timings, {})) == {
        "one warp, std / products": 2.0,
        "SVGP-512, std / one warp, std": 3.0,
    }


def test_a_race_compares_with_the_first_time_at_the_last_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = {"depth": 0, "n_components": 16, "max_iter": 2}
    monkeypatch.setattr(race, "METHODS", {"small": settings})
    data = synthetic(90, 2)
    x, y = data.x.numpy(), data.y.numpy()
    rows = Split(x[:60], y[:60], x[60:], y[60:])
    svgp = [race.Lap("svgp", epoch, 10.0 * epoch, rmse) for epoch, rmse in ((1, 4), (2, 5), (3, 5))]
    lap = race.sswim_lap("small", rows, 0, CPU, svgp)
    assert (lap.target_rmse, lap.reached, lap.svgp_seconds) == (5, True, 10.0)
    assert lap.ratio == pytest.approx(10.0 / lap.seconds)
    assert json.loads(lap.settings) == settings
    assert "5.0000 reached" in race.describe(lap)
