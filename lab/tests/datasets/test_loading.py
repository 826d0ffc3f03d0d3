"""The catalogue of data sets, public files, preparation and splits; scores on two real ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lab_builders.datasets import (
    STORED,
    available_file,
    publish,
    real_split,
    stored_table,
    tar_archive,
    write_columns,
)
from sswim_lab.datasets import DATA_SETS, load, originals, split
from sswim_lab.datasets.originals import open_in_tar, open_in_zip

from sswim import SSWIMRegressor, WarpedGPRegressor
from sswim.estimator.evaluation import evaluate
from sswim.tables import read_table

Columns = Mapping[str, Sequence[object]]
FLIGHT: Columns = {
    **{"year": [2013], "month": [1], "day": [1], "sched_dep_time": [1], "sched_arr_time": [1]},
    **{"carrier": ["AA"], "origin": ["EWR"], "dest": ["IAH"], "distance": [1], "arr_delay": [1]},
}


def test_rows_are_permuted_and_cut_at_two_thirds(tmp_path: Path) -> None:
    write_columns(tmp_path, "airfoil", {"a": list(range(10)), "b": list(range(10))})
    rows, named = split("airfoil", 3, tmp_path), split("airfoil", 3, tmp_path, "paper")
    order = np.random.RandomState(3).permutation(10)
    assert rows.train_x[:, 0].tolist() == order[:7].tolist() == rows.train_y.tolist()
    assert rows.test_x[:, 0].tolist() == order[7:].tolist() == rows.test_y.tolist()
    assert np.array_equal(named.train_x, rows.train_x)
    with pytest.raises(ValueError, match=r"A protocol must be one of paper\. Got 'all'"):
        split("airfoil", 0, tmp_path, "all")
    with pytest.raises(ValueError, match="A data set must be one of elevators, airfoil"):
        split("boston", 0)


@pytest.mark.parametrize(
    ("name", "columns", "message"),
    [
        ("elevators", {"a": [1], "Goal": [1]}, r"must have columns 'part'\. Got 'a', 'Goal'"),
        ("parkinsons", {"age": [1], "total_UPDRS": [1]}, "must have columns 'subject#', 'sex'"),
        ("bikeshare", {"instant": [1], "cnt": [1]}, "must have columns 'dteday'"),
        ("bikeshare", {"instant": [1], "dteday": ["1 May"], "cnt": [1]}, "1 May"),
        ("bikeshare", {"instant": [1], "dteday": [1.5], "cnt": [1]}, "strptime"),
        ("abalone", {"a": [1], "Rings": [1]}, "must have columns 'Sex'"),
        ("abalone", {"Sex": ["F", "?"], "a": [1, 2], "Rings": [1, 2]}, r"hold F, I, M\. Got '\?'"),
        ("nycflights13", {"year": [2013], "arr_delay": [1]}, "must have columns 'month', 'day'"),
        ("nycflights13", {**FLIGHT, "origin": ["LHR"]}, r"hold EWR, JFK, LGA\. Got 'LHR'"),
        ("airfoil", {"a": ["1"], "b": [1]}, "Column 'a' must hold numbers. Got type string"),
        ("airfoil", {"a": [None], "b": [1]}, "No value may be missing. Got missing values in"),
        ("airfoil", {"a": [1, 2], "b": [1, np.inf]}, "must be finite. Got 1 in column 'b'"),
        ("airfoil", {"a": [np.nan, np.nan], "b": [1, 2]}, "must be finite. Got 2 in column 'a'"),
        ("protein", {"a": [1, 2], "RMSD": [1, -1]}, r"finite. Got 1 in column 'log\(1 \+ RMSD\)'"),
        ("airfoil", {"b": [1, 2]}, "There must be an input and a target. Got columns 'b'"),
        ("airfoil", {"a": [], "b": []}, "A table must have at least one row"),
    ],
)
def test_a_table_with_wrong_columns_raises_an_error(
    tmp_path: Path, name: str, columns: Columns, message: str
) -> None:
    write_columns(tmp_path, name, columns)
    with pytest.raises(ValueError, match=message) as caught:
        load(name, tmp_path)
    assert str(tmp_path / f"{name}.parquet") in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"no table", b"PAR1" + bytes(100) + b"PAR1"])
def test_a_file_that_is_no_parquet_raises_an_error(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "creep.parquet"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"creep\.parquet' cannot be read as \.parquet"):
        load("creep", tmp_path)


@pytest.mark.parametrize(
    ("name", "n_rows", "message"),
    [
        ("creep", 800, "Got 800 rows, of which 800 would"),
        ("airfoil", 1, "Got 1 rows, of which 1 would"),
        ("ailerons", 5, "Got 5 rows, of which 1003 would"),
        ("elevators", 0, "Got 0 rows, of which 0 would"),
    ],
)
def test_too_few_rows_raise_an_error(tmp_path: Path, name: str, n_rows: int, message: str) -> None:
    values = list(range(n_rows + 1))
    parts = {"part": ["train"] * n_rows + ["test"]} if name in ("elevators", "ailerons") else {}
    kept = slice(None) if parts else slice(n_rows)
    write_columns(tmp_path, name, {**parts, "a": values[kept], "b": values[kept]})
    with pytest.raises(ValueError, match=f"{name}.*must have training and test rows. {message}"):
        split(name, 0, tmp_path)


CO2 = {
    "date": ["1958-03-29", "1958-04-05"],
    "decimal_year": [1958.24, 1958.26],
    "co2": [316.1, 317.3],
}
PATIENTS = {"patientId": [1, 2], "value0": [0.5, 0.5], "value1": [0, 1], "reference": [3, 3]}
DAYS = {"instant": [1, 2], "dteday": ["1970-01-01", "1970-01-02"], "cnt": [0, 1]}
DROPPED = ("subject#", "age", "sex", "test_time", "motor_UPDRS")
PARTS = {"part": ["train", "test", "train"], "a": [1, 2, 3], "Goal": [4, 5, 6]}


@pytest.mark.parametrize(
    ("name", "columns", "x", "y"),
    [
        ("airfoil", {"a": [3, 1], "b": [0.5, 1.5]}, {"a": [3, 1]}, {"b": [0.5, 1.5]}),
        ("elevators", PARTS, {"a": [1, 3]}, {"Goal": [4, 6]}),
        (
            "abalone",
            {"Sex": ["M", "F", "I"], "a": [2] * 3, "Rings": [1] * 3},
            {"Sex_I": [0, 0, 1], "Sex_M": [1, 0, 0], "a": [2] * 3},
            {"Rings": [1] * 3},
        ),
        ("bikeshare", DAYS, {"dteday": [0, 86400]}, {"cnt": [0, 1]}),
        (
            "parkinsons",
            {name: [1.0] for name in (*DROPPED, "jitter", "total_UPDRS")},
            {"jitter": [1]},
            {"total_UPDRS": [1]},
        ),
        (
            "protein",
            {"F1": [0.5], "RMSD": [2.0]},
            {"F1": [0.5]},
            {"log(1 + RMSD)": [np.log1p(2.0)]},
        ),
        (
            "buzz",
            {"NAD_0": [0, 1], "Mean_NAD": [0, 1]},
            {"NAD_0": [0, 1]},
            {"log(1 + Mean_NAD)": [0, np.log1p(1.0)]},
        ),
        ("ct_slice", PATIENTS, {"value1": [0, 1]}, {"reference": [3, 3]}),
        ("maunaloa_co2", CO2, {"decimal_year": [1958.24, 1958.26]}, {"co2": [316.1, 317.3]}),
    ],
)
def test_inputs_and_targets_are_prepared(
    tmp_path: Path, name: str, columns: Columns, x: dict[str, Any], y: dict[str, Any]
) -> None:
    write_columns(tmp_path, name, columns)
    table = load(name, tmp_path)
    assert (table.inputs, table.target) == (tuple(x), *y)
    np.testing.assert_allclose(table.x, np.column_stack([*x.values()]))
    np.testing.assert_allclose(table.y, *y.values())


def test_flights_have_only_inputs_known_before_their_day(tmp_path: Path) -> None:
    columns: dict[str, Sequence[object]] = {
        **{"year": [2013] * 3, "month": [1, 3, 12], "day": [1, 1, 31]},
        **{"dep_time": [1, 2, 3], "dep_delay": [1, 2, 3], "arr_time": [1, 2, 3]},
        **{"sched_dep_time": [515, 1345, 2359], "sched_arr_time": [819, 1, 1200]},
        **{"carrier": ["9E", "AA", "YV"], "origin": ["EWR", "JFK", "LGA"]},
        **{"dest": ["IAH", "ATL", "ATL"], "distance": [1400, 760, 760]},
        **{"tailnum": ["N1", "N2", "N3"], "arr_delay": [11, 20, -18]},
    }
    write_columns(tmp_path, "nycflights13", columns)
    table = load("nycflights13", tmp_path)
    days, clocks = ("day_of_year", "weekday"), ("sched_dep_time", "sched_arr_time")
    assert table.inputs[:6] == (*days, *clocks, "distance", "dest")
    assert table.inputs[6:9] == ("origin_JFK", "origin_LGA", "carrier_AA")
    assert table.x[:, :6].tolist() == [
        [1, 1, 5 * 60 + 15, 8 * 60 + 19, 1400, 1],  # a Tuesday
        [60, 4, 13 * 60 + 45, 1, 760, 0],
        [365, 1, 23 * 60 + 59, 12 * 60, 760, 0],
    ]
    indicators = table.x[:, 6:]
    assert indicators.sum(axis=1).tolist() == [0, 2, 2]  # the first levels have none
    assert indicators[2, [1, -1]].tolist() == [1, 1]
    assert table.y.tolist() == [11, 20, -18]


@pytest.mark.parametrize("name", DATA_SETS)
def test_the_catalogue_agrees_with_the_real_files(name: str) -> None:
    known = DATA_SETS[name]
    folder = available_file(name).parent
    table = load(name, folder)
    assert table.x.shape == (known.n_rows, known.n_inputs)
    assert table.target == known.target
    assert len(set(table.inputs)) == known.n_inputs
    rows = split(name, 9, folder)
    assert len(rows.train_y) == (known.n_train or round(2 * known.n_rows / 3))
    order = np.random.RandomState(9).permutation(known.n_rows)
    assert np.array_equal(np.concatenate([rows.train_y, rows.test_y]), table.y[order])


def test_the_catalogue_is_complete_and_agrees_with_the_docs() -> None:
    sets = DATA_SETS.values()
    assert list(DATA_SETS) == [each.name for each in sets]
    assert [each.n_train for each in sets if each.n_train] == [1000, 800, 1003]
    assert [each.in_paper for each in sets] == [True] * 13 + [False] * 8
    for each in sets:
        assert each.page.startswith("https://")
        assert each.original is None or each.original.url.startswith("https://")
        assert "" not in (each.target, each.source, each.licence, each.treatment)
    document = Path(__file__).parents[3] / "docs" / "data.md"
    lines = document.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("| `")] == [
        f"| `{each.name}` | {each.n_rows:,} | {each.n_inputs} | `{each.target}` "
        f"| [{each.source}]({each.page}) | {each.licence} | {each.treatment} |"
        for each in sets
    ]


def parse(name: str, file: Path) -> pa.Table:
    original = DATA_SETS[name].original
    assert original is not None
    return original.parse(file)


def assert_same(one: pa.Table, other: pa.Table) -> None:
    assert one.column_names == other.column_names
    for name in one.column_names:
        left, right = (table[name].to_pylist() for table in (one, other))
        assert left == right, name


@pytest.mark.parametrize("name", [name for name, each in DATA_SETS.items() if each.original])
def test_an_original_becomes_the_stored_table(tmp_path: Path, name: str) -> None:
    table = stored_table(name)
    parsed = parse(name, publish(name, table, tmp_path))
    assert_same(parsed, table)
    assert name != "song" or set(parsed.schema.types) == {pa.float32(), pa.int16()}
    prepared = DATA_SETS[name].prepare(parsed)
    assert prepared.num_columns == DATA_SETS[name].n_inputs + 1
    assert prepared.column_names[-1] == DATA_SETS[name].target


@pytest.mark.parametrize("name", STORED)
def test_an_original_of_real_rows_becomes_the_stored_table(tmp_path: Path, name: str) -> None:
    table = read_table(available_file(name))
    if "part" in table.column_names:
        parts = [table.filter(pc.equal(table["part"], part)) for part in ("train", "test")]
        table = pa.concat_tables([part.slice(0, 25) for part in parts])
    assert_same(parse(name, publish(name, table.slice(0, 50), tmp_path)), table.slice(0, 50))


def test_numbers_that_become_fractions_late_are_read(tmp_path: Path) -> None:
    """Column types fit all rows, not only the first block."""
    n = 200_000
    names = STORED["airfoil"]
    values = np.ones((n, 6), dtype=object)
    values[-1] = 0.5
    table = pa.table({name: values[:, at].astype(str) for at, name in enumerate(names)})
    parsed = originals.airfoil(publish("airfoil", table, tmp_path))
    assert parsed["Frequency"].to_pylist()[-2:] == [1, 0.5]


def test_another_number_of_columns_raises_an_error(tmp_path: Path) -> None:
    table = stored_table("abalone").append_column("more", [[0.0] * 6])
    with pytest.raises(ValueError, match="Expected 9 columns, got 10"):
        originals.abalone(publish("abalone", table, tmp_path))


def test_an_archive_without_the_file_raises_an_error(tmp_path: Path) -> None:
    airfoil = publish("airfoil", stored_table("airfoil"), tmp_path)
    with (
        pytest.raises(ValueError, match=r"The archive must contain hour\.csv"),
        open_in_zip(airfoil, "hour.csv"),
    ):
        pass
    file = tmp_path / "some.tgz"
    file.write_bytes(tar_archive({"Elevators/elevators.data": b"1"}))
    with (
        pytest.raises(ValueError, match=r"The archive must contain elevators\.test"),
        open_in_tar(file, "elevators.test"),
    ):
        pass


def test_one_warp_beats_none_on_airfoil() -> None:
    rows = real_split("airfoil", 0)
    settings: dict[str, Any] = {
        "n_components": 192,
        "n_pseudo": 48,
        "random_state": 0,
        "device": "cpu",
    }
    none, one = (
        evaluate(
            WarpedGPRegressor(depth=depth, **settings).fit(rows.train_x, rows.train_y),
            rows.test_x,
            rows.test_y,
        )
        for depth in (0, 1)
    )
    assert one.rmse < none.rmse
    assert one.mnlp < none.mnlp


@pytest.mark.slow
@pytest.mark.parametrize("repeat", range(3))
def test_the_default_beats_the_best_published_on_creep(repeat: int) -> None:
    """The best published mean square error is 279.86, and the best published MNLP 4.21."""
    rows = real_split("creep", repeat)
    regressor = SSWIMRegressor(random_state=repeat, device="cpu").fit(rows.train_x, rows.train_y)
    scores = evaluate(regressor, rows.test_x, rows.test_y, 0.9)
    assert scores.rmse**2 < 279.86
    assert scores.mnlp < 4.21
    assert 0.86 < scores.coverage < 0.97
