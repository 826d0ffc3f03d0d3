from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.tables import (
    houses,
    learn,
    learn_together,
    mixed,
    shares,
    small_chunks,
    with_gaps,
)

from sswim.tables import (
    KEEP_ALL,
    CategoryColumn,
    ChunkedTable,
    IgnoredColumn,
    LearntSchema,
    LeftOut,
    LevelMeansColumn,
    MemoryTable,
    NumberColumn,
    Schema,
    SphereColumn,
    TableError,
    TargetedRows,
    TimeColumn,
    complete_rows,
    input_names,
    learn_schema,
    open_table,
    read_rows,
    schema_learning,
    write_table,
)
from sswim.tables.columns import centre_of
from sswim.tables.schema_learning import TELLING_ROWS

sizes = pytest.mark.parametrize("size", [1, 3])


def learned_by(
    size: int, table: ChunkedTable, drop: tuple[str, ...] = (), left_out: LeftOut = KEEP_ALL
) -> LearntSchema:
    """Return what ``size`` processes learn."""
    names = input_names(table.schema, "y", drop)
    columns = pa.schema(map(table.schema.field, names))
    parts = [partial(read_rows, table, names, "y", left_out, share) for share in shares(size)]
    return learn_together(parts, columns)


def assert_same(ours: LearntSchema, theirs: LearntSchema) -> None:
    """Compare two schemas; sums of targets may be rounded in another order."""
    assert ours.notes == theirs.notes
    assert ours.schema.names == theirs.schema.names
    for one, other in zip(ours.schema.columns, theirs.schema.columns, strict=True):
        if isinstance(one, LevelMeansColumn) and isinstance(other, LevelMeansColumn):
            assert (one.levels, one.shown) == (other.levels, other.shown)
            assert np.allclose(one.means, other.means)
            mine, yours = ours.fold_means[one.name], theirs.fold_means[one.name]
            assert np.allclose(mine, yours)
        else:
            assert one == other
    assert np.allclose(ours.imputer.mean, theirs.imputer.mean)
    assert np.allclose(ours.imputer.correlation, theirs.imputer.correlation)


def many_levels(n_rows: int) -> pa.Table:
    """Return a table with a column of many levels."""
    random = np.random.default_rng(n_rows)
    codes = random.integers(n_rows // 4, size=n_rows)
    return mixed(n_rows).append_column("street", pa.array([f"street {code}" for code in codes]))


def test_every_kind_of_column_is_learnt() -> None:
    table = houses().append_column("nothing", pa.nulls(4))
    learnt = learn(table, "price", ["new"])
    assert learnt.schema == Schema(
        "price",
        (
            NumberColumn("rooms"),
            CategoryColumn("town", levels=("Bath", "Ely, the city", "York")),
            TimeColumn("sold"),
            IgnoredColumn("nothing", "it has no values"),
        ),
    )
    assert learnt.notes == ("Column 'nothing' is not used: it has no values.",)
    assert learnt.fold_means == {}
    assert len(learnt.imputer.mean) == len(learnt.schema.feature_names)


@sizes
@pytest.mark.parametrize("form", ["memory", "csv"])
def test_any_number_of_processes_learns_what_a_table_in_memory_teaches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, size: int
) -> None:
    small_chunks(monkeypatch, 5)
    table = many_levels(60)
    tables: ChunkedTable = MemoryTable(table, "memory")
    if form != "memory":
        write_table(table, tmp_path / f"t.{form}")
        tables = open_table(tmp_path / f"t.{form}")
    assert_same(learned_by(size, tables, ("n",)), learn(table, "y", ["n"]))


