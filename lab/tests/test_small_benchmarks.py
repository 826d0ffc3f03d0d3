"""The scripts about maps, effects, monitoring and intervals: rows, tables and pictures."""

from __future__ import annotations

import argparse
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import conformal_methods
import effects
import geotiff_picture
import map_blocks
import monitor
import numpy as np
import pytest
import relevance
import rioxarray
import xarray
from builders.maps import sphere_model
from conformal import binomial_error, score, summarise, tables, wanted
from conformal_methods import FITS, GROUPS, METHODS, SYNTHETIC, make_rows
from relevance import FUNCTIONS, N_RELEVANT, Case, make_table

from sswim.estimator.evaluation import Scores
from sswim.maps import predict_grid, write_grid


def test_the_table_of_blocks_has_all_sorts_of_rows() -> None:
    scores = asdict(Scores(1.0, -2.0, 0.9, 0.9, 100))
    lines = [
        {"data": name, "rows": 2000, "spacing": spacing, "blocks": scores, "random": scores}
        | {"other_rows": scores}
        for name, spacings in map_blocks.SPACINGS.items()
        for spacing in spacings
    ]
    table = map_blocks.table(lines).split("\n")
    assert len(table) == 2 + 3 + 4
    assert "| date line, 2,000 rows | blocks of 10° | 1 | −2.00 | 0.900 |" in table


def test_a_geotiff_is_drawn(tmp_path: Path) -> None:
    grid = predict_grid(sphere_model(), (170, -170, -10, 10), 2)
    write_grid(grid, tmp_path / "map.tif")
    bands = rioxarray.open_rasterio(tmp_path / "map.tif")
    assert isinstance(bands, xarray.DataArray)
    first = geotiff_picture.draw(bands, "m").axes[0]
    assert first.get_title(loc="left") == "mean, EPSG:4326"
    bands.close()


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("correlated", [False, True])
def test_ten_inputs_matter(function: str, correlated: bool) -> None:
    table = make_table(Case(function, correlated, 300, 0))
    assert table.train_x.shape == (300, 30)
    assert (table.shares > 0).sum() == table.relevant.sum() == N_RELEVANT
    np.testing.assert_array_equal(table.shares > 0, table.relevant)
    np.testing.assert_allclose(table.shares.sum(), 1)
    between = np.corrcoef(table.train_x.T)
    assert (np.abs(np.diagonal(between, 1)).mean() > 0.5) == correlated


def test_scores_of_rankings() -> None:
    table = make_table(Case("additive", False, 300, 0))
    best = relevance.score(table.shares, table)
    np.testing.assert_allclose(list(best.values()), [0, 1, 0, 0], atol=1e-12)
    worst = relevance.score(np.where(table.relevant, 0.0, 1.0), table)
    np.testing.assert_allclose([worst[key] for key in ("error", "irrelevant", "distance")], 1.0)


def test_relevance_is_printed_and_drawn(tmp_path: Path) -> None:
    table = make_table(Case("additive", False, 300, 0))
    ways = [*relevance.WAYS, "permutation, LightGBM"]
    values = {way: relevance._found(table.shares, table, 1.0) for way in ways}
    line = {"function": "additive", "n_rows": 500, "rmse": 0.5, "tree_rmse": 0.6, "ways": values}
    lines = [line | {"relevant": np.flatnonzero(table.relevant).tolist()}]
    printed = relevance.table_of(lines)
    assert "| relevance | 0.000 | – | – | 0.000 | 1.000 | 0.0% | 0.00 | 1.0 |" in printed
    assert "1 tables of 500 rows" in printed
    relevance.draw(lines, tmp_path / "ways.png")
    assert (tmp_path / "ways.png").stat().st_size > 1000


def test_effects_are_averaged_printed_and_drawn(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).uniform(size=(20, effects.N_INPUTS))
    found = effects.averages(lambda x: 2 * x[:, 3] + x[:, 4], rows, 3)
    np.testing.assert_allclose(found, 2 * effects.GRID + rows[:, 4].mean())
    truth = effects.GRID.tolist()
    curve = {"truth": truth, "mean": truth, "lower": truth, "trees": [each + 0.9 for each in truth]}
    inputs = [curve | {"upper": truth, "deviation": truth}] * effects.N_INPUTS
    line = {"rows": 300, "seed": 0, "seconds": 20.0, "inputs": inputs}
    printed = "| 300 | 1 | 0.0% | 100.0% | 0.0% | 100.0% | 100% | 100% | 2.0 |"
    assert printed in effects.table_of([line])
    effects.draw([line], tmp_path / "effects.png")
    assert (tmp_path / "effects.png").stat().st_size > 1000


def line(case: str, alarm: int | None, highest: float = 0.0) -> dict[str, Any]:
    return {"table": "made up", "case": case, "alarm": alarm, "false_log_evidence": highest}


