"""The commands that fit, predict and evaluate tables."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from builders.commands import invoke

from sswim import SSWIMRegressor
from sswim.tables.table_io import read_table, write_table

PREDICTED = ("mean", "std", "median", "lower", "upper")
FAST = [
    "--depth",
    "1",
    "--max-iter",
    "3",
    "--n-components",
    "16",
    "--n-pseudo",
    "4",
    "--random-state",
    "0",
    "--quiet",
]

QUICK: dict[str, Any] = {
    "depth": 1,
    "n_components": 16,
    "n_pseudo": 4,
    "max_iter": 2,
    "random_state": 0,
}


def make_table(n: int = 60) -> pa.Table:
    random = np.random.default_rng(0)
    x = random.uniform(-2, 2, n)
    colour = random.choice(["red", "green", "blue"], n)
    return pa.table(
        {
            "id": np.arange(n),
            "x": x,
            "colour": colour,
            "price": np.sin(2 * x) + (colour == "red") + 0.1 * random.normal(size=n),
        }
    )


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.parquet"
    pq.write_table(make_table(), path)
    return path


@pytest.fixture
def model(table: Path, tmp_path: Path) -> Path:
    path = tmp_path / "model.sswim"
    result = invoke("fit", table, "--target", "price", "--drop", "id", "--out", path, *FAST)
    assert result.exit_code == 0, result.output
    return path


def test_fit_writes_a_model_that_python_reads(model: Path) -> None:
    regressor = SSWIMRegressor.load(model)
    assert list(regressor.feature_names_in_) == ["x", "colour=blue", "colour=green", "colour=red"]
    assert regressor.max_iter == 3


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".csv.gz", ".arrow"])
def test_predict_adds_its_columns_to_the_rows_in_their_order(
    model: Path, table: Path, tmp_path: Path, suffix: str
) -> None:
    source, out = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    write_table(make_table(), source)
    assert invoke("predict", model, source, "--out", out, "--coverage", "0.8").exit_code == 0
    rows = read_table(out)
    assert rows.column_names == ["id", "x", "colour", "price", *PREDICTED]
    assert rows["id"].to_pylist() == list(range(60))
    values = {name: rows[name].to_numpy() for name in PREDICTED}
    assert np.allclose(values["upper"] - values["mean"], 1.2815515 * values["std"], rtol=1e-5)
    assert np.allclose(values["lower"] + values["upper"], 2 * values["mean"])


def test_densities_have_their_options(table: Path, tmp_path: Path) -> None:
    model, out = tmp_path / "model.sswim", tmp_path / "out.parquet"
    options = ["--output-warp", "tanh", "--n-output-terms", "3", "--noise", "input-dependent"]
    fitted = invoke(
        "fit", table, "--target", "price", "--drop", "id", "--out", model, *FAST, *options
    )
    assert fitted.exit_code == 0, fitted.output
    assert invoke("predict", model, table, "--out", out).exit_code == 0
    rows = read_table(out)
    lower, median, upper = (rows[name].to_numpy() for name in ("lower", "median", "upper"))
    assert (lower < median).all()
    assert (median < upper).all()
    told = " ".join(invoke("info", model).output.split())
    assert "input-dependent" in told
    assert "tanh" in told


def test_evaluate_and_info_tell(model: Path, table: Path) -> None:
    evaluated = invoke("evaluate", model, table)
    assert evaluated.exit_code == 0
    for word in ("RMSE", "MNLP", "R²", "coverage of 90% intervals"):
        assert word in evaluated.output
    told = invoke("info", model)
    assert told.exit_code == 0
    for word in ("price", "colour (category)", "rows seen", "60", "max_iter"):
        assert word in told.output


def test_rows_with_missing_values_are_left_out_of_a_fit(tmp_path: Path) -> None:
    rows = make_table().to_pydict()
    rows["x"][3] = rows["colour"][5] = None
    path, out = tmp_path / "gaps.parquet", tmp_path / "m.sswim"
    pq.write_table(pa.table(rows), path)
    places: list[str | Path] = [path, "--out", out]
    command = ["fit", *places, "--target", "price", "--drop", "id", *FAST]
    refused = invoke(*command)
    assert refused.exit_code == 1
    assert "'x' (1 rows), 'colour' (1 rows)" in refused.stderr
    fitted = invoke(*command, "--drop-missing")
    assert fitted.exit_code == 0
    assert "Left out 2 of 60 rows with missing values." in fitted.stderr
    assert "from 58 rows" in fitted.stdout
    assert invoke(*command, "--drop-missing", "--memory", "0").exit_code == 0
    assert SSWIMRegressor.load(out).n_samples_seen_ == 58


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".arrow"])
def test_evaluate_scores_whole_tables_and_chunks_alike(
    model: Path, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"t{suffix}"
    write_table(make_table(), path)
    whole, chunks = (invoke("evaluate", model, path, "--memory", each) for each in ("1GB", "0"))
    assert whole.exit_code == 0
    assert whole.output == chunks.output


def test_same_seed_same_model(table: Path, tmp_path: Path) -> None:
    paths = [tmp_path / "a.sswim", tmp_path / "b.sswim"]
    for path in paths:
        invoke("fit", table, "--target", "price", "--drop", "id", "--out", path, *FAST)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_unknown_categories_are_told_and_predicted(model: Path, tmp_path: Path) -> None:
    rows = make_table(5)
    rows = rows.set_column(2, "colour", pa.array(["mauve"] * 5))
    write_table(rows, tmp_path / "new.csv")
    result = invoke("predict", model, tmp_path / "new.csv", "--out", tmp_path / "out.csv")
    assert result.exit_code == 0
    assert "Warning" in result.output
    assert "mauve" in result.output
    assert read_table(tmp_path / "out.csv").num_rows == 5


def test_missing_values_are_refused_or_dropped(model: Path, tmp_path: Path) -> None:
    rows = make_table(10).to_pydict()
    rows["x"][3] = None
    path, out = tmp_path / "gaps.parquet", tmp_path / "out.parquet"
    pq.write_table(pa.table(rows), path)
    refused = invoke("predict", model, path, "--out", out)
    assert refused.exit_code == 1
    assert "'x' (1 rows)" in " ".join(refused.output.split())
    assert not out.exists()
    kept = invoke("predict", model, path, "--out", out, "--drop-missing")
    assert kept.exit_code == 0
    assert "Left out 1 of 10 rows" in kept.output
    assert read_table(out)["id"].to_pylist() == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    refused = invoke("evaluate", model, path)
    assert refused.exit_code == 1
    assert "Got none in 'x' in row 4" in refused.stderr
    for memory in ("2GiB", "0"):  # read whole, and in chunks
        kept = invoke("evaluate", model, path, "--drop-missing", "--memory", memory)
        assert kept.exit_code == 0
        assert "Left out 1 of 10 rows" in kept.stderr
        assert "on 9 rows of" in " ".join(kept.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "nowhere.csv", "--target", "y", "--out", "m.sswim"], "cannot be found"),
        (["fit", "{table}", "--target", "prize", "--out", "{tmp}/m"], "close to it: 'price'"),
        (["fit", "{table}", "--target", "colour", "--out", "{tmp}/m"], "must hold numbers"),
        (["fit", "{table}", "--target", "price", "--out", "{tmp}/no/m"], "folder that exists"),
        (
            ["fit", "{table}", "--target", "price", "--out", "{tmp}/m", "--n-components", "0"],
            "n_components must be an integer of at least 1",
        ),
        (
            ["fit", "{table}", "--target", "price", "--out", "{tmp}/m", "--learning-rate", "-1"],
            "learning_rate and noise_rate positive",
        ),
        (["predict", "{table}", "{table}", "--out", "{tmp}/o.csv"], "not a sswim model"),
        (["predict", "{model}", "{table}", "--out", "{tmp}/o.xlsx"], "must end in"),
        (["predict", "{model}", "{table}", "--out", "{tmp}/o.csv", "--coverage", "2"], "coverage"),
        (["predict", "{model}", "{other}", "--out", "{tmp}/o.csv"], "must have columns 'colour'"),
        (["predict", "{model}", "{predicted}", "--out", "{tmp}/o.csv"], "--prefix"),
        (["info", "{tmp}/none.sswim"], "cannot be read"),
        (["evaluate", "{model}", "{untargeted}"], "must have columns 'price'"),
    ],
)
def test_user_errors_are_told_without_a_traceback(
    arguments: list[str], message: str, model: Path, table: Path, tmp_path: Path
) -> None:
    rows = make_table(8)
    write_table(rows.drop_columns(["colour"]), tmp_path / "other.csv")
    write_table(rows.drop_columns(["price"]), tmp_path / "untargeted.csv")
    write_table(rows.append_column("mean", rows["x"]), tmp_path / "predicted.csv")
    places = {
        "table": table,
        "model": model,
        "tmp": tmp_path,
        **{name: tmp_path / f"{name}.csv" for name in ("other", "untargeted", "predicted")},
    }
    before = sorted(tmp_path.iterdir())
    result = invoke(*(argument.format(**places) for argument in arguments))
    assert result.exit_code == 1
    assert "Error: " in result.output
    assert message in " ".join(result.output.split())
    assert "Traceback" not in result.output
    assert sorted(tmp_path.iterdir()) == before


def test_a_model_fitted_in_python_on_named_columns_can_be_used(tmp_path: Path) -> None:
    rows = make_table()
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
    refused = invoke("info", tmp_path / "m.sswim")
    assert refused.exit_code == 0  # there is something to say of it
    refused = invoke(
        "predict", tmp_path / "m.sswim", tmp_path / "t.csv", "--out", tmp_path / "p.csv"
    )
    assert refused.exit_code == 1
    assert "names of its columns" in " ".join(refused.output.split())


def test_names_that_look_like_mark_up_are_shown_as_they_are(tmp_path: Path) -> None:
    rows = make_table().rename_columns(["id", "x [m]", "colour", "price [red]"])
    source, model = tmp_path / "[bold] table.csv", tmp_path / "model [1].sswim"
    write_table(rows, source)
    fitted = invoke("fit", source, "--target", "price [red]", "--out", model, *FAST)
    assert "'price [red]'" in fitted.output
    assert "model [1].sswim" in fitted.output
    assert "x [m] (number)" in " ".join(invoke("info", model).output.split())


def test_a_model_of_several_targets_is_for_python(tmp_path: Path) -> None:
    rows = make_table()
    frame = rows.select(["x", "id"]).to_pandas()
    SSWIMRegressor(**QUICK).fit(frame, frame).save(tmp_path / "m.sswim")
    write_table(rows, tmp_path / "t.csv")
    out = tmp_path / "o.csv"
    refused = invoke("predict", tmp_path / "m.sswim", tmp_path / "t.csv", "--out", out)
    assert refused.exit_code == 1
    assert "predicts one target" in refused.output
    SSWIMRegressor(**QUICK).fit(frame, frame[["x"]]).save(tmp_path / "m.sswim")
    assert invoke("predict", tmp_path / "m.sswim", tmp_path / "t.csv", "--out", out).exit_code == 0


def test_demo_makes_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = {name: value for name, value in QUICK.items() if name != "depth"}
    monkeypatch.setattr(
        "sswim.lab.demo.demo_regressor", lambda depth: SSWIMRegressor(depth=depth, **quick)
    )
    assert invoke("demo", "--out", tmp_path / "new" / "folder").exit_code == 0
    assert sorted(p.name for p in (tmp_path / "new" / "folder").iterdir()) == [
        "demo.html",
        "demo.png",
    ]


def test_ctrl_c_keeps_the_best_so_far(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.sswim"
    arguments = ["fit", str(table), "--target", "price", "--drop", "id", "--out", str(out)]
    arguments += ["--max-iter", "100000", "--n-components", "64"]
    imports = "import sswim.cli.app, sswim.estimator.regressor, sswim.tables.table_source"
    program = f"{imports}; print('imported', flush=True); sswim.cli.app.app({arguments})"
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "imported\n"
    time.sleep(5)  # well into training, which would take hours
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "keeping the best" in errors
    assert "Training ended after" in errors
    assert "wrote" in output
    assert SSWIMRegressor.load(out).n_iter_ > 0
