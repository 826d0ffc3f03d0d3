from __future__ import annotations

import pyarrow as pa
import pytest

from sswim.tables import TableError
from sswim.tables.values import Kind, is_text, kind_of, require_kind, without_string_view

KINDS: dict[Kind, list[pa.DataType]] = {
    "number": [
        *(pa.bool_(), pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64()),
        *(pa.decimal32(5, 2), pa.decimal64(9, 2), pa.decimal128(9, 2), pa.decimal256(50, 2)),
        *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
    ],
    "time": [
        *(pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us")),
        *(pa.time64("ns"), pa.timestamp("s"), pa.timestamp("ns", "Europe/Berlin")),
    ],
    "category": [
        *(pa.string(), pa.large_string(), pa.string_view()),
        pa.dictionary(pa.int8(), pa.string_view()),
        pa.dictionary(pa.int8(), pa.int64()),
        pa.dictionary(pa.int8(), pa.timestamp("us")),
        pa.dictionary(pa.int8(), pa.null()),  # a category without any value
    ],
}
NO_INPUTS = [
    *(pa.null(), pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(8)),
    *(pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.map_(pa.string(), pa.int64())),
    *(pa.dictionary(pa.int8(), pa.binary()), pa.month_day_nano_interval()),
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_type_that_can_be_an_input_is_of_one_kind(kind: Kind) -> None:
    for dtype in KINDS[kind]:
        assert kind_of(dtype) == kind, dtype
        require_kind("x", dtype, kind)
        require_kind("x", dtype, "category")  # anything with distinct values can be one
        for other in {*KINDS} - {kind, "category"}:
            with pytest.raises(TableError, match=r"Column 'x' must hold .*. Got type "):
                require_kind("x", dtype, other)


@pytest.mark.parametrize("dtype", NO_INPUTS, ids=str)
def test_other_types_are_of_no_kind(dtype: pa.DataType) -> None:
    assert kind_of(dtype) is None
    if pa.types.is_null(dtype):
        require_kind("x", dtype, "number")  # all values are missing
        return
    with pytest.raises(TableError, match=r"Column 'x' must hold text. Got type "):
        require_kind("x", dtype, "category")


def test_text_that_may_be_numbers_or_times_is_told_from_categories() -> None:
    assert all(is_text(dtype) for dtype in (pa.string(), pa.large_string(), pa.string_view()))
    assert not is_text(pa.dictionary(pa.int8(), pa.string()))
    assert not is_text(pa.binary())


def test_string_views_become_large_strings() -> None:
    assert without_string_view(pa.string_view()) == pa.large_string()
    ordered = pa.dictionary(pa.int8(), pa.string_view(), ordered=True)
    expected = pa.dictionary(pa.int8(), pa.large_string(), ordered=True)
    assert without_string_view(ordered) == expected
    for dtype in (pa.string(), pa.int8(), pa.dictionary(pa.int8(), pa.string())):
        assert without_string_view(dtype) == dtype
