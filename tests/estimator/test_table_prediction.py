from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.commands import succeed
from builders.estimators import small
from builders.processes import run_processes
from builders.tables import mixed, small_chunks

from sswim import load
from sswim.distributed.processes import ALONE, Processes
from sswim.estimator import BaseRegressor
from sswim.estimator.table_prediction import (
    NAMES,
    TablePrediction,
    assign_by_size,
    predicted_columns,
)
from sswim.tables import Schema, TableError, open_source, read_table, write_table

N_ROWS = 97

SIZES = {"a.parquet": 50, "b/none.parquet": 0, "b/c.parquet": 7, "b/d.parquet": 40}
"""Numbers of rows of the files of a folder."""


def rows() -> pa.Table:
    """Return a table with a column of identifiers that the model does not use."""
    return mixed(N_ROWS).append_column("id", pa.array(2**60 + np.arange(N_ROWS)))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a model with two members."""
    folder = tmp_path_factory.mktemp("model")
    write_table(rows(), folder / "rows.parquet")
    regressor = small(n_components=16, n_pseudo=4, n_members=2, max_iter=3)
    regressor.fit(open_source(folder / "rows.parquet", "y", drop=["id"]))
    path = folder / "model.sswim"
    regressor.save(path)
    return path


def load_model(model: Path) -> tuple[BaseRegressor, Schema]:
    regressor = load(model)
    return regressor, regressor.table_schema_


def write_folder(folder: Path, table: pa.Table, suffix: str = ".parquet") -> Path:
    """Write rows to files of different sizes, one of them without rows."""
    first = 0
    for name, size in SIZES.items():
        file = folder / name.replace(".parquet", suffix)
        file.parent.mkdir(parents=True, exist_ok=True)
        part = table.slice(first, size)
        if suffix == ".parquet":
            pq.write_table(part, file, row_group_size=8)
        else:
            write_table(part, file)
        first += size
    return folder


def predict(model: Path, source: Path, out: Path, **changes: Any) -> int:
    say, processes = changes.pop("say", print), changes.pop("processes", ALONE)
    options: dict[str, Any] = {"level": 0.8, "prefix": "", "drop_missing": False} | changes
    return TablePrediction(*load_model(model), **options).write(source, out, say, processes)


@pytest.fixture(scope="module")
def expected(model: Path, tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    """The command's predictions of the rows in one file that fits in memory."""
    folder = tmp_path_factory.mktemp("expected")
    source, out = folder / "in.arrow", folder / "out.arrow"
    write_table(rows(), source)
    succeed("predict", model, source, "--out", out, "--level", "0.8")
    return read_table(out)


def read_all(folder: Path) -> pa.Table:
    return pa.concat_tables([pq.ParquetFile(folder / name).read() for name in SIZES])


def assert_same(ours: pa.Table, theirs: pa.Table) -> None:
    assert ours.column_names == theirs.column_names
    for name in theirs.column_names:
        if name in NAMES:
            np.testing.assert_allclose(ours[name].to_numpy(), theirs[name].to_numpy(), rtol=1e-9)
        else:
            assert ours[name].to_pylist() == theirs[name].to_pylist()


