"""Public files of data sets, and archives that they are in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lab_builders.datasets import STORED, available_file, publish, stored_table, tar_archive
from sswim_lab.datasets import originals
from sswim_lab.datasets.catalogue import DATA_SETS
from sswim_lab.datasets.originals import open_in_tar, open_in_zip

from sswim.tables import read_table


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


def test_songs_are_stored_in_single_precision(tmp_path: Path) -> None:
    parsed = originals.song(publish("song", stored_table("song"), tmp_path))
    assert set(parsed.schema.types) == {pa.float32(), pa.int16()}


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
