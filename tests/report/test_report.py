"""The content of reports: rows of any form, their numbers, and errors."""

from __future__ import annotations

import json
import re
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
from sswim.report import report_page, report_rows, write_report
from sswim.report.content import number, percent

SEVERAL_ROWS = 40


def page_of(case: Case, **settings: Any) -> str:
    """Return the report of a case."""
    rows = report_rows(case.model, case.X, case.y, max_rows=5000, random_state=0)
    return report_page(case.model, rows, **settings)


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


def test_a_report_has_all_parts_and_the_scores_of_the_rows() -> None:
    case = many_columns()
    html = page_of(case, facts={"table": "test.parquet"})
    for part in ("Scores", "Predictions", "What matters", "Calibration", "Residuals"):
        assert f"<h2>{part}</h2>" in html
    for part in ("Surprising rows", "Warps and noise", "Inside the model", "About this report"):
        assert f"<h2>{part}</h2>" in html
    scores = score_intervals(score_rows(case.model, case.X, case.y.to_numpy()))
    assert f'<div class="value">{number(scores.rmse.value)}</div>' in html
    assert f'<div class="value">{percent(scores.coverage[0.9].value)}</div>' in html
    assert "test.parquet" in html
    assert len(html) < 1_000_000


def test_charts_draw_the_rows_and_the_function() -> None:
    case = one_input()
    html = page_of(case)
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
    heat = charts(page_of(case))["Predicted mean"]["layers"][0]
    (west, east), (south, north) = heat["x"], heat["y"]
    assert (west, east) == (case.X["east"].min(), case.X["east"].max())
    cell = pd.DataFrame(
        {
            "east": [west + 3.5 * (east - west) / heat["columns"]],
            "north": [south + 5.5 * (north - south) / heat["rows"]],
        }
    )
    predicted = case.model.predict(cell)
    assert heat["values"][5 * heat["columns"] + 3] == pytest.approx(predicted[0], abs=1e-2)


def test_columns_that_matter_come_first() -> None:
    html = page_of(many_columns())
    bars = re.findall(r'class="name" title="(.*?)"', html.split('id="effects"')[1])
    options = re.findall(r"<option>(.*?)</option>", html.split('id="residuals"')[1])
    assert "column 3" in options[:2]
    assert options[:12] == bars[:12]
    assert len(re.findall('<div class="option">', html.split('id="warps"')[0])) == 30


def test_the_rows_that_surprise_most_are_a_table(tmp_path: Path) -> None:
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
        (table, "height"),
        (str(table), "height"),
    ):
        write_report(case.model, X, y, out)
        pages.append(out.read_text("utf-8").replace("height", "target"))
    assert len(set(pages)) == 1


def test_many_rows_are_sampled_and_the_page_says_so() -> None:
    case = two_inputs()
    rows = report_rows(case.model, case.X, case.y, max_rows=SEVERAL_ROWS, random_state=3)
    assert len(rows) == SEVERAL_ROWS
    assert rows.targets.tolist() == case.y.to_numpy()[rows.numbers].tolist()
    html = report_page(case.model, rows, random_state=3)
    assert "tested on 40 of 200 rows" in html
    assert "40 of 200 rows, a random sample with seed 3" in html
    other = report_rows(case.model, case.X, case.y, max_rows=SEVERAL_ROWS, random_state=4)
    assert other.numbers.tolist() != rows.numbers.tolist()


def test_the_same_seed_writes_the_same_page() -> None:
    assert page_of(hostile_table()) == page_of(hostile_table())


def test_nothing_of_a_hostile_table_is_a_tag() -> None:
    html = page_of(hostile_table(), facts={"<img>": "</script>"})
    assert html.count("<script>") == 1  # the program of the page
    assert not re.search(r"<(img|b[ >]|!--)", html.split("<body>")[1])
    scripts = re.findall(r"<script", html)
    ends = re.findall(r"</script", html)
    assert len(scripts) == len(ends)
    html.encode("utf-8")


