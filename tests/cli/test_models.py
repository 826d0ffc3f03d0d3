"""Model files that the commands can use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
from builders.commands import invoke, prices

from sswim import SSWIMRegressor
from sswim.tables.table_io import read_table, write_table

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
    regressor = SSWIMRegressor(**QUICK)
    regressor.fit(frame, rows["price"].to_numpy()).save(tmp_path / "m.sswim")
    pyarrow.csv.write_csv(rows, tmp_path / "t.csv")
    result = invoke(
        "predict", tmp_path / "m.sswim", tmp_path / "t.csv", "--out", tmp_path / "o.csv"
    )
    assert result.exit_code == 0
    assert "Warning" not in result.output
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
    SSWIMRegressor(**QUICK).fit(frame, frame).save(tmp_path / "m.sswim")
    write_table(rows, tmp_path / "t.csv")
    out = tmp_path / "o.csv"
    refused = invoke("predict", tmp_path / "m.sswim", tmp_path / "t.csv", "--out", out)
    assert refused.exit_code == 1
    assert "predicts one target" in refused.output
    SSWIMRegressor(**QUICK).fit(frame, frame[["x"]]).save(tmp_path / "m.sswim")
    assert invoke("predict", tmp_path / "m.sswim", tmp_path / "t.csv", "--out", out).exit_code == 0
