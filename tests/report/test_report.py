"""The content of reports: rows of any form, their columns and numbers, and errors."""

from __future__ import annotations

import datetime
import functools
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from builders.maps import sphere_rows
from builders.reports import Case, hostile_table, many_columns, one_input, two_inputs

from sswim.base.validation import UserError
from sswim.estimator import make_estimator
from sswim.estimator.evaluation import score_intervals, score_rows
from sswim.report import ReportRows, report_page, report_rows, write_report
from sswim.report.content import count, number, percent
from sswim.report.scores import group_means

FAST: dict[str, Any] = {"n_components": 16, "n_pseudo": 4, "max_iter": 2, "random_state": 0}


def rows_of(case: Case, max_rows: int = 5000, random_state: int = 0) -> ReportRows:
    return report_rows(case.model, case.X, case.y, max_rows=max_rows, random_state=random_state)


def page_of(case: Case, **settings: Any) -> str:
    """Return the report of a case."""
    return report_page(case.model, rows_of(case), **settings)


@functools.cache
def page(case: Callable[[], Case]) -> str:
    """Return the report of a case with some facts; each is made once."""
    return page_of(case(), facts={"table": "test.parquet", "<img>": "</script>"})


def shared(html: str) -> dict[str, list[float]]:
    """Return the arrays that the charts of a report share."""
    [text] = re.findall(r'class="shared">(.*?)</script>', html)
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


def charts(html: str) -> dict[str, Any]:
    """Return the charts of a report by their titles."""
    found = re.findall(r'<script type="application/json">(.*?)</script>', html)
    return {chart["title"]: chart for chart in map(json.loads, found)}


PARTS = (
    *("Scores", "Predictions", "What matters", "Calibration", "Residuals", "Surprising rows"),
    *("Warps and noise", "Inside the model", "About this report"),
)


def test_a_report_has_all_parts_and_the_scores_of_the_rows() -> None:
    case, html = many_columns(), page(many_columns)
    assert [part for part in PARTS if f"<h2>{part}</h2>" not in html] == []
    scores = score_intervals(score_rows(case.model, case.X, case.y.to_numpy()))
    assert f'<div class="value">{number(scores.rmse.value)}</div>' in html
    assert f'<div class="value">{percent(scores.coverage[0.9].value)}</div>' in html
    assert "test.parquet" in html
    assert len(html) < 1_000_000
    # Columns that matter come first.
    bars = re.findall(r'class="name" title="(.*?)"', html.split('id="effects"')[1])
    options = re.findall(r"<option>(.*?)</option>", html.split('id="residuals"')[1])
    assert "column 3" in options[:2]
    assert options[:12] == bars[:12]
    assert len(re.findall('<div class="option">', html.split('id="warps"')[0])) == 30


def test_charts_draw_the_rows_and_the_function() -> None:
    case, html = one_input(), page(one_input)
    arrays = shared(html)
    assert arrays["target"] == pytest.approx(case.y, abs=1e-3)
    assert arrays["c0"] == pytest.approx(case.X[:, 0], abs=1e-3)
    assert arrays["residual"] == pytest.approx(case.y - case.model.predict(case.X), abs=1e-3)
    assert arrays["noise"] == pytest.approx(case.model.predict_noise(case.X), abs=1e-3)
    curve = charts(html)["Predicted function"]["layers"]
    x = np.array(curve[2]["x"])
    median = case.model.predict_quantiles(x[:, None], [0.5])[:, 0]
    assert curve[2]["y"] == pytest.approx(median, abs=1e-2)
    warp = charts(html)["Warp of x0"]["layers"]
    assert warp[1]["y"] == pytest.approx(
        case.model.warp(np.array(warp[1]["x"])[:, None])[-1][0][:, 0], abs=1e-2
    )
    members = charts(html)["Training"]["layers"]
    assert len(members) == len(case.model.history_) == 2
    assert members[0]["y"] == pytest.approx(case.model.history_[0], abs=1e-2)
    assert "Output map" in charts(html)


def test_two_columns_are_a_map() -> None:
    case = two_inputs()
    heat = charts(page(two_inputs))["Predicted mean"]["layers"][0]
    (west, east), (south, north) = heat["x"], heat["y"]
    assert (west, east) == (case.X["east"].min(), case.X["east"].max())
    x = west + 3.5 * (east - west) / heat["columns"]
    y = south + 5.5 * (north - south) / heat["rows"]
    predicted = case.model.predict(pd.DataFrame({"east": [x], "north": [y]}))
    assert heat["values"][5 * heat["columns"] + 3] == pytest.approx(predicted[0], abs=1e-2)


