from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.commands import fit_prices, prices, succeed
from typer.testing import Result

from sswim import load
from sswim.tables import read_table, write_table


def test_fit_writes_a_model_that_python_reads_the_same_for_a_seed(
    table: Path, tmp_path: Path
) -> None:
    model, again = tmp_path / "model.sswim", tmp_path / "again.sswim"
    for path in (model, again):
        assert fit_prices(table, path).exit_code == 0
    regressor = load(model)
    assert list(regressor.feature_names_in_) == ["x", "colour"]
    assert regressor.input_names_ == ["x", "colour=blue", "colour=green", "colour=red"]
    assert regressor.max_iter == 3
    assert model.read_bytes() == again.read_bytes()


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ("--output-warp tanh --n-output-terms 3 --noise input-dependent", "input-dependent"),
        ("--n-neighbors 16 --inputs normal-scores", "n_neighbors │ 16"),
    ],
)
def test_models_of_all_kinds_are_fitted_and_predict(
    options: str, shown: str, table: Path, tmp_path: Path
) -> None:
    model, out = tmp_path / "model.sswim", tmp_path / "out.parquet"
    fitted = fit_prices(table, model, *options.split())
    assert fitted.exit_code == 0, fitted.output
    assert "from 60 rows" in fitted.stdout
    succeed("predict", model, table, "--out", out)
    rows = read_table(out)
    lower, median, upper = (rows[name].to_numpy() for name in ("lower", "median", "upper"))
    assert (lower < median).all()
    assert (median < upper).all()
    assert shown in " ".join(succeed("info", model).output.split())
    succeed("evaluate", model, table)


def test_missing_values_are_imputed_refused_or_left_out(tmp_path: Path) -> None:
    rows = prices().to_pydict()
    path, out = tmp_path / "gaps.parquet", tmp_path / "m.sswim"

    def fit(*options: str) -> Result:
        pq.write_table(pa.table(rows), path)
        return fit_prices(path, out, *options)

    rows["x"][3] = rows["colour"][5] = None
    imputed = fit()
    assert imputed.exit_code == 0
    assert "Left out" not in imputed.stderr
    assert "from 60 rows" in imputed.stdout
    out.unlink()
    rows["price"][8] = None
    refused = fit()
    assert refused.exit_code == 1
    message = "Got 1 of 60 rows without one in column 'price'; leave such rows out with"
    assert message in " ".join(refused.stderr.split())
    assert not out.exists()
    for options, n_rows in (((), 59), (("--drop-missing",), 57)):
        fitted = fit("--drop-missing-target", *options)
        assert fitted.exit_code == 0
        assert load(out).n_samples_seen_ == n_rows
        assert f"Left out {60 - n_rows} of 60 rows with missing values." in fitted.stderr
        assert f"from {n_rows} rows" in fitted.stdout


def test_columns_may_be_called_text_and_coordinates(tmp_path: Path) -> None:
    rows = prices().append_column("code", pa.array(["1", "2", "3"] * 20))
    rows = rows.append_column("lat", rows["x"])
    path, out = tmp_path / "t.parquet", tmp_path / "m.sswim"
    write_table(rows, path)
    noted = " ".join(fit_prices(path, out).stderr.split())
    assert "Note: Column 'code' is text, and all of it numbers: read as numbers" in noted
    assert "code" in load(out).input_names_
    fitted = fit_prices(path, out, "--text", "code", "--coordinates", "x,lat")
    assert "Note" not in fitted.stderr
    model = load(out)
    assert model.coordinates == ("x", "lat")
    assert model.input_names_[:3] == ["x, lat east", "x, lat north", "x, lat up"]
    assert {"code=1", "code=2", "code=3"} <= set(model.input_names_)
