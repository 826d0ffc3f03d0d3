from __future__ import annotations

from functools import reduce
from operator import or_

import pyarrow as pa
import pytest

from sswim.tables.categories import IDENTIFIER_ROWS, MAX_CATEGORIES, TextValues
from sswim.tables.table_io import TableError


def collect(*texts: str | None) -> TextValues:
    return TextValues.of(pa.chunked_array([list(texts)], pa.string()))


def test_texts_of_chunks_are_those_of_the_whole() -> None:
    chunks = [collect("b", None, "a"), collect("a", "a"), collect(None), TextValues()]
    whole = reduce(or_, chunks)
    assert whole == collect("b", "a", "a", "a")
    assert whole.n_rows == 4
    assert whole.categories("Got it", "leave it.") == ("a", "b")


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (TextValues(), "must have values. Got it without any; leave it."),
        (collect(None, None), "Got it without any"),
        (
            collect(*map(str, range(IDENTIFIER_ROWS + 1))),
            "Got it with 21 in 21 rows; leave it.",
        ),
        (collect(*map(str, range(MAX_CATEGORIES + 1)), "0"), "Got it with 1001 in 1002 rows"),
    ],
)
def test_what_are_no_categories_is_refused(found: TextValues, message: str) -> None:
    with pytest.raises(TableError, match=message):
        found.categories("Got it", "leave it.")


def test_too_many_are_too_many_whatever_follows() -> None:
    assert not collect(*map(str, range(MAX_CATEGORIES))).too_many
    assert collect(*map(str, range(MAX_CATEGORIES + 1))).too_many
