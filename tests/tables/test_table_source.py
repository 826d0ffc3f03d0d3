from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from builders.tables import gaps, houses, learn, mixed, shares, small_chunks, with_gaps

from sswim.distributed.processes import Share
from sswim.rows import Chunk
from sswim.tables import (
    CategoryColumn,
    ChunkedTable,
    FrameSource,
    LeftOut,
    MemoryTable,
    NumberColumn,
    ParquetTable,
    Schema,
    TableError,
    TableNote,
    TableSource,
    complete_rows,
    keep_rows,
    naming_infinite,
    open_source,
    open_table,
    read_rows,
    sample_table,
    split_rows,
    target_numbers,
    write_table,
)
from sswim.tables import table as chunked_table

INPUTS = ["n", "f", "town", "day", "new"]
N_ROWS = 97


def gappy() -> pa.Table:
    return with_gaps(mixed(N_ROWS))


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["1.5", "2", None], [1.5, 2.0, np.nan]),
        (["1,5", "2", None], [1.5, 2.0, np.nan]),
        (["?", *map(str, range(9))], [np.nan, *range(9)]),
        (["1.234,5", "2"], [1234.5, 2.0]),
        (["1,234.5", "2"], [1234.5, 2.0]),
        (["1,234", "2,345"], [1234.0, 2345.0]),
        (["1 234,5", *["2,25"] * 9, "?"], [1234.5, *[2.25] * 9, np.nan]),
    ],
)
def test_text_targets_have_the_format_of_most(
    texts: list[str | None], numbers: list[float]
) -> None:
    targets = target_numbers(pa.table({"y": texts}), "y")
    assert np.array_equal(targets, numbers, equal_nan=True)


def test_chunks_have_the_format_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    small_chunks(monkeypatch, 2)
    texts = ["1.234,5", "7", "1.234", "5.678"]  # the last two might be fractions
    memory = MemoryTable(pa.table({"x": [1.0] * 4, "y": texts}), "t")
    for size in (1, 2):
        parts = [
            part for share in shares(size) for part in read_rows(memory, ["x"], "y", share=share)
        ]
        targets = np.concatenate([rows.targets[:, 0] for rows in parts])
        assert targets.tolist() == [1234.5, 7.0, 1234.0, 5678.0]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("town", r"'town' must hold numbers. Got text: 'York', 'Bath', 'Ely, the city'"),
        ("sold", r"'sold' must hold numbers. Got type date32"),
        ("time", r"'time' must hold numbers. Got type duration\[s\]; divide"),
    ],
)
def test_other_targets_are_refused(target: str, message: str) -> None:
    with pytest.raises(TableError, match=f"The target {message}"):
        target_numbers(houses().append_column("time", pa.array([1] * 4, pa.duration("s"))), target)


def test_all_columns_with_an_infinite_number_in_that_row_are_named() -> None:
    table = pa.table(
        {
            "a": [1.0, np.inf],
            "b": pa.array([1.0, -np.inf], pa.float16()),
            "c": ["x", "inf"],
            "d": [None, np.nan],
            "e": pa.array([1, None]),
        }
    )
    message = r"one in 'a', 'b' in row 9 of its file, .* in 'mine'"
    with (
        pytest.raises(TableError, match=message),
        naming_infinite(np.array([7, 8]), table, "mine", "its file"),
    ):
        raise TableError("Something else.")
    with (
        pytest.raises(TableError, match="Something else"),
        naming_infinite(np.array([7]), table.slice(0, 1), "mine"),
    ):
        raise TableError("Something else.")


@pytest.mark.parametrize("name", ["f", "y"])
def test_the_first_row_with_an_infinite_number_is_named(tmp_path: Path, name: str) -> None:
    table = mixed(1100)
    values = table[name].to_pylist()
    values[1061] = values[1080] = -np.inf
    place = table.column_names.index(name)
    table = table.set_column(place, name, pa.array(values, table[name].type))
    for file, piece in (("a", table.slice(0, 1000)), ("b", table.slice(1000))):
        pq.write_table(piece, tmp_path / f"{file}.parquet", row_group_size=50)
    message = f"Got an infinite one in {name!r} in row 1,062 of all rows, .*'{tmp_path}/b.parquet'"
    source = TableSource(ParquetTable.open(tmp_path), learn(mixed(1100)), LeftOut(any_missing=True))
    assert sum(len(chunk) for chunk in source.chunks(Share(0, 2))) == 550
    with pytest.raises(TableError, match=message):
        list(source.chunks(Share(1, 2)))
    with pytest.raises(TableError, match=message):
        open_source(tmp_path, "y")