@pytest.mark.parametrize("case", [monitor.NONE, *monitor.CASES, *monitor.SHIFTS])
def test_the_first_half_of_a_stream_never_drifts(case: str) -> None:
    source = monitor.synthetic_source()
    plain, drifting = (
        monitor.draw_stream(source, each, 0.2, np.random.default_rng(0))
        for each in (monitor.NONE, case)
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
        np.testing.assert_array_equal(drawn[:, 0], y)


def test_delays_count_from_the_change() -> None:
    case = next(iter(monitor.CASES))
    found = [line(case, row) for row in (999, 1004, 1009, 1019, None)]
    found += [line(monitor.NONE, None, math.log(level)) for level in (2, 20, 200)]
    printed = monitor.table(found)
    assert f"| {case} | 10 / never |" in printed  # the alarm at row 999 was a false one
    assert "| none: alarms at 1% | 1 of 3 |" in printed
    assert "| none: alarms at 10% | 2 of 3 |" in printed


def made_up_line(name: str, repeat: int, method: str, coverage: float) -> dict[str, Any]:
    """Return a made-up line of results, with the same coverage and width at all levels."""
    by_level = dict.fromkeys(("0.5", "0.8", "0.9", "0.95"), coverage)
    width = dict.fromkeys(by_level, 2.0)
    return {
        **{"set": name, "n_train": 100, "repeat": repeat, "method": method},
        **{"coverage": by_level, "width": width, "n_test": 50, "n_distinct": 75},
        **{"group_coverage": [by_level] * 3, "group_width": [width] * 3},
        **{"fit_seconds": 1.0, "predict_seconds": 0.1},
    }


def test_scores_are_shares_inside_and_widths_in_units() -> None:
    y = np.array([0.0, 1.0, 2.0, 3.0])
    groups = np.array([0, 0, 1, 1])
    rows = conformal_methods.Rows(y[:, None], y, y[:, None], y, 2.0, None, groups, groups)
    half = np.array([0.5, 1.5, 2.5, 3.5])[:, None] * np.ones(4)
    found = score(rows, (-half, half))
    assert found["coverage"] == {"0.5": 0.25, "0.8": 0.5, "0.9": 0.75, "0.95": 1.0}
    assert found["width"] == {"0.5": 0.5, "0.8": 1.5, "0.9": 2.5, "0.95": 3.5}
    assert [each["0.8"] for each in found["group_coverage"]] == [1.0, 0.0]


@pytest.mark.parametrize("name", [*SYNTHETIC, GROUPS])
def test_synthetic_rows_differ_between_repeats_alone(name: str) -> None:
    first, again, other = (
        make_rows(conformal_methods.Case(name, 20, repeat), 10) for repeat in (0, 0, 1)
    )
    assert len(first.train_y) == 20
    np.testing.assert_array_equal(first.test_y, again.test_y)
    assert not np.array_equal(first.test_y, other.test_y)


def test_jobs_are_within_the_given_limits() -> None:
    given = argparse.Namespace(
        data=["mcycle", *SYNTHETIC, GROUPS], fits=list(FITS), max_repeats=3, max_train=300
    )
    jobs = list(wanted(given))
    assert len(jobs) == len(set(jobs))
    assert max(job.case.n_train for job in jobs) == 300
    assert {job.case.repeat for job in jobs} == {0, 1, 2}
    assert {job.fit for job in jobs if job.case.set == GROUPS} == {"wrong", "calibrated"}
    assert all(job.seconds > 0 for job in jobs)


def test_test_rows_that_splits_share_count_once() -> None:
    line = made_up_line("mcycle", 0, "default", 0.9)
    assert binomial_error(line, 1) == pytest.approx(np.sqrt(0.09 / 50))
    assert binomial_error(line, 20) == pytest.approx(np.sqrt(0.09 / 75))
    assert binomial_error(line | {"n_distinct": None}, 20) == pytest.approx(np.sqrt(0.09 / 1000))


def test_tables_average_over_repeats_and_count_a_repeated_line_once() -> None:
    methods = [method for names in METHODS.values() for method in names]
    lines = [
        made_up_line(name, repeat, method, 0.8 + 0.1 * repeat)
        for name in ("mcycle", "t(2) noise", GROUPS)
        for method in methods
        for repeat in (0, 1)
    ]
    found = list(tables([*lines, lines[0], lines[0]]))
    [mcycle] = [line for line in found if line.startswith("| mcycle")]
    assert mcycle == f"| mcycle | 100 | 2 | {'85.0 (2) | ' * len(methods)}± 3.5 |"
    [synthetic] = [line for line in found if line.startswith("| t(2) noise")]
    assert synthetic.count("85.0 ± 5.0 (2)") == len(methods)
    assert sum(line.startswith("**") for line in found) == 5
    assert list(tables(summarise(lines))) == found
    many = [line | {"n_test": 1000} for line in lines]
    assert "| default: its own | 1.0 | 0.10 |" in list(tables(many))
