from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from builders.tables import all_rows, dictionary, houses, mixed, rows_of, small_chunks

from sswim.distributed.processes import ALL_ROWS, Share
from sswim.tables import ParquetTable, TableError, write_table

sizes = pytest.mark.parametrize("size", [1, 3, 100])


def folder_of(folder: Path, tables: dict[str, pa.Table], **options: Any) -> Path:
    for name, table in tables.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, folder / name, **options)
    return folder


def spoil(path: Path, group: int, column: int) -> None:
    """Overwrite the first values of a column."""
    content = bytearray(path.read_bytes())
    place = pq.read_metadata(path).row_group(group).column(column)
    start = int(place.dictionary_page_offset or place.data_page_offset)
    content[start : start + 40] = b"\xff" * 40
    path.write_bytes(content)


@sizes
def test_shares_of_a_folder_are_all_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    small_chunks(monkeypatch, 16)
    table = mixed(97)
    cuts = {"a.parquet": (0, 30), "b/c.parquet": (30, 0), "b/d.parquet": (30, 1)}
    cuts |= {"e.parquet": (31, 40), "f.parquet": (71, 26)}
    parts = {name: table.slice(*cut) for name, cut in cuts.items()}
    parts["e.parquet"] = parts["e.parquet"].select(reversed(table.column_names))
    parts |= {"_SUCCESS.parquet": houses(), ".hidden/g.parquet": houses(), "_h/i.parquet": houses()}
    tables = ParquetTable.open(folder_of(tmp_path / "t", parts, row_group_size=9))
    assert tables.n_rows == 97
    assert all_rows(tables, table.column_names, size) == table.to_pylist()


def test_only_the_columns_and_row_groups_that_are_wanted_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(mixed(40), path, row_group_size=10)
    spoil(path, 1, 0)
    spoil(path, 3, 2)
    tables = ParquetTable.open(path)
    assert len(rows_of(tables, ["day", "n"], ALL_ROWS)) == 40
    assert len(rows_of(tables, ["y", "f"], Share(2, 4))) == 10


@pytest.mark.parametrize("group", [0, 3, 4])
@pytest.mark.parametrize("chunk_rows", [4, 64])
def test_a_spoilt_row_group_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: int, chunk_rows: int
) -> None:
    small_chunks(monkeypatch, chunk_rows)
    path = folder_of(tmp_path, {"a.parquet": mixed(9), "b.parquet": mixed(50)}, row_group_size=10)
    spoil(path / "b.parquet", group, 2)
    tables = ParquetTable.open(path)
    chunks = tables.chunks(["n", "f"])
    assert next(chunks).file.endswith("a.parquet")
    with pytest.raises(TableError, match=rf"b.parquet' cannot be read .*, in row group {group} \("):
        list(chunks)