@sizes
def test_the_sample_does_not_depend_on_chunks_or_processes(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(schema_learning, "SAMPLE_ROWS", 20)
    table = many_levels(200)
    expected = learn(table, "y", ["n"])
    small_chunks(monkeypatch, 20)
    assert_same(learned_by(size, MemoryTable(table, "t"), ("n",)), expected)


@sizes
def test_rows_that_are_left_out_teach_nothing(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    small_chunks(monkeypatch, 10)
    rare = ["rare" if i == 2 else f"t{i % 9}" for i in range(97)]
    table = with_gaps(mixed(97)).append_column("rare", pa.array(rare))
    complete = learned_by(size, MemoryTable(table, "t"), ("n",), LeftOut(any_missing=True))
    assert not any(column.has_missing for column in complete.schema.columns)
    kept = complete_rows(table, table.column_names)
    assert levels_of(complete.schema, "rare") == set(np.array(rare)[kept])
    assert not kept[2]
    targeted = learned_by(size, MemoryTable(table, "t"), ("n",), LeftOut(target_missing=True))
    missing = {column.name for column in targeted.schema.columns if column.has_missing}
    assert missing == {"f", "town"}  # 20 rows and more
    assert levels_of(targeted.schema, "rare") == {"rare", *(f"t{i}" for i in range(9))}


@pytest.mark.parametrize("n_missing", [TELLING_ROWS - 1, TELLING_ROWS])
def test_values_that_are_often_missing_have_an_input_that_says_so(n_missing: int) -> None:
    n_rows = 90
    holes = np.arange(n_rows) < n_missing
    days = pa.array(np.arange(n_rows), pa.int32()).cast(pa.date32())
    values: dict[str, Any] = {
        "number": pa.array(np.arange(n_rows), mask=holes),
        "time": pa.array(days.to_pylist(), pa.date32(), mask=holes),
        "level": pa.array(["a", "b", "c"] * 30, mask=holes),
        "category": pa.array(["a", "b", "c"] * 30, mask=holes).dictionary_encode(),
        "text number": pa.array([f"{each}.5" for each in range(n_rows)], mask=holes),
        "marker": ["?" if hole else f"{place % 9}" for place, hole in enumerate(holes)],
    }
    many = n_missing == TELLING_ROWS
    if many:
        del values["marker"]  # more than a fifth of its texts
    schema = learn(pa.table({**values, "y": np.zeros(n_rows)})).schema
    assert {column.name: column.has_missing for column in schema.columns} == dict.fromkeys(
        values, many
    )


def levels_of(schema: Schema, name: str) -> set[str]:
    (column,) = (column for column in schema.columns if column.name == name)
    assert isinstance(column, CategoryColumn | LevelMeansColumn)
    return set(column.levels)


def test_columns_that_cannot_be_inputs_are_refused_before_reading() -> None:
    columns = pa.schema(
        {
            "a": pa.binary(),
            "my b": pa.list_(pa.int64()),
            "c": pa.string(),
            "d": pa.struct([("e", pa.int64())]),
        }
    )

    def pieces() -> Iterator[TargetedRows]:
        raise AssertionError

    message = r"'a' of type binary; .*\n.*'my b' of type list<.*\n.*'d' of type struct<.*--drop"
    with pytest.raises(TableError, match=message):
        learn_schema(pieces, columns)
    with pytest.raises(TableError, match=r"text must name input columns. Got 'x'; there are 'c'"):
        learn_schema(pieces, pa.schema({"c": pa.string()}), text=["x"])
    with pytest.raises(TableError, match=r"coordinates must name input columns. Got 'lat'"):
        learn_schema(pieces, pa.schema({"lon": pa.float64()}), coordinates=("lon", "lat"))


def test_a_table_of_which_nothing_is_of_use_is_refused() -> None:
    table = pa.table({"id": [f"id{i}" for i in range(30)], "n": pa.nulls(30), "y": [0.0] * 30})
    for size in (1, 3):
        with pytest.raises(TableError, match=r"be of use. Got none: .*'id' is not .*'n' is not"):
            learned_by(size, MemoryTable(table, "t"))
    with pytest.raises(TableError, match="at least one row that can be used"):
        learn_schema(lambda: iter(()), pa.schema({"c": pa.string()}))


def test_all_processes_hear_of_a_file_that_one_cannot_read(tmp_path: Path) -> None:
    for name in ("a", "b"):
        table = pa.table({"x": ["p", "q"], "y": [1.0, 2.0]})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    tables = open_table(tmp_path)
    (tmp_path / "b.parquet").unlink()
    with pytest.raises(TableError, match=r"b.parquet' cannot be read"):
        learned_by(2, tables)


HOUR, DAY = 3600, 86_400


@pytest.mark.parametrize(
    ("step", "n_rows", "cycles"),
    [
        (HOUR, 10, ()),  # less than half a day
        (HOUR, 14, ("day",)),
        (HOUR, 24 * 5, ("day", "week")),
        (6 * HOUR, 4 * 400, ("day", "week", "year")),
        (DAY, 3, ()),
        (DAY, 10, ("week",)),
        (DAY, 400, ("week", "year")),
        (7 * DAY, 60, ("year",)),
        (30 * DAY, 12, ("year",)),
        (365.25 * DAY, 50, ()),
        (1, 1000, ()),
    ],
)
@pytest.mark.parametrize("zone", [None, "America/New_York"])
def test_cycles_are_those_over_which_times_vary(
    step: float, n_rows: int, cycles: tuple[str, ...], zone: str | None
) -> None:
    seconds = (1.5e9 + step * np.arange(n_rows)).astype(np.int64)
    times = pa.array(seconds, pa.timestamp("s", zone))
    table = pa.table({"t": times, "y": np.zeros(n_rows)})
    assert learn(table).schema.columns == (TimeColumn("t", cycles=cycles, zone=zone or ""),)


def test_dates_times_and_texts_have_cycles_too() -> None:
    days = pa.array(np.arange(18_000, 18_500), pa.int32()).cast(pa.date32())
    table = pa.table(
        {
            "day": days,
            "text": days.cast(pa.string()),
            "clock": pa.array(np.arange(500, dtype=np.int32), pa.time32("s")),
            "y": np.zeros(500),
        }
    )
    schema = learn(table).schema
    assert schema.columns == (
        TimeColumn("day", cycles=("week", "year")),
        TimeColumn("text", cycles=("week", "year"), text_format="ISO 8601"),
        TimeColumn("clock", cycles=("day",), is_time_of_day=True),
    )
    found = schema.encode(table)
    assert np.array_equal(found[:, :5], found[:, 5:10])


def test_coordinates_are_seen_from_their_middle() -> None:
    random = np.random.default_rng(0)
    longitude, latitude = random.uniform(170, 190, 50), random.uniform(-40, -30, 50)
    table = pa.table({"lat": latitude, "lon": longitude, "z": longitude, "y": np.zeros(50)})
    schema = learn(table, coordinates=("lon", "lat")).schema
    assert schema.names == ["lat", "lon", "z"]
    assert schema.sphere == SphereColumn("lon", "lat", centre_of(longitude, latitude))
    assert schema.feature_names == [*schema.sphere.inputs, "z"]
    with pytest.raises(
        TableError, match=r"Coordinates must be degrees. Got 'town', which holds no"
    ):
        learn(houses(), "price", coordinates=("rooms", "town"))


def test_missing_values_are_imputed() -> None:
    """They follow a correlated number of their row."""
    random, numbers = np.random.default_rng(0), np.arange(300)
    a, codes, missing = random.normal(size=300), random.integers(60, size=300), numbers % 5 == 2
    b = 2 * a + 0.1 * random.normal(size=300)
    levels = pa.array([f"t{code:02}" for code in codes], mask=numbers % 7 == 3)
    y = a + codes / 10 + random.normal(size=300)
    table = pa.table({"a": a, "b": pa.array(b, mask=missing), "level": levels, "y": y})
    learnt = learn(table)
    found, names = learnt.encode(numbers, table), learnt.schema.feature_names
    filled = found[:, names.index("b")]
    assert np.isfinite(found).all()
    assert np.array_equal(filled[~missing], b[~missing])
    assert np.abs(filled - 2 * a)[missing].max() < 0.7
    assert np.array_equal(found[:, names.index("b is missing")], missing)