def test_a_folder_becomes_a_folder(
    model: Path, expected: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_chunks(monkeypatch, 20)
    source, out = write_folder(tmp_path / "in", rows()), tmp_path / "new" / "out"
    assert predict(model, source, out) == N_ROWS
    assert_same(read_all(out), expected)
    assert sorted(p.relative_to(out) for p in out.rglob("*.*")) == sorted(map(Path, SIZES))
    whole = pq.ParquetFile(out / "a.parquet").metadata
    assert [whole.row_group(n).num_rows for n in range(whole.num_row_groups)] == [20, 20, 10]


def predict_twice(
    processes: Processes, model: Path, source: Path, broken: Path, out: Path
) -> tuple[int, list[str], str]:
    """Predict a folder, and another one in which one process finds an infinite value."""
    told: list[str] = []
    n_rows = predict(model, source, out / "whole", processes=processes, say=told.append)
    try:
        predict(model, broken, out / "broken", processes=processes)
    except TableError as error:
        return n_rows, told, str(error)
    return n_rows, told, ""


def test_two_processes_write_what_one_does(model: Path, expected: pa.Table, tmp_path: Path) -> None:
    source = write_folder(tmp_path / "in", rows())
    broken = write_folder(tmp_path / "broken", with_value(rows(), 60, np.inf))
    out = tmp_path / "out"
    results = run_processes(2, predict_twice, model, source, broken, out)
    message = f"an infinite one in 'f' in row 4 of its file, counted from 1, which is in '{broken}/"
    for n_rows, told, refusal in results:
        assert (n_rows, told) == (N_ROWS, [])
        assert message in refusal
    assert_same(read_all(out / "whole"), expected)
    assert not (out / "broken" / "b" / "d.parquet").exists()


def with_value(table: pa.Table, row: int, value: float | None) -> pa.Table:
    values = table["f"].to_pylist()
    values[row] = value
    array = pa.array(values, table["f"].type)
    return table.set_column(table.column_names.index("f"), "f", array)


def test_rows_with_missing_values_are_predicted_or_left_out(
    model: Path, expected: pa.Table, tmp_path: Path
) -> None:
    source = write_folder(tmp_path / "in", with_value(rows(), 52, None))
    assert predict(model, source, tmp_path / "imputed") == N_ROWS
    imputed = read_all(tmp_path / "imputed")
    assert imputed["std"][52].as_py() > expected["std"][52].as_py()
    told: list[str] = []
    out = tmp_path / "out"
    assert predict(model, source, out, drop_missing=True, say=told.append) == N_ROWS - 1
    assert told == ["Left out 1 of 97 rows with missing values."]
    kept = pa.array(np.arange(N_ROWS) != 52)
    assert_same(read_all(out), expected.filter(kept))
    assert_same(imputed.filter(kept), expected.filter(kept))


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".csv.gz", ".arrow"])
def test_a_file_becomes_a_file(
    suffix: str, model: Path, expected: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_chunks(monkeypatch, 20)
    source, out = tmp_path / f"in{suffix}", tmp_path / "out.parquet"
    write_table(rows(), source)
    out.write_text("an older one")
    assert predict(model, source, out, processes=Processes(0, 1)) == N_ROWS
    found = read_table(out)
    assert found["id"].to_pylist() == rows()["id"].to_pylist()  # to the last digit
    assert_same(found.drop_columns(["day"]), expected.drop_columns(["day"]))


def test_a_folder_of_csv_becomes_one_of_parquet(
    model: Path, expected: pa.Table, tmp_path: Path
) -> None:
    source = write_folder(tmp_path / "in", rows(), ".csv.gz")
    assert predict(model, source, tmp_path / "out") == N_ROWS
    found = read_all(tmp_path / "out")
    assert_same(found.drop_columns(["day"]), expected.drop_columns(["day"]))
    assert found.schema.field("id").type == pa.int64()


def test_columns_of_folder_names_are_used_and_stay_there(model: Path, tmp_path: Path) -> None:
    for town in ("York", "Bath"):
        part = rows().filter(pa.compute.equal(rows()["town"], town)).drop_columns(["town"])
        folder = tmp_path / "in" / f"town={town}"
        folder.mkdir(parents=True)
        pq.write_table(part, folder / "part.parquet")
    predict(model, tmp_path / "in", tmp_path / "out")
    regressor, _ = load_model(model)
    for town in ("York", "Bath"):
        found = pq.ParquetFile(tmp_path / "out" / f"town={town}" / "part.parquet").read()
        names = [name for name in rows().column_names if name != "town"]
        assert found.column_names == [*names, *NAMES]
        inputs = rows().filter(pa.compute.equal(rows()["town"], town))
        ours = predicted_columns(regressor, inputs, 0.8)
        np.testing.assert_allclose(found["median"].to_numpy(), ours["median"], rtol=1e-9)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"out": "in"}, r"folder that is empty or does not exist. Got .*in', which is not empty"),
        ({"out": "in/a.parquet"}, "which is a file"),
        ({"level": 1.5}, "level must lie between 0 and 1"),
        ({"source": "in/a.parquet", "out": "out.csv"}, "must be written to a .parquet file"),
        ({"source": "in/a.parquet", "out": "no/out.parquet"}, "folder that exists"),
        ({"source": "nowhere.csv", "out": "out.parquet"}, "cannot be found"),
        ({"source": "predicted"}, "New columns must have new names. Got 'mean'.*--prefix"),
        ({"source": "other"}, "must have columns 'town'"),
        ({"source": "twice"}, r"differ in more than their suffix.*x.csv', .*x.csv.gz'"),
    ],
)
def test_what_cannot_be_predicted_is_refused_before_anything_is_written(
    changes: dict[str, Any], message: str, model: Path, tmp_path: Path
) -> None:
    table = rows()
    write_folder(tmp_path / "in", table)
    write_folder(tmp_path / "predicted", table.append_column("mean", table["f"]))
    write_folder(tmp_path / "other", table.drop_columns(["town"]))
    (tmp_path / "twice").mkdir()
    for name in ("x.csv", "x.csv.gz"):
        write_table(table, tmp_path / "twice" / name)
    before = sorted(tmp_path.rglob("*"))
    paths = {"source": "in", "out": "out"} | changes
    arguments = {name: tmp_path / paths.pop(name) for name in ("source", "out")}
    with pytest.raises((TableError, ValueError, FileNotFoundError), match=message):
        predict(model, **arguments, **paths)
    assert sorted(tmp_path.rglob("*")) == before


def test_it_tells_how_far_it_is(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sswim.estimator.progress.LINE_SECONDS", 0.0)
    told: list[str] = []
    predict(model, write_folder(tmp_path / "in", rows()), tmp_path / "out", say=told.append)
    assert [line.split(",")[0] for line in told] == ["predicting: 52%", "predicting: 93%"]
    write_table(rows(), tmp_path / "in.csv")
    predict(model, tmp_path / "in.csv", tmp_path / "out.parquet", say=told.append)
    assert len(told) == 2  # at the end there is nothing left to tell


def test_columns_are_what_the_regressor_predicts(model: Path) -> None:
    regressor, _ = load_model(model)
    columns = predicted_columns(regressor, rows(), 0.8)
    assert tuple(columns) == NAMES
    mean, std = regressor.predict(rows(), return_std=True)
    lower, upper = regressor.predict_interval(rows(), 0.8)
    median = regressor.predict_quantiles(rows(), 0.5)[:, 0]
    for ours, theirs in zip(columns.values(), (mean, std, median, lower, upper), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        predicted_columns(regressor, rows(), 1.0)


def test_files_are_dealt_evenly() -> None:
    assert assign_by_size([5, 1, 9, 4, 4], 2) == [[2, 4], [0, 3, 1]]
    assert assign_by_size([3], 3) == [[0], [], []]
    assert assign_by_size([], 2) == [[], []]
