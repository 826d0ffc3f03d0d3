"""The command ``sswim fit``."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.commands import FAST, fit_prices, invoke, prices
from typer.testing import Result

from sswim import load
from sswim.tables import read_table, write_table


def test_fit_writes_a_model_that_python_reads(table: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.sswim"
    assert fit_prices(table, model).exit_code == 0
    regressor = load(model)
    assert list(regressor.feature_names_in_) == ["x", "colour"]
    assert regressor.input_names_ == ["x", "colour=blue", "colour=green", "colour=red"]
    assert regressor.max_iter == 3


def test_densities_have_their_options(table: Path, tmp_path: Path) -> None:
    model, out = tmp_path / "model.sswim", tmp_path / "out.parquet"
    options = ["--output-warp", "tanh", "--n-output-terms", "3", "--noise", "input-dependent"]
    fitted = fit_prices(table, model, *options)
    assert fitted.exit_code == 0, fitted.output
    assert invoke("predict", model, table, "--out", out).exit_code == 0
    rows = read_table(out)
    lower, median, upper = (rows[name].to_numpy() for name in ("lower", "median", "upper"))
    assert (lower < median).all()
    assert (median < upper).all()
    told = " ".join(invoke("info", model).output.split())
    assert "input-dependent" in told
    assert "tanh" in told


@pytest.mark.parametrize("memory", ["2GiB", "0"])  # read whole, and in chunks
def test_missing_values_are_imputed_refused_or_left_out(tmp_path: Path, memory: str) -> None:
    rows = prices().to_pydict()
    path, out = tmp_path / "gaps.parquet", tmp_path / "m.sswim"

    def fit(*options: str) -> Result:
        pq.write_table(pa.table(rows), path)
        return fit_prices(path, out, "--memory", memory, *options)

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
        if memory != "0":  # chunks are counted as they are read
            assert f"Left out {60 - n_rows} of 60 rows with missing values." in fitted.stderr
        assert f"from {n_rows} rows" in fitted.stdout


def test_columns_may_be_called_text_and_coordinates(tmp_path: Path) -> None:
    rows = prices().append_column("code", pa.array(["1", "2", "3"] * 20))
    rows = rows.append_column("lat", rows["x"])
    path, out = tmp_path / "t.parquet", tmp_path / "m.sswim"
    write_table(rows, path)
    noted = fit_prices(path, out)
    assert "Note: Column 'code' is text, and all of it numbers: read as numbers" in " ".join(
        noted.stderr.split()
    )
    assert "code" in load(out).input_names_
    fitted = fit_prices(path, out, "--text", "code", "--coordinates", "x,lat")
    assert "Note" not in fitted.stderr
    model = load(out)
    assert model.coordinates == ("x", "lat")
    assert model.input_names_[:3] == ["x, lat east", "x, lat north", "x, lat up"]
    assert {"code=1", "code=2", "code=3"} <= set(model.input_names_)


def test_same_seed_same_model(table: Path, tmp_path: Path) -> None:
    paths = [tmp_path / "a.sswim", tmp_path / "b.sswim"]
    for path in paths:
        assert fit_prices(table, path).exit_code == 0
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_names_that_look_like_mark_up_are_shown_as_they_are(tmp_path: Path) -> None:
    rows = prices().rename_columns(["id", "x [m]", "colour", "price [red]"])
    source, model = tmp_path / "[bold] table.csv", tmp_path / "model [1].sswim"
    write_table(rows, source)
    fitted = invoke("fit", source, "--target", "price [red]", "--out", model, *FAST)
    assert "'price [red]'" in fitted.output
    assert "model [1].sswim" in fitted.output
    assert "x [m] (number)" in " ".join(invoke("info", model).output.split())


def test_a_model_of_neighbours_is_fitted_and_predicts(table: Path, tmp_path: Path) -> None:
    model, out = tmp_path / "model.sswim", tmp_path / "out.parquet"
    fitted = fit_prices(table, model, "--n-neighbors", "16", "--inputs", "normal-scores")
    assert fitted.exit_code == 0, fitted.output
    assert "from 60 rows" in fitted.stdout
    assert load(model).n_neighbors == 16
    assert invoke("predict", model, table, "--out", out).exit_code == 0
    rows = read_table(out)
    lower, median, upper = (rows[name].to_numpy() for name in ("lower", "median", "upper"))
    assert (lower < median).all()
    assert (median < upper).all()
    assert invoke("evaluate", model, table).exit_code == 0


def test_a_model_of_neighbours_can_be_written_without_rows(table: Path, tmp_path: Path) -> None:
    model, out = tmp_path / "model.sswim", tmp_path / "out.parquet"
    fitted = fit_prices(table, model, "--n-neighbors", "16", "--no-include-rows")
    assert fitted.exit_code == 0, fitted.output
    refused = invoke("predict", model, table, "--out", out)
    assert refused.exit_code == 1
    assert "was saved without them" in " ".join(refused.stderr.split())
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--n-neighbors", "-3"), "n_neighbors must be an integer of at least 1"),
        (("--n-neighbors", "8", "--growing"), "no setting 'growing'. It belongs to Warped"),
        (("--depth", "1", "--no-local-amplitude"), "It belongs to NeighbourGPRegressor"),
        (("--objective", "evidence"), "--depth chooses WarpedGPRegressor"),
    ],
)
def test_options_of_another_estimator_are_refused(
    options: tuple[str, ...], words: str, table: Path, tmp_path: Path
) -> None:
    out = tmp_path / "m.sswim"
    refused = invoke("fit", table, "--target", "price", "--out", out, *options)
    assert refused.exit_code == 1
    assert words in " ".join(refused.stderr.split())
    assert not out.exists()