def test_the_rows_that_surprise_most_are_a_table() -> None:
    case = two_inputs()
    X, y = case.X.copy(), case.y.to_numpy().copy()
    y[7] += 100
    html = page_of(Case(case.model, X, y))
    table = html.split('id="surprises"')[1].split("<tbody>")[1]
    first = re.findall(r"<td[^>]*>(.*?)</td>", table.split("</tr>")[0])
    assert first[0] == "7"
    assert first[2] == number(y[7], 4)
    assert {f"{X.iloc[7]['east']:.6g}", f"{X.iloc[7]['north']:.6g}"} <= set(first)
    assert 7 in shared(html)["row"]


def test_frames_arrays_and_paths_give_the_same_report(tmp_path: Path) -> None:
    case = two_inputs()
    frame = case.X.assign(height=case.y)
    table, out = tmp_path / "t.parquet", tmp_path / "r.html"
    frame.to_parquet(table)
    pages = []
    for X, y in (
        (case.X, case.y),
        (frame, "height"),
        (pl.DataFrame(frame), "height"),
        (case.X.to_numpy(), case.y.to_numpy()),
        (str(table), "height"),
    ):
        write_report(case.model, X, y, out)
        pages.append(out.read_text("utf-8").replace("height", "target"))
    assert len(set(pages)) == 1


def test_many_rows_are_sampled_and_the_page_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    case = two_inputs()
    rows = rows_of(case, 40, random_state=3)
    assert len(rows) == 40
    assert rows.targets.tolist() == case.y.to_numpy()[rows.numbers].tolist()
    monkeypatch.setattr("sswim.estimator.progress.LINE_SECONDS", 0.0)
    lines: list[str] = []
    html = report_page(case.model, rows, random_state=3, say=lines.append)
    assert lines
    assert all(line.startswith("predicting: ") for line in lines)
    assert "tested on 40 of 200 rows" in html
    assert "40 of 200 rows, a random sample with seed 3" in html
    assert rows_of(case, 40, random_state=4).numbers.tolist() != rows.numbers.tolist()


def test_nothing_of_a_hostile_table_is_a_tag_and_all_of_it_is_drawn() -> None:
    html = page(hostile_table)
    assert html.count("<script>") == 1  # the program of the page
    assert not re.search(r"<(img|b[ >]|!--)", html.split("<body>")[1])
    assert len(re.findall(r"<script", html)) == len(re.findall(r"</script", html))
    html.encode("utf-8")
    again = page_of(hostile_table(), facts={"table": "test.parquet", "<img>": "</script>"})
    assert again == html  # the same seed
    assert charts(html)["Residuals against day"]["x"]["time"] is True
    assert any(None in values for values in shared(html).values())  # missing numbers
    assert "2024-" in html.split('id="surprises"')[1]


def test_columns_are_numbers_levels_and_times() -> None:
    n = 60
    level = pd.Series([f"level {place % 20}" for place in range(n)])
    level[:10] = "level 0"
    level[20] = None
    frame = pd.DataFrame(
        {
            "number": np.where(np.arange(n) == 1, np.nan, np.arange(n) / 2),
            "level": level,
            "time": [datetime.time(place % 24, 30) for place in range(n)],
            "date": pd.date_range("2024-01-01", periods=n).where(np.arange(n) != 1),
            "none": [None] * n,
        }
    )
    with pytest.warns(UserWarning, match="Column 'none' is not used"):
        model = make_estimator(depth=0, **FAST).fit(frame, np.arange(n) % 7)
    columns = rows_of(Case(model, frame, np.arange(n) % 7)).columns
    number_, level_, time, date = columns
    assert [column.name for column in columns] == ["number", "level", "time", "date"]
    assert number_.numbers == pytest.approx(frame["number"], nan_ok=True)
    assert time.numbers == pytest.approx(np.arange(n) % 24 + 0.5)
    assert date.axis.time
    assert date.numbers[2] - date.numbers[0] == 2 * 86_400
    assert [column.text(1) for column in (number_, date)] == ["", ""]
    texts = ["1", "level 0", "02:30:00", "2024-01-03 00:00:00"]
    assert [column.text(2) for column in columns] == texts
    # The rarest levels are one.
    assert level_.levels is not None
    assert (len(level_.levels), level_.levels[0]) == (13, "level 0")
    assert level_.levels[-2:] == ("all others", "missing")
    assert level_.numbers[20] == 12
    assert level_.text(20) == ""
    # Rows of a level are drawn side by side, and others where they are.
    places = level_.places(np.arange(10))
    assert np.abs(places).max() <= 0.3
    assert len(np.unique(places)) == 10
    assert number_.places(np.array([2, 0])).tolist() == [1, 0]


@pytest.mark.parametrize("n_rows", [1, 2, 5])
def test_few_rows_are_enough(n_rows: int) -> None:
    for case in (one_input(), two_inputs()):
        html = page_of(Case(case.model, case.X[:n_rows], case.y[:n_rows]))
        assert "<h2>Scores</h2>" in html
        assert "nan" not in html.split("</style>")[1].split("<script>")[0].lower()


