"""Model files that the commands can use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from builders.commands import invoke, prices
from typer.testing import Result

from sswim.cli.options import load_model, table_schema
from sswim.estimator import make_estimator
from sswim.rows import ArraySource
from sswim.tables import NumberColumn, read_table, write_table

QUICK: dict[str, Any] = {
    **{"depth": 1, "n_components": 16, "n_pseudo": 4, "max_iter": 2, "random_state": 0}
}


def predict(model: Path, table: Path, out: str = "o.parquet") -> Result:
    return invoke("predict", model, table, "--out", table.parent / out)


def test_a_model_fitted_in_python_on_named_columns_can_be_used(table: Path, tmp_path: Path) -> None:
    rows, model = prices(), tmp_path / "m.sswim"
    frame, target = rows.select(["x", "id"]).to_pandas(), rows["price"].to_numpy()
    regressor = make_estimator(**QUICK).fit(frame, target)
    regressor.save(model)
    result = predict(model, table)
    assert result.exit_code == 0
    assert "Warning" not in result.output
    means = read_table(tmp_path / "o.parquet")["mean"].to_numpy()
    assert np.allclose(means, regressor.predict(frame))
    refused = invoke("evaluate", model, table)
    assert refused.exit_code == 1
    assert "must know the name of its target column" in " ".join(refused.output.split())


def test_models_without_names_or_of_several_targets_are_for_python(
    table: Path, tmp_path: Path
) -> None:
    model = tmp_path / "m.sswim"
    x = prices().select(["x", "id"]).to_pandas()
    for inputs, targets, words in (
        (x.to_numpy(), x["x"], "names of its columns"),
        (x, x, "predicts one target"),
    ):
        make_estimator(**QUICK).fit(inputs, targets).save(model)
        refused = predict(model, table)
        assert refused.exit_code == 1
        assert words in " ".join(refused.output.split())
    make_estimator(**QUICK).fit(x.to_numpy(), x["x"]).save(model)
    assert invoke("info", model).exit_code == 0
    make_estimator(**QUICK).fit(x, x[["x"]]).save(model)
    assert predict(model, table).exit_code == 0


def test_a_model_fitted_in_python_on_a_table_with_its_target_can_be_used(
    table: Path, tmp_path: Path
) -> None:
    regressor = make_estimator(**QUICK).fit(prices().to_pandas(), "price")
    regressor.save(tmp_path / "m.sswim")
    assert invoke("evaluate", tmp_path / "m.sswim", table).exit_code == 0
    assert predict(tmp_path / "m.sswim", table).exit_code == 0
    means = read_table(tmp_path / "o.parquet")["mean"].to_numpy()
    assert np.array_equal(means, regressor.predict(prices()))


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
    assert predict(tmp_path / "m.sswim", tmp_path / "t.parquet").exit_code == 0
    found = read_table(tmp_path / "o.parquet")
    assert np.isfinite(found["mean"].to_numpy()).all()
    std = found["std"].to_numpy()
    assert std[2] > np.delete(std, 2).max()  # its input is not known
