"""Model files that the commands can use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from builders.commands import invoke, prices

from sswim.cli.options import load_model, table_schema
from sswim.estimator import make_estimator
from sswim.rows import ArraySource
from sswim.tables import NumberColumn, read_table, write_table

QUICK: dict[str, Any] = {
    "depth": 1,
    "n_components": 16,
    "n_pseudo": 4,
    "max_iter": 2,
    "random_state": 0,
}


def test_a_model_fitted_in_python_on_named_columns_can_be_used(tmp_path: Path) -> None:
    rows = prices()
    frame = rows.select(["x", "id"]).to_pandas()
    regressor = make_estimator(**QUICK)
    regressor.fit(frame, rows["price"].to_numpy()).save(tmp_path / "m.sswim")
    pyarrow.csv.write_csv(rows, tmp_path / "t.csv")
    result = invoke(
        "predict", tmp_path / "m.sswim", tmp_path / "t.csv", "--out", tmp_path / "o.csv"
    )
    assert result.exit_code == 0
    assert "Warning" not in result.output
    refused = invoke("evaluate", tmp_path / "m.sswim", tmp_path / "t.csv")
    assert refused.exit_code == 1
    assert "must know the name of its target column" in " ".join(refused.output.split())
    expected = regressor.predict(frame)
    assert np.allclose(read_table(tmp_path / "o.csv")["mean"].to_numpy(), expected)
    regressor.fit(frame.to_numpy(), rows["price"].to_numpy()).save(tmp_path / "m.sswim")
    assert invoke("info", tmp_path / "m.sswim").exit_code == 0
    refused = invoke(
        "predict", tmp_path / "m.sswim", tmp_path / "t.csv", "--out", tmp_path / "p.csv"
    )
    assert refused.exit_code == 1
    assert "names of its columns" in " ".join(refused.output.split())


def test_a_model_of_several_targets_is_for_python(tmp_path: Path) -> None:
    rows = prices()
    frame = rows.select(["x", "id"]).to_pandas()
    make_estimator(**QUICK).fit(frame, frame).save(tmp_path / "m.sswim")
    write_table(rows, tmp_path / "t.csv")
    out = tmp_path / "o.csv"
    refused = invoke("predict", tmp_path / "m.sswim", tmp_path / "t.csv", "--out", out)
    assert refused.exit_code == 1
    assert "predicts one target" in refused.output
    make_estimator(**QUICK).fit(frame, frame[["x"]]).save(tmp_path / "m.sswim")
    assert invoke("predict", tmp_path / "m.sswim", tmp_path / "t.csv", "--out", out).exit_code == 0


def test_a_model_fitted_in_python_on_a_table_with_its_target_can_be_used(tmp_path: Path) -> None:
    rows = prices()
    regressor = make_estimator(**QUICK).fit(rows.to_pandas(), "price")
    regressor.save(tmp_path / "m.sswim")
    write_table(rows, tmp_path / "t.parquet")
    evaluated = invoke("evaluate", tmp_path / "m.sswim", tmp_path / "t.parquet")
    assert evaluated.exit_code == 0, evaluated.output
    out = tmp_path / "o.parquet"
    assert (
        invoke("predict", tmp_path / "m.sswim", tmp_path / "t.parquet", "--out", out).exit_code == 0
    )
    assert np.array_equal(read_table(out)["mean"].to_numpy(), regressor.predict(rows))


def test_a_model_of_named_inputs_without_a_schema_reads_numbers(tmp_path: Path) -> None:
    rows = prices()
    x = rows["x"].to_numpy()
    source = ArraySource(x[:, None], rows["price"].to_numpy())
    source.names = ("x",)
    regressor = make_estimator(**QUICK).fit(source)
    schema = table_schema(regressor)
    assert schema.columns == (NumberColumn("x"),)
    regressor.save(tmp_path / "m.sswim")
    _, again = load_model(tmp_path / "m.sswim")
    assert again == schema
    gaps = pa.table({"x": pa.array(x, mask=np.arange(len(x)) == 2)})
    write_table(gaps, tmp_path / "t.parquet")
    out = tmp_path / "o.parquet"
    assert (
        invoke("predict", tmp_path / "m.sswim", tmp_path / "t.parquet", "--out", out).exit_code == 0
    )
    found = read_table(out)
    assert np.isfinite(found["mean"].to_numpy()).all()
    std = found["std"].to_numpy()
    assert std[2] > np.delete(std, 2).max()  # its input is not known
