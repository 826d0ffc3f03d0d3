from __future__ import annotations

import pytest

from sswim.tables import TableError
from sswim.tables.csv_table import CsvNames, read_names


def names(*header: str, is_header: bool | None = None) -> CsvNames:
    return read_names(header, "t.csv", is_header)


def test_usual_names_stay_as_they_are() -> None:
    assert names("a", "b c", "größe", "1") == CsvNames(("a", "b c", "größe", "1"))


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (("a", "a", "a"), ("a", "a.1", "a.2")),
        (("a", "a", "a.1"), ("a", "a.2", "a.1")),
        (("a.1", "a", "a"), ("a.1", "a", "a.2")),
    ],
)
def test_names_become_unique(header: tuple[str, ...], expected: tuple[str, ...]) -> None:
    found = names(*header)
    assert found.names == expected
    assert len(found.notes) == len(header) - len({*header})
    assert "is called 'a" in found.notes[0]


def test_columns_without_a_name_get_one() -> None:
    found = names("a", "", "column 2", " ")
    assert found.names == ("a", "column 2.1", "column 2", "column 4")
    assert found.unnamed == ("column 2.1", "column 4")
    assert found.index is None


@pytest.mark.parametrize(("first", "index"), [("", "column 1"), ("Unnamed: 0", "Unnamed: 0")])
def test_a_first_column_may_count_the_rows(first: str, index: str) -> None:
    assert names(first, "a").index == index


def test_blanks_around_names_are_left_out_and_told() -> None:
    found = names("a", " b", "c ")
    assert found.names == ("a", "b", "c")
    assert found.notes == ("Blanks around the names ' b', 'c ' are left out.",)


def test_increasing_numbers_may_be_names() -> None:
    found = names("2019", "2020", "2021.5")
    assert found.names == ("2019", "2020", "2021.5")
    (note,) = found.notes
    assert "'2019', '2020', '2021.5'; give --no-header if" in note
    assert names("2019", "2020", is_header=True).notes == ()


@pytest.mark.parametrize("header", [("5",), ("3", "1"), ("1.5", "-2e3", ".5"), ("1", "1")])
def test_other_numbers_are_refused_as_names(header: tuple[str, ...]) -> None:
    with pytest.raises(TableError, match=r"first line must have the names.*--no-header.*--header"):
        names(*header)
    assert names(*header, is_header=True).names[0] == header[0]


def test_a_file_without_a_header_has_numbered_columns() -> None:
    found = names("1", "", "x", is_header=False)
    assert found == CsvNames(("column 1", "column 2", "column 3"))
