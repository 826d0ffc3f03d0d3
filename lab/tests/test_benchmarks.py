"""Tests of the benchmark scripts: their output and result files, never the speed itself."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import conformal
import conformal_methods
import effects
import fit_seconds
import monitor
import numpy as np
import prediction
import pytest
import relevance
import speed
import step
import torch
from peers import Case, counted_seconds, synthetic
from scaling import slope
from scripting import read_rows
from timing import Rounds, compare

from sswim import WarpedGPRegressor

CPU = torch.device("cpu")
TINY = Case(rows=200, depth=1, features=32, pseudo=8)
ONCE = Rounds(max_rounds=1)


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
    rounds = Rounds(20, min_rounds=5, min_seconds=1.0, min_slow_rounds=2, max_seconds=30.0)
    pairs = ((4, 2.0), (5, 0.5), (5, 1.0), (20, 0.1), (1, 40.0), (2, 30.0))
    enough = [rounds.is_enough(n, seconds) for n, seconds in pairs]
    assert enough == [False, False, True, True, False, True]


def test_peaks_are_measured_and_workloads_without_memory_left_out() -> None:
    def allocate() -> None:
        torch.ones(4_000_000, dtype=torch.float64)

    def too_large() -> None:
        raise torch.OutOfMemoryError("Tried to allocate 200.00 GiB.\nMore words.")

    comparison = compare({"large": too_large, "small": allocate}, CPU, ONCE)
    assert comparison.left_out["large"].endswith("Tried to allocate 200.00 GiB.")
    [timing] = comparison.timings.values()
    assert timing.seconds > 0
    if timing.peak_bytes is not None:  # it is only known on Linux
        assert timing.peak_bytes == pytest.approx(32e6, rel=0.2)


def test_first_steps_do_not_count() -> None:
    ends = np.cumsum([0.0, *range(1, 16)]).tolist()
    assert counted_seconds(ends) == list(range(6, 16))
    assert counted_seconds([0.0, 5.0]) == [5.0]
    assert counted_seconds([0.0, 9.0, 10.0]) == [1.0]
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


def test_cases_of_the_file_are_not_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "results" / "speed.csv"
    many, few = Case(500, 1), Case(100, 1)
    seen: list[Case] = []

    def run(case: Case) -> dict[str, Any]:
        seen.append(case)
        if case == many and seen.count(many) == 1:
            raise subprocess.CalledProcessError(1, "step")
        numbers = {f"{name}_s": 0.5 for name in step.NAMES}
        peaks = {f"{name}_peak_bytes": 2**20 for name in step.NAMES}
        machine = dict.fromkeys(("device", "device_name", "threads", "versions"), "")
        left_out = {"exact_gp": "only up to 2000 rows"}
        return {**machine, **asdict(case), **numbers, **peaks, "left_out": left_out}

    assert speed.run([many, few], path, run) == [many]
    assert speed.run([many, few], path, run) == []
    assert speed.run([many, few], path, run) == []
    assert seen == [few, many, many]
    [first, _] = read_rows(path)
    assert list(first) == ["date", *speed.COLUMNS]
    assert (first["rows"], first["sswim_s"]) == ("100", "0.5")
    assert json.loads(first["left_out"]) == {"exact_gp": "only up to 2000 rows"}


def test_products_have_the_shapes_of_all_members() -> None:
    data = synthetic(40, 3)
    settings: dict[str, Any] = {"n_components": 16, "n_pseudo": 4, "max_iter": 1, "random_state": 0}
    regressor = WarpedGPRegressor(depth=1, n_members=2, device="cpu", **settings)
    regressor.fit(data.x.numpy(), data.y.numpy())
    shapes = prediction.product_shapes(regressor, variance=True)
    assert shapes == 2 * [(16, 4), (16, 4), (16, 16)]
    assert prediction.product_shapes(regressor, variance=False)[-1] == (16, 1)


@pytest.mark.parametrize("correlated", [False, True])
def test_ten_inputs_matter_in_tables_and_are_ranked(correlated: bool) -> None:
    for function in relevance.FUNCTIONS:
        table = relevance.make_table(relevance.Case(function, correlated, 300, 0))
        assert table.train_x.shape == (300, 30)
        assert table.relevant.sum() == relevance.N_RELEVANT
        np.testing.assert_array_equal(table.shares > 0, table.relevant)
        np.testing.assert_allclose(table.shares.sum(), 1)
        between = np.corrcoef(table.train_x.T)
        assert (np.abs(np.diagonal(between, 1)).mean() > 0.5) == correlated
    best = relevance.score(table.shares, table)
    np.testing.assert_allclose(list(best.values()), [0, 1, 0, 0], atol=1e-12)
    worst = relevance.score(np.where(table.relevant, 0.0, 1.0), table)
    np.testing.assert_allclose([worst[key] for key in ("error", "irrelevant", "distance")], 1.0)


def test_averages_of_a_function_are_along_its_inputs() -> None:
    rows = np.random.default_rng(0).uniform(size=(20, effects.N_INPUTS))
    averages = effects.averages(lambda x: 2 * x[:, 3] + x[:, 4], rows, 3)
    np.testing.assert_allclose(averages, 2 * effects.GRID + rows[:, 4].mean())


@pytest.mark.parametrize("case", [monitor.NONE, *monitor.CASES, *monitor.SHIFTS])
def test_the_first_half_of_a_stream_never_drifts(case: str) -> None:
    source = monitor.synthetic_source()
    plain, drifting = (
        monitor.draw_stream(source, name, 0.2, np.random.default_rng(0))
        for name in (monitor.NONE, case)
    )
    for before, after in zip(plain, drifting, strict=True):
        np.testing.assert_array_equal(before[: monitor.CHANGE], after[: monitor.CHANGE])
    same = np.array_equal(plain[1][monitor.CHANGE :], drifting[1][monitor.CHANGE :])
    assert same == (case == monitor.NONE)


def test_shifted_rows_of_a_table_are_other_rows_of_it() -> None:
    x = np.random.default_rng(0).normal(size=(20_000, 1))
    source = monitor.real_source(x, x[:, 0])
    random = np.random.default_rng(1)
    for shift in (0.0, 0.5, 1.0):
        drawn, y = source.draw(random, 400, shift)
        assert abs(abs(drawn.mean()) - shift) < 0.2  # the sign of a component is arbitrary
        assert len(np.unique(y)) == 400


def test_scores_of_intervals_are_shares_inside_and_widths_in_units() -> None:
    y = np.array([0.0, 1.0, 2.0, 3.0])
    groups = np.array([0, 0, 1, 1])
    rows = conformal_methods.Rows(y[:, None], y, y[:, None], y, 2.0, None, groups, groups)
    half = np.array([0.5, 1.5, 2.5, 3.5])[:, None] * np.ones(4)
    scores = conformal.score(rows, (-half, half))
    assert scores["coverage"] == {"0.5": 0.25, "0.8": 0.5, "0.9": 0.75, "0.95": 1.0}
    assert scores["width"] == {"0.5": 0.5, "0.8": 1.5, "0.9": 2.5, "0.95": 3.5}
    assert [share["0.8"] for share in scores["group_coverage"]] == [1.0, 0.0]
    line = {"coverage": {"0.9": 0.9}, "n_test": 50, "n_distinct": 75}
    assert conformal.binomial_error(line, 1) == pytest.approx(np.sqrt(0.09 / 50))
    assert conformal.binomial_error(line, 20) == pytest.approx(np.sqrt(0.09 / 75))  # counted once
    unknown = line | {"n_distinct": None}
    assert conformal.binomial_error(unknown, 20) == pytest.approx(np.sqrt(0.09 / 1000))


def test_stages_of_a_fit_and_of_a_prediction_are_timed_and_shown() -> None:
    line = {"label": "this", **fit_seconds.fit_once("30x2", 0)}
    assert line["shape"] == (30, 2)
    assert {"draw", "weights", "noise", "train features-1", "leave out, neighbours"} < {
        *line["stages"]
    }
    assert sum(line["stages"].values()) > 0
    assert line["stages"]["draw"] + line["stages"]["train and compete, wall"] < line["seconds"]
    first, second = fit_seconds.show([line, line]).split("\n\n")
    assert first.splitlines()[-1].startswith("| 30x2 | this |")
    assert "train neighbours-1" in second