SCHEMA = Schema("y", (NumberColumn("x"),))


def test_a_sample_has_rows_as_they_are_and_depends_on_its_seed_alone(tmp_path: Path) -> None:
    numbers = np.arange(3000.0)
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": numbers, "y": -numbers}), path, row_group_size=500)
    assert sample_table(SCHEMA, path, 3000).rows.numbers.tolist() == numbers.tolist()
    first = sample_table(SCHEMA, path, 100, random_state=1)
    again = sample_table(SCHEMA, path, 100, random_state=1, memory=10**9)
    other = sample_table(SCHEMA, path, 100, random_state=2)
    chosen = first.rows.numbers
    assert (len(chosen), first.n_rows, first.n_left_out) == (100, 3000, 0)
    assert first.rows.table.column("x").to_pylist() == chosen.tolist()
    assert first.rows.targets[:, 0].tolist() == (-chosen).tolist()
    assert np.array_equal(chosen, again.rows.numbers)
    assert len(np.intersect1d(chosen, other.rows.numbers)) < 20
    assert 1200 < chosen.mean() < 1800


def test_rows_that_are_left_out_of_a_sample_are_counted(tmp_path: Path) -> None:
    path, left_out = tmp_path / "t.parquet", LeftOut(target_missing=True)
    pq.write_table(pa.table({"x": [1.0, 2.0, None], "y": [1.0, None, 3.0]}), path)
    sample = sample_table(SCHEMA, path, 5, left_out=left_out)
    assert (sample.n_rows, sample.n_left_out) == (2, 1)
    pq.write_table(pa.table({"x": [1.0], "y": pa.array([None], pa.float64())}), path)
    with pytest.raises(TableError, match="At least one row"):
        sample_table(SCHEMA, path, 5, left_out=left_out)


def test_incomplete_rows_are_left_out() -> None:
    complete = complete_rows(gaps(), ["f", "d"])
    assert complete.tolist() == [True, False, False, True]
    assert keep_rows(gaps(), complete).equals(gaps().take([0, 3]))
    everything = complete_rows(houses(), houses().column_names)
    assert everything.all()
    assert keep_rows(houses(), everything).equals(houses())
    with pytest.raises(TableError, match="must have columns 'z'"):
        complete_rows(gaps(), ["z"])
    table = pa.table({"x": pa.array([["a"], ["b"]], pa.list_(pa.string_view())), "y": [1.0, None]})
    with pytest.raises(TableError, match="cannot be left out"):
        keep_rows(table, complete_rows(table, ["y"]))


def together(chunks: list[Chunk]) -> tuple[Any, Any, Any]:
    """Return numbers, inputs and targets of all chunks, in the order of the numbers."""
    order = np.argsort(np.concatenate([chunk.numbers for chunk in chunks]))
    columns = (
        [chunk.numbers for chunk in chunks],
        [chunk.rows.inputs.mean for chunk in chunks],
        [chunk.rows.targets[:, 0] for chunk in chunks],
    )
    numbers, inputs, targets = (np.concatenate(parts)[order] for parts in columns)
    return numbers, inputs, targets


