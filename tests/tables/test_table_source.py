from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from builders.tables import learn, mixed, shares, small_chunks, with_gaps

from sswim.rows import Chunk, impute
from sswim.tables import (
    CategoryColumn,
    ChunkedTable,
    FrameSource,
    LeftOut,
    MemoryTable,
    NumberColumn,
    TableError,
    TableNote,
    TableSource,
    complete_rows,
    keep_rows,
    open_source,
    open_table,
    split_rows,
    write_table,
)
from sswim.tables import table as chunked_table
from sswim.tables import table_source as frame_source

SIZES = [1, 3, 100]


def together(chunks: list[Chunk]) -> tuple[Any, Any, Any]:
    """Return numbers, inputs and targets of all chunks, in the order of the numbers."""
    order = np.argsort(np.concatenate([chunk.numbers for chunk in chunks]))
    columns = (
        [chunk.numbers for chunk in chunks],
        [chunk.rows.inputs.mean for chunk in chunks],
        [chunk.rows.targets for chunk in chunks],
    )
    numbers, inputs, targets = (np.concatenate(parts)[order] for parts in columns)
    return numbers, inputs, targets


def all_chunks(source: TableSource, size: int) -> list[Chunk]:
    return [chunk for share in shares(size) for chunk in source.chunks(share)]


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


FORMS = ["memory", "folder", "parquet", "csv", "csv.gz"]


MEMORY = [None, 0, 2**30]
"""Sizes up to which a table is read whole: never, never, always."""


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("form", FORMS)
def test_rows_are_those_of_the_table_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, size: int
) -> None:
    small_chunks(monkeypatch, 7)
    table = mixed(97)
    learnt = learn(table)
    source = TableSource(opened(form, table, tmp_path), learnt)
    assert source.names == tuple(learnt.schema.feature_names)
    assert source.columns == tuple(learnt.schema.names)
    assert source.schema == learnt.schema
    assert source.flat_targets
    for _ in range(2):  # as often as one likes
        numbers, inputs, targets = together(all_chunks(source, size))
        np.testing.assert_array_equal(numbers, np.arange(97))
        np.testing.assert_array_equal(inputs, learnt.encode(np.arange(97), table))
        np.testing.assert_array_equal(targets[:, 0], table["y"].to_numpy())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("form", FORMS)
def test_the_same_incomplete_rows_are_left_out_of_every_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, size: int
) -> None:
    small_chunks(monkeypatch, 2)
    table = with_gaps(mixed(97))
    kept = complete_rows(table, table.column_names)
    assert 0 < kept.sum() < 60
    kept_table = keep_rows(table, kept)
    learnt = learn(kept_table)
    source = TableSource(opened(form, table, tmp_path), learnt, LeftOut(any_missing=True))
    chunks = all_chunks(source, size)
    assert all(len(chunk) for chunk in chunks)
    numbers, inputs, targets = together(chunks)
    np.testing.assert_array_equal(numbers, np.flatnonzero(kept))
    np.testing.assert_array_equal(inputs, learnt.schema.encode(kept_table))
    np.testing.assert_array_equal(targets[:, 0], kept_table["y"].to_numpy())


@pytest.mark.parametrize("n_rows", [1, 2, 40])
def test_missing_values_are_imputed_and_count_as_known(
    monkeypatch: pytest.MonkeyPatch, n_rows: int
) -> None:
    small_chunks(monkeypatch, n_rows)
    table = keep_rows(with_gaps(mixed(97)), complete_rows(with_gaps(mixed(97)), ["y"]))
    learnt = learn(table)
    source = TableSource(MemoryTable(table, "t"), learnt)
    chunks = all_chunks(source, 2)
    expected = learnt.encode(np.arange(table.num_rows), table)
    _, inputs, _ = together(chunks)
    assert np.isfinite(inputs).all()
    assert np.allclose(inputs, expected, rtol=1e-12)
    assert all(chunk.rows.inputs.input_variance is None for chunk in chunks)


