from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.commands import prices, refuse, succeed

from sswim.tables import read_table, write_table


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_predict_adds_its_columns_to_the_rows_in_their_order(
    model: Path, tmp_path: Path, suffix: str
) -> None:
    source, out = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    write_table(prices(), source)
    succeed("predict", model, source, "--out", out, "--level", "0.8")
    rows, predicted = read_table(out), ("mean", "std", "median", "lower", "upper")
    assert rows.column_names == ["id", "x", "colour", "price", *predicted]
    assert rows["id"].to_pylist() == list(range(60))
    mean, std, _, lower, upper = (rows[name].to_numpy() for name in predicted)
    assert np.allclose(upper - mean, 1.2815515 * std, rtol=1e-5)
    assert np.allclose(lower + upper, 2 * mean)


def test_options_of_csv_files_count(model: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "in.csv", tmp_path / "out.arrow"
    path.write_bytes("x~colour\n1,234~red\n".encode("utf-16"))
    options = ("--separator", "~", "--decimal", ",", "--encoding", "utf-16", "--header")
    result = succeed("predict", model, path, "--out", out, *options)
    assert "Note" not in result.output
    assert read_table(out)["x"].to_pylist() == [1.234]
    refused = refuse("predict", model, path, "--out", out, "--separator", "~~")
    assert "separator must be one character" in refused


def test_unknown_categories_are_told_and_predicted(model: Path, tmp_path: Path) -> None:
    write_table(prices(5).set_column(2, "colour", pa.array(["mauve"] * 5)), tmp_path / "new.csv")
    result = succeed("predict", model, tmp_path / "new.csv", "--out", tmp_path / "out.csv")
    assert "Warning" in result.output
    assert "mauve" in result.output
    assert read_table(tmp_path / "out.csv").num_rows == 5


def test_missing_values_are_imputed_or_dropped(model: Path, tmp_path: Path) -> None:
    rows = prices(10).to_pydict()
    rows["x"][3] = None
    path, out = tmp_path / "gaps.parquet", tmp_path / "out.parquet"
    pq.write_table(pa.table(rows), path)
    succeed("predict", model, path, "--out", out)
    assert read_table(out).num_rows == 10
    kept = succeed("predict", model, path, "--out", out, "--drop-missing")
    assert "Left out 1 of 10 rows" in kept.output
    assert read_table(out)["id"].to_pylist() == [0, 1, 2, 4, 5, 6, 7, 8, 9]