def opened(form: str, table: pa.Table, folder: Path) -> ChunkedTable:
    """Open a table in memory, in one file or in several."""
    if form == "memory":
        return MemoryTable(table, "memory")
    if form == "folder":
        for number, piece in enumerate(split_rows(table, 30)):
            pq.write_table(piece, folder / f"{number}.parquet", row_group_size=8)
        return open_table(folder)
    write_table(table, folder / f"t.{form}")
    return open_table(folder / f"t.{form}")


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("form", ["memory", "folder", "csv"])
@pytest.mark.parametrize("any_missing", [True, False])
def test_rows_are_those_of_the_table_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, size: int, any_missing: bool
) -> None:
    small_chunks(monkeypatch, 7)
    table = gappy()
    kept = complete_rows(table, table.column_names if any_missing else ["y"])
    kept_table = keep_rows(table, kept)
    learnt = learn(kept_table)
    left_out = LeftOut(any_missing, not any_missing)
    source = TableSource(opened(form, table, tmp_path), learnt, left_out)
    assert source.names == tuple(learnt.schema.feature_names)
    assert (source.columns, source.schema) == (tuple(INPUTS), learnt.schema)
    for _ in range(2):  # as often as one likes
        chunks = [chunk for share in shares(size) for chunk in source.chunks(share)]
        assert all(len(chunk) for chunk in chunks)
        assert all(chunk.rows.inputs.input_variance is None for chunk in chunks)
        numbers, inputs, targets = together(chunks)
        np.testing.assert_array_equal(numbers, np.flatnonzero(kept))
        assert np.isfinite(inputs).all()
        np.testing.assert_allclose(inputs, learnt.encode(numbers, kept_table), rtol=1e-12)
        np.testing.assert_array_equal(targets, kept_table["y"].to_numpy())


def test_wide_rows_come_in_smaller_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"x": [f"t{i % 8}" for i in range(80)], "y": [0.0] * 80})
    source = TableSource(MemoryTable(table, "t"), learn(table))
    width = len(source.names or ())
    assert width >= 8
    monkeypatch.setattr(chunked_table, "CHUNK_BYTES", 8 * 2 * width)
    assert max(len(chunk) for chunk in source.chunks()) == 2
    assert np.concatenate([c.numbers for c in source.chunks()]).tolist() == list(range(80))


memories = pytest.mark.parametrize("memory", [None, 0, 2**30])
"""Sizes up to which a table is read whole: never, never, always."""


@memories
@pytest.mark.parametrize("form", ["parquet", "csv", "arrow"])
def test_a_table_is_opened_as_a_source(tmp_path: Path, form: str, memory: int | None) -> None:
    write_table(mixed(50), tmp_path / f"t.{form}")
    source = open_source(tmp_path / f"t.{form}", "y", drop=["n"], memory=memory)
    learnt = learn(mixed(50), "y", ["n"])
    assert source.schema == learnt.schema
    assert (source.n_rows, source.n_left_out) == (50, 0)
    assert isinstance(source, FrameSource) == (memory == 2**30)
    _, inputs, targets = together([c for share in shares(2) for c in source.chunks(share)])
    np.testing.assert_array_equal(inputs, learnt.encode(np.arange(50), mixed(50)))
    np.testing.assert_array_equal(targets, mixed(50)["y"].to_numpy())


@memories
@pytest.mark.parametrize("any_missing", [True, False])
def test_a_source_leaves_incomplete_rows_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: int | None, any_missing: bool
) -> None:
    small_chunks(monkeypatch, 30)  # whose rows without a target are counted together
    table = gappy()
    path = tmp_path / "t.parquet"
    write_table(table, path)
    kept = complete_rows(table, table.column_names if any_missing else ["y"])
    complete = keep_rows(table, kept)
    options: dict[str, Any] = {
        "drop_missing": any_missing,
        "drop_missing_target": not any_missing,
    }
    source = open_source(path, "y", memory=memory, **options)
    assert source.names == tuple(learn(complete).schema.feature_names)
    _, _, targets = together(list(source.chunks()))
    assert sorted(targets) == sorted(complete["y"].to_pylist())
    assert source.n_rows == N_ROWS
    assert source.n_left_out == (N_ROWS - kept.sum() if memory else 0)  # chunks are not yet read
    message = r"a target. Got 13 of 97 rows without one in column 'y'; .*--drop-missing-target"
    with pytest.raises(TableError, match=message):
        open_source(path, "y", memory=memory)