def test_wide_rows_come_in_smaller_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"x": [f"t{i % 8}" for i in range(80)], "y": [0.0] * 80})
    source = TableSource(MemoryTable(table, "t"), learn(table))
    width = len(source.names or ())
    assert width >= 8
    monkeypatch.setattr(chunked_table, "CHUNK_BYTES", 8 * 2 * width)
    assert max(len(chunk) for chunk in source.chunks()) == 2
    assert np.concatenate([c.numbers for c in source.chunks()]).tolist() == list(range(80))


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("form", ["parquet", "csv", "arrow"])
def test_a_table_is_opened_as_a_source(tmp_path: Path, form: str, memory: int | None) -> None:
    write_table(mixed(50), tmp_path / f"t.{form}")
    source = open_source(tmp_path / f"t.{form}", "y", drop=["n"], memory=memory)
    learnt = learn(mixed(50), "y", ["n"])
    assert source.schema == learnt.schema
    assert source.n_left_out == 0
    assert source.n_rows == 50 or (form == "csv" and memory != 2**30)
    assert isinstance(source, FrameSource) == (memory == 2**30)
    chunks = [chunk for share in shares(2) for chunk in source.chunks(share)]
    _, inputs, targets = together(chunks)
    np.testing.assert_array_equal(inputs, learnt.encode(np.arange(50), mixed(50)))
    np.testing.assert_array_equal(targets[:, 0], mixed(50)["y"].to_numpy())


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("any_missing", [True, False])
def test_a_source_leaves_incomplete_rows_out(
    tmp_path: Path, memory: int | None, any_missing: bool
) -> None:
    table = with_gaps(mixed(97))
    kept = complete_rows(table, table.column_names if any_missing else ["y"])
    complete = keep_rows(table, kept)
    write_table(table, tmp_path / "t.parquet")
    source = open_source(
        tmp_path / "t.parquet",
        "y",
        drop_missing=any_missing,
        drop_missing_target=not any_missing,
        memory=memory,
    )
    assert source.names == tuple(learn(complete).schema.feature_names)
    _, inputs, targets = together(list(source.chunks()))
    assert len(inputs) == kept.sum()
    assert sorted(targets[:, 0]) == sorted(complete["y"].to_pylist())
    assert source.n_rows == 97
    assert source.n_left_out == (97 - kept.sum() if memory else 0)  # chunks are not yet read


@pytest.mark.parametrize("memory", MEMORY)
def test_rows_without_a_target_are_an_error(tmp_path: Path, memory: int | None) -> None:
    write_table(with_gaps(mixed(20)), tmp_path / "t.parquet")
    message = r"Got 2 of 20 rows without one in column 'y'; .*--drop-missing-target"
    with pytest.raises(TableError, match=message):
        open_source(tmp_path / "t.parquet", "y", memory=memory)


@pytest.mark.parametrize("memory", MEMORY)
def test_notes_are_said_once(tmp_path: Path, memory: int | None) -> None:
    table = mixed(50).append_column("nothing", pa.nulls(50))
    write_table(table, tmp_path / "t.parquet")
    with pytest.warns(TableNote) as caught:
        source = open_source(tmp_path / "t.parquet", "y", memory=memory)
    expected = "Column 'nothing' is not used: it has no values."
    assert [str(each.message) for each in caught] == [expected]
    assert source.notes == (expected,)


@pytest.mark.parametrize("memory", MEMORY)
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
    assert isinstance(source.schema.columns[0], NumberColumn)
    assert source.isotropic == ((0, 1, 2),)


N_ROWS = 97


INPUTS = ["n", "f", "town", "day", "new"]


def targets(n_targets: int = 1) -> Any:
    return np.random.default_rng(0).normal(size=(N_ROWS, n_targets))


def gaps() -> pa.Table:
    """Return input columns with missing values."""
    return with_gaps(mixed(N_ROWS)).select(INPUTS)