def test_categories_dates_and_gaps_are_drawn() -> None:
    html = page_of(hostile_table())
    found = charts(html)
    [levels] = [
        chart["x"]["levels"]
        for title, chart in found.items()
        if title.startswith("Residuals") and "levels" in chart["x"]
    ]
    assert levels[-1] == "missing"
    assert found["Residuals against day"]["x"]["time"] is True
    arrays = shared(html)
    assert any(None in values for values in arrays.values())  # missing numbers are not drawn
    cells = html.split('id="surprises"')[1]
    assert "2024-" in cells


@pytest.mark.parametrize("n_rows", [1, 2, 5])
def test_few_rows_are_enough(n_rows: int) -> None:
    for case in (one_input(), two_inputs()):
        html = page_of(Case(case.model, case.X[:n_rows], case.y[:n_rows]))
        assert "<h2>Scores</h2>" in html
        assert "nan" not in html.split("</style>")[1].split("<script>")[0].lower()


def test_errors_are_clear(tmp_path: Path) -> None:
    case, out = two_inputs(), tmp_path / "r.html"
    with pytest.raises(UserError, match="max_rows"):
        write_report(case.model, case.X, case.y, out, max_rows=0)
    with pytest.raises(UserError, match="the 1 targets of fit"):
        write_report(case.model, case.X, np.column_stack([case.y, case.y]), out)
    with pytest.raises(ValueError, match="same number of rows"):
        write_report(case.model, case.X, case.y[:-1], out)
    with pytest.raises(ValueError, match="2D array"):
        write_report(one_input().model, one_input().X[:, 0], one_input().y, out)
    with pytest.raises(UserError, match="fit the model to a data frame"):
        write_report(one_input().model, tmp_path / "t.parquet", one_input().y, out)
    with pytest.raises(FileNotFoundError, match="Make the folder"):
        write_report(case.model, case.X, case.y, tmp_path / "none" / "r.html")
    with pytest.raises(UserError, match="name of a column"):
        write_report(case.model, tmp_path / "t.parquet", case.y, out)
    with pytest.raises(UserError, match="at least one row"):
        write_report(case.model, case.X[:0], "height", out)
    assert not out.exists()


def test_models_of_several_targets_are_refused(tmp_path: Path) -> None:
    case = one_input()
    y = np.column_stack([case.y, case.y])
    model = make_estimator(depth=0, n_components=8, max_iter=1, random_state=0).fit(case.X, y)
    with pytest.raises(UserError, match="Got a model of 2"):
        write_report(model, case.X, y, tmp_path / "r.html")


def test_places_on_the_sphere_are_a_map() -> None:
    frame = sphere_rows()
    settings: dict[str, Any] = {"depth": 1, "n_components": 16, "n_pseudo": 4, "max_iter": 2}
    model = make_estimator(**settings, coordinates=("lon", "lat"), random_state=0)
    model.fit(frame, "height")
    found = charts(page_of(Case(model, frame[:60], "height")))
    assert found["Predicted mean"]["x"]["label"] == "lon"
    assert "Residuals against lat" in found


def test_progress_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sswim.estimator.progress.LINE_SECONDS", 0.0)
    lines: list[str] = []
    page_of(many_columns(), say=lines.append)
    assert lines
    assert all(line.startswith("predicting: ") for line in lines)


def test_members_of_neighbours_and_without_warps_have_reports() -> None:
    case = two_inputs()
    for settings in ({"n_neighbors": 8}, {"depth": 0}):
        common: dict[str, Any] = {"depth": 1, "n_components": 16, "n_pseudo": 4, "max_iter": 2}
        model = make_estimator(**(common | settings), random_state=0).fit(case.X, case.y)
        html = page_of(Case(model, case.X[:50], case.y[:50]))
        assert ("has a warp" in html) == ("depth" in settings)


@pytest.mark.parametrize(
    "settings", [{"warp_matrix": "projected", "warp_dim": 1}, {"warp_matrix": "full"}], ids=str
)
def test_warps_that_mix_the_inputs_are_not_drawn_by_column(settings: dict[str, Any]) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(40, 2))
    y = x[:, 0] + 0.1 * random.normal(size=40)
    model = make_estimator(
        depth=1, n_components=8, n_pseudo=4, max_iter=2, random_state=0, **settings
    ).fit(x, y)
    html = page_of(Case(model, x, y))
    assert "mixes all inputs into new coordinates" in html
    assert not [title for title in charts(html) if title.startswith("Warp of")]
