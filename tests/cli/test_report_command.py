from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.commands import prices, refuse, succeed

from sswim.cli.options import load_model
from sswim.estimator.evaluation import evaluate
from sswim.report.content import number
from sswim.tables import write_table


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return tmp_path / "page.html"


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_report_has_the_scores_of_evaluate(model: Path, page: Path, suffix: str) -> None:
    table = page.with_name(f"rows{suffix}")
    write_table(prices(), table)
    written = succeed("report", model, table, "--out", page)
    assert f"Wrote {page} (0." in written.stdout
    scores = evaluate(load_model(model)[0], prices(), prices()["price"].to_numpy())
    html = page.read_text("utf-8")
    assert f'<div class="value">{number(scores.rmse)}</div>' in html
    assert f'<div class="value">{number(scores.mnlp)}</div>' in html
    assert f"<td>rows{suffix}</td>" in html
    assert str(page.parent) not in html  # names of files, but not of folders


def test_large_tables_are_sampled(model: Path, table: Path, page: Path) -> None:
    options = ("--max-rows", "20", "--random-state", "3")
    written = succeed("report", model, table, "--out", page, *options)
    assert "Using 20 of 60 rows, seed 3." in written.stderr
    assert "20 of 60 rows, seed 3" in page.read_text("utf-8")
    refuse("report", model, table, "--max-rows", "0", "--out", page)


def test_values_that_cannot_be_read_are_told_once(model: Path, table: Path, page: Path) -> None:
    rows = prices(30).to_pydict()
    rows["x"] = ["oops" if place == 4 else str(value) for place, value in enumerate(rows["x"])]
    rows["colour"][7] = rows["colour"][21] = "pink"
    pq.write_table(pa.table(rows), table)
    written = succeed("report", model, table, "--out", page)
    warnings = [line for line in written.stderr.splitlines() if line.startswith("Warning")]
    assert len(warnings) == 2
    assert any("'oops'" in line for line in warnings)
    assert any("in 2 rows: 'pink'" in line for line in warnings)
    assert "pink" in page.read_text("utf-8")


def test_only_pages_are_replaced_unless_by_force(model: Path, table: Path, page: Path) -> None:
    page.write_text("mine")
    assert "give --force to replace it" in refuse("report", model, table, "--out", page)
    assert page.read_text() == "mine"
    succeed("report", model, table, "--out", page, "--force")
    succeed("report", model, table, "--out", page)  # a page replaces a page