def test_a_wrong_checksum_is_found(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    table = mixed(100).select(["y"])
    pq.write_table(table, path, compression="none", use_dictionary=False, write_page_checksum=True)
    content = bytearray(path.read_bytes())
    place = content.index(np.float64(table["y"][50].as_py()).tobytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(TableError, match=r"in row group 0 .*could not verify page integrity"):
        list(ParquetTable.open(path).chunks(["y"]))


def test_the_names_of_folders_are_columns(tmp_path: Path) -> None:
    table = mixed(60)
    years = pa.array(np.arange(60) % 2 + 2020)
    towns = table["town"]
    table = table.drop_columns(["town"]).append_column("year", years).append_column("town", towns)
    ds.write_dataset(
        table,
        tmp_path,
        format="parquet",
        partitioning=ds.partitioning(
            pa.schema([("year", pa.int64()), ("town", pa.string())]), flavor="hive"
        ),
    )
    tables = ParquetTable.open(tmp_path)
    assert tables.schema.names == table.column_names
    assert tables.schema.field("year").type == pa.int32()
    assert tables.schema.field("town").type == pa.string()
    for columns in (table.column_names, ["town", "n", "year"], ["n"]):
        for size in (1, 3):
            rows = all_rows(tables, columns, size)
            expected = table.select(columns).to_pylist()
            assert sorted(map(str, rows)) == sorted(map(str, expected))
    alone = [row["town"] for row in all_rows(tables, ["town"], 2)]
    assert sorted(alone) == sorted(towns.to_pylist())


def test_folders_may_name_missing_values_and_be_spelt_in_any_way(tmp_path: Path) -> None:
    names = {"k=1/a.parquet": mixed(2), "k=__HIVE_DEFAULT_PARTITION__/a.parquet": mixed(2)}
    for folder in ("t", "_data/.t"):  # which may itself be hidden
        path = folder_of(tmp_path / folder, names)
        for spelling in ("{}/", "{}/k=1/..", "{}/./", "{}"):
            tables = ParquetTable.open(spelling.format(path))
            assert [row["k"] for row in all_rows(tables, ["k"], 1)] == [1, 1, None, None]
        alone = ParquetTable.open(path / "k=1" / "a.parquet")
        assert alone.schema.names == mixed(2).column_names


def test_names_of_folders_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    uneven = folder_of(tmp_path / "t", {"k=1/a.parquet": mixed(2), "b.parquet": mixed(2)})
    with pytest.raises(TableError, match=r"same columns. Got 'k' in '.*k=1.*' and not in '.*b"):
        ParquetTable.open(uneven)
    clash = folder_of(tmp_path / "u", {"n=one/a.parquet": mixed(2)})
    with pytest.raises(TableError, match=r"u' cannot be read as a folder of .parquet files: .*n "):
        ParquetTable.open(clash)


def test_kinds_rather_than_types_must_be_the_same(tmp_path: Path) -> None:
    parts = {
        "a.parquet": pa.table({"x": [1, 2], "t": pa.nulls(2), "d": houses()["sold"][:2]}),
        "b.parquet": pa.table(
            {"x": [1.5], "t": ["York"], "d": pa.array([1500], pa.timestamp("ms"))}
        ),
        "c.parquet": pa.table(
            {"x": [True], "t": dictionary(["Bath"], pa.string()), "d": pa.nulls(1)}
        ),
    }
    tables = ParquetTable.open(folder_of(tmp_path, parts))
    assert tables.schema.types == [pa.int64(), pa.string(), pa.date32()]
    assert [row["x"] for row in all_rows(tables, ["x"], 2)] == [1, 2, 1.5, True]
    assert [row["t"] for row in all_rows(tables, ["t"], 3)] == [None, None, "York", "Bath"]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (pa.table({"x": [1.0]}), r"Got 'y' in '.*a.parquet' and not in '.*b.parquet'"),
        (pa.table({"x": [1.0], "Y": [1.0]}), r"Got 'Y' in '.*b.parquet' and not in '.*a.parquet'"),
        (
            pa.table({"x": ["1"], "y": [1.0]}),
            r"one kind .*Got 'x' of type string in '.*b.parquet', and of type double in files",
        ),
        (pa.table({"x": [[1.0]], "y": [1.0]}), r"Got 'x' of type list<.* in '.*b.parquet'"),
        (pa.table([[1.0], [1.0], [2.0]], names=["x", "y", "x"]), r"several 'x' in '.*b.parquet'"),
    ],
)
def test_files_that_do_not_fit_together_are_refused(
    tmp_path: Path, other: pa.Table, message: str
) -> None:
    parts = {"a.parquet": pa.table({"x": [1.0], "y": [1.0]}), "b.parquet": other}
    with pytest.raises(TableError, match=message):
        ParquetTable.open(folder_of(tmp_path, parts))


def test_a_table_without_anything_is_refused(tmp_path: Path) -> None:
    empty = folder_of(tmp_path, {"a.parquet": mixed(0), "b.parquet": mixed(0)})
    with pytest.raises(TableError, match=r"one row .*Got 0 rows and 6 columns in '"):
        ParquetTable.open(empty)
    with pytest.raises(TableError, match=r"one column. Got 0 rows and 0 columns"):
        ParquetTable.open(folder_of(tmp_path / "t", {"a.parquet": pa.table({})}))


def test_a_file_that_changes_meanwhile_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(mixed(10), path)
    tables = ParquetTable.open(path)
    pq.write_table(mixed(11), path)
    with pytest.raises(TableError, match=r"must not change .*Got 11 rows in '.*', which had 10"):
        list(tables.chunks(["n"]))
    path.unlink()
    with pytest.raises(TableError, match=r"t.parquet' cannot be read"):
        list(tables.chunks(["n"]))


def test_text_of_every_type_is_read(tmp_path: Path) -> None:
    table = pa.table(
        {
            "view": pa.array(["x", "y", "x"], pa.string_view()),
            "dictionary": dictionary(["u", None, "u"], pa.large_string()),
            "a.b": ["s", "t", "s"],
            "a": [1, 2, 3],
        }
    )
    path = tmp_path / "t.parquet"
    pq.write_table(table, path)
    tables = ParquetTable.open(path)
    assert pa.string_view() not in tables.schema.types
    assert all_rows(tables, tables.schema.names, 2) == table.to_pylist()
    assert all_rows(tables, ["a"], 2) == table.select(["a"]).to_pylist()


def test_bytes_are_estimated_from_the_metadata(tmp_path: Path) -> None:
    numbers = pa.table({"x": np.zeros(1000), "y": np.zeros(1000)})
    write_table(numbers, tmp_path / "numbers.parquet")
    assert ParquetTable.open(tmp_path / "numbers.parquet").nbytes == 16_000
    text = pa.table({"x": [f"{i:0200}" for i in range(1000)]})
    write_table(text, tmp_path / "text.parquet")
    assert 200_000 < ParquetTable.open(tmp_path / "text.parquet").nbytes < 600_000
