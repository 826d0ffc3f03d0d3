from __future__ import annotations

import csv
import io

import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sswim.tables.csv_dialect import is_empty, line_end, record_blocks, split_cells, split_records

TEXTS = st.text(alphabet='ab1,;"\n\r\t ', max_size=40)


@pytest.mark.parametrize(
    ("record", "cells"),
    [
        (b"a,b\n", ["a", "b"]),
        (b",\r\n", ["", ""]),
        (b'"a,b","c\nd",,"say ""hi""" x"z\r', ["a,b", "c\nd", "", 'say "hi" x"z']),
        (b'5" pipe,2', ['5" pipe', "2"]),
        (b'"open,3', ['"open,3']),
        (b'"",""""', ["", '"']),
    ],
)
def test_cells_of_a_record(record: bytes, cells: list[str]) -> None:
    assert split_cells(record, ",") == cells
    assert list(split_records([record], ",")) == [record]


def test_blanks_separate_cells() -> None:
    assert split_cells(b"  1 \t 2.5\r\n", " ") == ["1", "2.5"]
    assert list(split_records([b'a "b\n', b" 2 3\n"], " ")) == [b'a "b\n', b" 2 3\n"]
    assert is_empty(b"  \n", " ")
    assert not is_empty(b"  \n", ",")


@given(text=TEXTS, size=st.integers(1, 7))
def test_records_are_all_of_the_text(text: str, size: int) -> None:
    content = text.encode()
    blocks = [content[i : i + size] for i in range(0, len(content), size)]
    records = list(split_records(blocks, ","))
    assert b"".join(records) == content
    assert records == list(split_records([content], ","))
    assert all(line_end(record) for record in records[:-1])
    joined = list(record_blocks(blocks, ",", 5))
    assert b"".join(joined) == content


@given(rows=st.lists(st.lists(TEXTS, min_size=2, max_size=2), min_size=1, max_size=6))
def test_records_are_those_of_other_readers(rows: list[list[str]]) -> None:
    stream = io.StringIO(newline="")
    csv.writer(stream).writerows([["p", "q"], *rows])
    content = stream.getvalue().encode()
    records = [each for each in split_records([content], ",") if not is_empty(each, ",")]
    assert [split_cells(record, ",") for record in records[1:]] == rows
    table = pyarrow.csv.read_csv(
        pa.BufferReader(content),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={"p": pa.string(), "q": pa.string()}
        ),
    )
    assert [list(row.values()) for row in table.to_pylist()] == rows
    parts = list(record_blocks([content[i : i + 3] for i in range(0, len(content), 3)], ",", 8))
    assert sum(len(list(split_records([part], ","))) for part in parts) == len(
        list(split_records([content], ","))
    )
