from __future__ import annotations

from pathlib import Path

import pytest

from sswim.tables import TableError, table_files
from sswim.tables.table import require_same_names


@pytest.mark.parametrize(
    ("names", "got"),
    [
        ([], "none"),
        (["_a.parquet", "b/.c.csv"], "none"),
        (["a.csv", "b.parquet"], "'a.csv', 'b.parquet'"),
        (["a.feather"], "'a.feather'"),
        (["a.csv", "b/c.txt"], "'a.csv', 'b.c.txt'"),
        (["a.csv", "README.txt"], "'README.txt', 'a.csv'"),
        (["README.md"], "'README.md'"),
    ],
)
def test_a_folder_of_anything_else_is_refused(tmp_path: Path, names: list[str], got: str) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(TableError, match=rf"and no others\. Got {got} in '.*underscore"):
        table_files(tmp_path)


def test_files_of_a_folder_are_sorted_by_name(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name in ("b.csv", "a/z.csv.gz", "a/_left_out.csv", ".hidden.csv"):
        (tmp_path / name).touch()
    assert table_files(tmp_path) == [str(tmp_path / "a" / "z.csv.gz"), str(tmp_path / "b.csv")]
    assert table_files(tmp_path / "b.csv") == [str(tmp_path / "b.csv")]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["x", "y", "z"], r"Got 'z' in 'new.csv' and not in 'first.csv'"),
        (["x"], r"Got 'y' in 'first.csv' and not in 'new.csv'"),
    ],
)
def test_files_with_other_columns_are_refused(names: list[str], message: str) -> None:
    require_same_names(["y", "x"], "new.csv", ["x", "y"], "first.csv")
    with pytest.raises(TableError, match=message):
        require_same_names(names, "new.csv", ["x", "y"], "first.csv")
