"""Charts as data: what stands in the page, and what no text in it can do."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest

from sswim.report.charts import (
    Axis,
    Band,
    Boxes,
    Chart,
    Heat,
    Level,
    Line,
    Points,
    Rug,
    SharedArrays,
    Spans,
    script_json,
    short_numbers,
)

NASTY = "</script><script>alert(1)</script><!-- & \u2028 \x00 \ud800"
X = np.array([0.0, 1.0, 2.0])
LAYERS = (
    Line(X, X**2, NASTY),
    Level(0.0),
    Band(X, X - 1, X + 1),
    Points("shared", X, numbers="shared", more={"more": "shared"}),
    Spans(X, X, X + 1),
    Rug(X),
    Boxes(np.arange(4.0), X),
    Heat((0.0, 1.0), (0.0, 1.0), np.arange(4.0), 2, 2, 0.0, 3.0, NASTY),
)


def spec_of(html: str) -> dict[str, object]:
    """Return the only JSON in some HTML."""
    [text] = re.findall(r"<script [^>]*>(.*?)</script>", html, re.DOTALL)
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


def test_a_chart_holds_its_layers_as_json() -> None:
    spec = spec_of(Chart("A chart", Axis("x"), Axis("y", zero=True), LAYERS).html())
    kinds = [layer["kind"] for layer in spec["layers"]]  # type: ignore[attr-defined]
    assert kinds == ["line", "level", "band", "points", "spans", "rug", "boxes", "heat"]
    assert spec["layers"][3] == {  # type: ignore[index]
        "kind": "points",
        "x": "shared",
        "y": [0, 1, 2],
        "name": "",
        "colour": 1,
        "numbers": "shared",
        "more": {"more": "shared"},
    }
    assert spec["y"] == {"label": "y", "zero": True}


@pytest.mark.parametrize(
    "chart",
    [
        Chart(NASTY, Axis("x"), Axis("y"), ()),
        Chart("title", Axis(NASTY), Axis("y", levels=(NASTY,)), (), NASTY),
        Chart("title", Axis("x"), Axis("y"), LAYERS),
    ],
)
def test_no_text_leaves_its_place(chart: Chart) -> None:
    html = chart.html()
    assert len(re.findall("<script", html)) == 1
    assert len(re.findall("</script", html)) == 1
    assert "<!--" not in html
    html.encode("utf-8")  # no lone surrogates
    assert "alert(1)" in html


def test_json_of_scripts_reads_back_as_what_is_shown() -> None:
    text = script_json({"name": "a < b && c > d", "values": [1, 2.5, None], "yes": True})
    assert not set("<>&") & set(text)
    assert json.loads(text) == {"name": "a < b && c > d", "values": [1, 2.5, None], "yes": True}
    assert json.loads(script_json(float("nan"))) is None
    assert json.loads(script_json(np.float64(0.5))) == 0.5
    assert json.loads(script_json("\x1b")) == r"\x1b"


def test_shared_arrays_have_names() -> None:
    html = SharedArrays({"a": np.array([1.0, np.nan]), "b": np.arange(2)}).html()
    assert 'class="shared"' in html
    assert spec_of(html) == {"a": [1, None], "b": [0, 1]}


@pytest.mark.parametrize("offset", [0.0, 2000.0, -1e9])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e6])
def test_short_numbers_keep_four_digits_of_the_spread(offset: float, scale: float) -> None:
    values = offset + scale * np.random.default_rng(0).normal(size=500)
    short = np.array(short_numbers(values), dtype=float)
    resolution = max(1e-4 * scale * 10, 4e-16 * abs(offset))
    assert np.abs(short - values).max() <= resolution
    digits = [re.sub(r"e.*|[-.]", "", repr(value)).strip("0") for value in short_numbers(values)]
    assert max(map(len, digits)) <= 6 + max(0, math.ceil(math.log10((abs(offset) + 1) / scale)))


def test_a_wild_value_does_not_cost_the_others_their_digits() -> None:
    values = np.concatenate([np.linspace(0, 1, 100), [1e12]])
    short = np.array(short_numbers(values), dtype=float)
    assert np.abs(short - values)[:-1].max() < 1e-3
    assert short[-1] == 1e12


def test_constants_gaps_and_extreme_numbers_are_kept() -> None:
    assert short_numbers(np.array([5.0, 5.0])) == [5, 5]
    assert short_numbers(np.array([0.0, 0.0])) == [0, 0]
    assert short_numbers(np.array([np.nan, np.inf])) == [None, None]
    assert short_numbers(np.array([1e-300, 2e-300])) == [1e-300, 2e-300]
    assert short_numbers(np.array([])) == []
