"""The command ``sswim report``."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.commands import invoke, prices

from sswim.cli.options import load_model
from sswim.estimator.evaluation import evaluate
from sswim.report.content import number
from sswim.tables import write_table


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_report_has_the_scores_of_evaluate(model: Path, tmp_path: Path, suffix: str) -> None:
    table, out = tmp_path / f"rows{suffix}", tmp_path / "page.html"
    write_table(prices(), table)
    written = invoke("report", model, table, "--out", out)
    assert written.exit_code == 0, written.stderr
    assert f"Wrote {out} (0." in written.stdout
    regressor, _ = load_model(model)
    scores = evaluate(regressor, prices(), prices()["price"].to_numpy())
    html = out.read_text("utf-8")
    assert f'<div class="value">{number(scores.rmse)}</div>' in html
    assert f'<div class="value">{number(scores.mnlp)}</div>' in html
    assert f"<td>rows{suffix}</td>" in html
    assert str(tmp_path) not in html  # names of files, but not of folders


def test_large_tables_are_sampled(model: Path, table: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    options = ("--max-rows", "20", "--random-state", "3")
    written = invoke("report", model, table, "--out", out, *options)
    assert written.exit_code == 0
    assert "Using 20 of 60 rows, seed 3." in written.stderr
    assert "20 of 60 rows, seed 3" in out.read_text("utf-8")
    assert invoke("report", model, table, "--max-rows", "0", "--out", out).exit_code == 1


def test_rows_without_values_are_imputed_or_left_out(model: Path, tmp_path: Path) -> None:
    rows = prices(12).to_pydict()
    rows["x"][3], rows["price"][5] = None, None
    table, out = tmp_path / "gaps.parquet", tmp_path / "page.html"
    pq.write_table(pa.table(rows), table)
    refused = invoke("report", model, table, "--out", out)
    assert refused.exit_code == 1
    assert "Got 1 of 12 rows without one" in " ".join(refused.stderr.split())
    written = invoke("report", model, table, "--out", out, "--drop-missing-target")
    assert written.exit_code == 0, written.stderr
    assert "Left out 1 of 12 rows" in written.stderr
    assert "tested on 11 rows" in out.read_text("utf-8")


def test_values_that_cannot_be_read_are_told_once(model: Path, tmp_path: Path) -> None:
    rows = prices(30).to_pydict()
    rows["x"] = ["oops" if place == 4 else str(value) for place, value in enumerate(rows["x"])]
    rows["colour"][7] = rows["colour"][21] = "pink"
    table, out = tmp_path / "strange.parquet", tmp_path / "page.html"
    pq.write_table(pa.table(rows), table)
    written = invoke("report", model, table, "--out", out)
    assert written.exit_code == 0, written.stderr
    warnings = [line for line in written.stderr.splitlines() if line.startswith("Warning")]
    assert len(warnings) == 2
    assert any("'oops'" in line for line in warnings)
    assert any("in 2 rows: 'pink'" in line for line in warnings)
    assert "pink" in out.read_text("utf-8")


def test_tables_without_target_or_rows_are_refused(model: Path, tmp_path: Path) -> None:
    table, out = tmp_path / "t.parquet", tmp_path / "page.html"
    pq.write_table(prices().drop_columns(["price"]), table)
    refused = invoke("report", model, table, "--out", out)
    assert refused.exit_code == 1
    assert "'price'" in refused.stderr
    pq.write_table(prices().slice(0, 0), table)
    refused = invoke("report", model, table, "--out", out)
    assert refused.exit_code == 1
    assert "at least one row" in refused.stderr
    assert not out.exists()


def test_outputs_are_checked_before_work(model: Path, table: Path, tmp_path: Path) -> None:
    notes = tmp_path / "notes.html"
    notes.write_text("mine")
    for out, words in (
        (table, "must not replace an input"),
        (model, "must not replace an input"),
        (tmp_path / "none" / "page.html", "Make the folder"),
        (tmp_path, "which is a folder"),
        (notes, "give --force to replace it"),
    ):
        refused = invoke("report", model, table, "--out", out)
        assert refused.exit_code == 1
        assert words in " ".join(refused.stderr.split())
    assert notes.read_text() == "mine"
    assert invoke("report", model, table, "--out", notes, "--force").exit_code == 0
    assert invoke("report", model, table, "--out", notes).exit_code == 0  # a page replaces a page


def test_the_page_is_in_the_current_folder_by_default(
    model: Path, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert invoke("report", model, table).exit_code == 0
    assert (tmp_path / "report.html").exists()