def test_errors_are_clear(tmp_path: Path) -> None:
    case, out, table = two_inputs(), tmp_path / "r.html", tmp_path / "t.parquet"
    model, X, y = case.model, case.X, case.y
    two = np.column_stack([y, y])
    of_two = make_estimator(depth=0, **FAST).fit(X, two)
    array = one_input()
    cases: tuple[tuple[tuple[Any, Any, Any], str], ...] = (
        ((model, X, two), "the 1 targets of fit"),
        ((model, X, y[:-1]), "same number of rows"),
        ((array.model, array.X[:, 0], array.y), "2D array"),
        ((array.model, table, array.y), "fit the model to a data frame"),
        ((model, table, y), "name of a column"),
        ((model, X[:0], "height"), "at least one row"),
        ((of_two, X, two), "Got a model of 2"),
    )
    for arguments, message in cases:
        with pytest.raises(ValueError, match=message):
            write_report(*arguments, out)
    with pytest.raises(UserError, match="max_rows"):
        write_report(model, X, y, out, max_rows=0)
    with pytest.raises(FileNotFoundError, match="Make the folder"):
        write_report(model, X, y, tmp_path / "none" / "r.html")
    assert not out.exists()


def test_places_on_the_sphere_are_a_map() -> None:
    frame = sphere_rows()
    model = make_estimator(depth=1, **FAST, coordinates=("lon", "lat")).fit(frame, "height")
    html = page_of(Case(model, frame[:60], "height"))
    assert charts(html)["Predicted mean"]["x"]["label"] == "lon"
    assert shared(html)["c0"] == pytest.approx(frame["lon"][:60], abs=1e-2)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"n_neighbors": 8}, "after the last warp"),
        ({"depth": 0}, "No member of this model has a warp"),
        ({"warp_matrix": "full"}, "mixes all inputs into new coordinates"),
    ],
)
def test_warps_are_drawn_by_column_where_they_are_of_columns(
    settings: dict[str, Any], text: str
) -> None:
    case = two_inputs()
    model = make_estimator(**({"depth": 1} | FAST | settings)).fit(case.X[:60], case.y[:60])
    html = page_of(Case(model, case.X[60:100], case.y[60:100]))
    assert text in html
    drawn = any(title.startswith("Warp of") for title in charts(html))
    assert drawn == ("n_neighbors" in settings)


def test_warps_are_those_of_their_columns_whichever_matters_most() -> None:
    X, y = two_inputs().X.to_numpy() * [1.0, 5.0], two_inputs().X["north"].to_numpy()
    model = make_estimator(depth=1, **FAST).fit(X, y)
    html = page_of(Case(model, X, y))
    assert re.findall(r"<option>(.*?)</option>", html.split('id="warps"')[1])[:2] == ["x1", "x0"]
    for place in range(2):
        points = charts(html)[f"Warp of x{place}"]["layers"][1]
        assert points["y"] == pytest.approx(model.warp(X)[-1][0][:, place], abs=1e-2)


def test_groups_of_rows_have_means_and_standard_errors() -> None:
    random = np.random.default_rng(0)
    x, y = random.uniform(size=600), random.normal(size=600)
    x[:40] = np.nan
    places, means, errors = group_means(x, y)
    assert len(places) == 12
    assert np.all(np.diff(places) > 0)
    assert errors == pytest.approx(np.full(12, 1 / np.sqrt(560 / 12)), rel=0.5)
    assert means.mean() == pytest.approx(y[40:].mean(), abs=0.01)
    x = np.array([0.0] * 50 + [1.0] * 50)  # ties fall into one group, and few rows into none
    places, means, _ = group_means(x, x)
    assert places.tolist() == means.tolist() == [0, 1]
    assert group_means(np.zeros(2), np.zeros(2)).shape == (3, 0)
    assert group_means(np.full(9, np.nan), np.zeros(9)).shape == (3, 0)
    levels = np.array([0.0, 0, 0, 2, 2, 2, 1])  # a level of one row has none
    places, means, errors = group_means(levels, np.arange(7.0), is_level=True)
    assert (places.tolist(), means.tolist()) == ([0, 2], [1, 4])
    assert errors == pytest.approx(1 / np.sqrt(3))


def test_numbers_have_three_digits_and_counts_their_noun() -> None:
    numbers = {3.14159: "3.14", -0.0123456: "−0.0123", 1234567.0: "1,234,567", 123.0: "123"}
    numbers |= {0.0: "0", 8.61e-5: "8.61e−5", -2.5e12: "−2.50e12", math.nan: "–", math.inf: "–"}
    assert {value: number(value) for value in numbers} == numbers
    assert percent(0.9051) == "90.5\u00a0%"
    assert percent(math.nan) == "–"
    assert count(1, "row") == "1 row"
    assert count(1200, "row") == "1,200 rows"