def test_a_small_table_without_a_complete_row_is_refused(tmp_path: Path) -> None:
    write_table(gaps(), tmp_path / "t.parquet")
    message = r"one row must be complete.*'f' \(2 rows\), .*'n' \(4 rows\), in .*--drop"
    with pytest.raises(TableError, match=message):
        open_source(tmp_path / "t.parquet", "y", drop_missing=True, memory=2**30)


@memories
def test_notes_are_said_once(tmp_path: Path, memory: int | None) -> None:
    table = mixed(50).append_column("nothing", pa.nulls(50))
    write_table(table, tmp_path / "t.parquet")
    with pytest.warns(TableNote) as caught:
        source = open_source(tmp_path / "t.parquet", "y", memory=memory)
    expected = "Column 'nothing' is not used: it has no values."
    assert [str(warning.message) for warning in caught] == [expected]
    assert source.notes == (expected,)


@memories
def test_text_and_coordinates_may_be_named(tmp_path: Path, memory: int | None) -> None:
    random = np.random.default_rng(0)
    lon, lat = random.uniform(0, 9, (2, 60))
    table = pa.table({"lon": lon, "lat": lat, "code": [1, 2] * 30, "y": random.normal(size=60)})
    write_table(table, tmp_path / "t.parquet")
    source = open_source(
        tmp_path / "t.parquet", "y", text=["code"], coordinates=("lon", "lat"), memory=memory
    )
    assert source.names == ("lon, lat east", "lon, lat north", "lon, lat up", "code=2")
    assert isinstance(source.schema.columns[2], CategoryColumn)
    assert source.isotropic == ((0, 1, 2),)


def targets(n_targets: int = 1) -> Any:
    return np.random.default_rng(0).normal(size=(N_ROWS, n_targets))


def inputs_with_gaps() -> pa.Table:
    return gappy().select(INPUTS)


def test_rows_of_a_frame_are_those_of_a_learnt_schema() -> None:
    y = targets()
    table = inputs_with_gaps().append_column("y", pa.array(y[:, 0]))
    learnt = learn(table)
    source: Any = FrameSource(table.select(INPUTS), y, target="y")
    assert (source.schema, source.columns) == (learnt.schema, tuple(INPUTS))
    assert source.names == tuple(learnt.schema.feature_names)
    assert source.in_memory
    assert source.n_rows == N_ROWS
    encoded = learnt.encode(np.arange(N_ROWS), table)
    np.testing.assert_allclose(source.rows.inputs.mean, encoded, rtol=1e-12)
    assert np.array_equal(source.rows.targets, y)
    assert source.rows.inputs.input_variance is None
    assert np.array_equal(source.imputer.mean, learnt.imputer.mean)


def test_a_known_deviation_of_columns_is_one_of_inputs() -> None:
    deviation = np.zeros((N_ROWS, len(INPUTS)))
    deviation[:, [0, 1]] = 0.5
    source = FrameSource(inputs_with_gaps(), targets(), deviation=deviation)
    variance: Any = source.rows.inputs.input_variance
    known = [0.25 if name in ("n", "f") else 0.0 for name in source.schema.feature_names]
    assert variance.tolist() == [known] * N_ROWS
    deviation[:, 2] = 0.5
    with pytest.raises(TableError, match=r"X_std must be zero .* Got 'town'"):
        FrameSource(inputs_with_gaps(), targets(), deviation=deviation)


def test_settings_and_notes_of_a_frame_are_kept() -> None:
    weight = np.arange(1.0, N_ROWS + 1)
    source = FrameSource(
        inputs_with_gaps().append_column("nothing", pa.nulls(N_ROWS)),
        targets(3),
        weight=weight,
        dtype=torch.float32,
        flat_targets=False,
        has_names=False,
        crs="WKT",
    )
    assert source.rows.inputs.mean.dtype == torch.float32
    assert source.rows.targets.shape == (N_ROWS, 3)
    assert np.array_equal(source.rows.weight, weight)  # type: ignore[arg-type]
    assert not source.flat_targets
    assert source.columns is None
    assert source.notes == ("Column 'nothing' is not used: it has no values.",)
    assert (source.n_rows, source.n_left_out) == (N_ROWS, 0)
    assert source.schema.crs == "WKT"
