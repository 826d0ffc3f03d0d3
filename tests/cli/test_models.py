"""Model files of Python that the commands can use."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from builders.commands import prices, refuse, succeed

from sswim.cli.options import load_model, table_schema
from sswim.estimator import WarpedGPRegressor
from sswim.rows import ArraySource
from sswim.tables import NumberColumn, read_table, write_table

quick = partial(WarpedGPRegressor, n_components=16, n_pseudo=4, max_iter=2, random_state=0)


@pytest.mark.parametrize("with_target", [False, True])
def test_a_model_of_a_frame_can_be_used(with_target: bool, table: Path, tmp_path: Path) -> None:
    frame, model, out = prices().to_pandas(), tmp_path / "m.sswim", tmp_path / "o.parquet"
    rows = frame if with_target else frame[["x", "id"]]
    regressor = quick().fit(rows, "price" if with_target else frame["price"])
    regressor.save(model)
    assert "Warning" not in succeed("predict", model, table, "--out", out).output
    assert np.array_equal(read_table(out)["mean"].to_numpy(), regressor.predict(rows))
    if with_target:
        succeed("evaluate", model, table)
    else:
        assert "must know the name of its target column" in refuse("evaluate", model, table)


def test_models_without_names_or_of_several_targets_are_for_python(
    table: Path, tmp_path: Path
) -> None:
    model, out = tmp_path / "m.sswim", tmp_path / "o.parquet"
    x = prices().select(["x", "id"]).to_pandas()
    quick().fit(x, x).save(model)
    assert "predicts one target" in refuse("predict", model, table, "--out", out)
    quick().fit(x, x[["x"]]).save(model)
    succeed("predict", model, table, "--out", out)
    quick().fit(x.to_numpy(), x["x"]).save(model)
    assert "names of its columns" in refuse("predict", model, table, "--out", out)
    succeed("info", model)


def test_a_model_of_named_inputs_without_a_schema_reads_numbers(tmp_path: Path) -> None:
    rows, model = prices(), tmp_path / "m.sswim"
    table, out = tmp_path / "t.parquet", tmp_path / "o.parquet"
    x = rows["x"].to_numpy()
    source = ArraySource(x[:, None], rows["price"].to_numpy())
    source.names = ("x",)
    regressor = quick().fit(source)
    schema = table_schema(regressor)
    assert schema.columns == (NumberColumn("x"),)
    regressor.save(model)
    assert load_model(model)[1] == schema
    write_table(pa.table({"x": pa.array(x, mask=np.arange(len(x)) == 2)}), table)
    succeed("predict", model, table, "--out", out)
    mean, std = (read_table(out)[name].to_numpy() for name in ("mean", "std"))
    assert np.isfinite(mean).all()
    assert std[2] > np.delete(std, 2).max()  # its input is not known