def sorted_rows(source: FrameSource) -> tuple[Any, Any]:
    """Return inputs and targets of the chunks, in the order of the first input."""
    (chunk,) = source.chunks()
    inputs, targets = chunk.rows.inputs.mean.numpy(), chunk.rows.targets.numpy()
    order = np.argsort(inputs[:, 0])
    return inputs[order], targets[order]


def test_rows_are_those_of_a_learnt_schema() -> None:
    table = mixed(N_ROWS)
    learnt = learn(table)
    y = table["y"].to_numpy()[:, None]
    source = FrameSource(table.select(INPUTS), y, target="y")
    assert source.schema == learnt.schema
    assert source.names == tuple(learnt.schema.feature_names)
    assert source.columns == tuple(INPUTS)
    assert source.in_memory
    assert source.n_rows == N_ROWS
    inputs, found = sorted_rows(source)
    assert np.array_equal(inputs, learnt.encode(np.arange(N_ROWS), table))
    assert np.array_equal(found, y)
    assert source.rows.inputs.input_variance is None
    assert source.imputer is not None
    assert np.array_equal(source.imputer.mean, learnt.imputer.mean)


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = FrameSource(gaps(), targets())
    monkeypatch.setattr(frame_source, "CHUNK_ROWS", 10)
    pieces = FrameSource(gaps(), targets())
    assert pieces.schema == whole.schema
    # Imputed values are products, whose last bit depends on their shape on some processors.
    assert torch.allclose(pieces.rows.inputs.mean, whole.rows.inputs.mean, rtol=1e-14, atol=1e-15)
    monkeypatch.setattr(frame_source, "CHUNK_ROWS", 1)  # pieces with and without missing values
    rows = FrameSource(gaps(), targets())
    assert torch.allclose(rows.rows.inputs.mean, whole.rows.inputs.mean)


def test_missing_values_of_frames_are_imputed_and_count_as_known() -> None:
    source = FrameSource(gaps(), targets())
    assert source.rows.inputs.mean.isfinite().all()
    assert source.rows.inputs.input_variance is None
    assert source.schema is not None
    assert source.imputer is not None
    inputs = source.schema.encode(gaps())
    expected, _ = impute(inputs, source.imputer, None, source.schema.indicators)
    assert np.array_equal(source.rows.inputs.mean, expected)


def test_a_known_deviation_of_columns_is_one_of_inputs() -> None:
    deviation = np.zeros((N_ROWS, len(INPUTS)))
    deviation[:, [0, 1]] = 0.5
    source = FrameSource(gaps(), targets(), deviation=deviation)
    variance = source.rows.inputs.input_variance
    assert variance is not None
    known = [0.25 if name in ("n", "f") else 0.0 for name in source.schema.feature_names]
    assert variance.tolist() == [known] * N_ROWS
    deviation[:, 2] = 0.5
    with pytest.raises(TableError, match=r"X_std must be zero .* Got 'town'"):
        FrameSource(gaps(), targets(), deviation=deviation)


def test_several_targets_weights_and_precision() -> None:
    weight = np.arange(1.0, N_ROWS + 1)
    source = FrameSource(
        gaps(), targets(3), weight=weight, dtype=torch.float32, flat_targets=False, has_names=False
    )
    assert source.rows.inputs.mean.dtype == torch.float32
    assert source.rows.targets.shape == (N_ROWS, 3)
    assert source.rows.weight is not None
    assert np.array_equal(source.rows.weight, weight)
    assert not source.flat_targets
    assert source.columns is None


def test_notes_and_counts_of_the_table_are_kept() -> None:
    table = gaps().append_column("nothing", pa.nulls(N_ROWS))
    source = FrameSource(table, targets(), notes=("read with ';'",), n_left_out=3, crs="WKT")
    expected = "Column 'nothing' is not used: it has no values."
    assert source.notes == ("read with ';'", expected)
    assert source.n_rows == N_ROWS + 3
    assert source.n_left_out == 3
    assert source.schema.crs == "WKT"
