from __future__ import annotations

import datetime
import json
import warnings
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from builders.tables import dictionary, gaps, houses, views

from sswim.tables.categories import MAX_CATEGORIES
from sswim.tables.schema import Column, Schema, UnknownCategoryWarning
from sswim.tables.table_io import TableError

NEW_YEAR = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
SECONDS = NEW_YEAR.timestamp()


def encoded(values: Any) -> np.ndarray[Any, Any]:
    table = pa.table({"x": values, "y": [0.0] * len(values)})
    return Schema.learn(table, "y").encode(table)


def test_a_schema_says_what_becomes_of_each_column() -> None:
    schema = Schema.learn(houses(), "price", drop=["new"])
    assert schema == Schema(
        "price",
        (
            Column("rooms", "number"),
            Column("town", "category", ("Bath", "Ely, the city", "York")),
            Column("sold", "time"),
        ),
    )
    names = ["rooms", "town=Bath", "town=Ely, the city", "town=York", "sold"]
    assert schema.feature_names == names


@pytest.mark.parametrize(
    ("target", "drop", "message"),
    [
        ("prices", [], "must have columns 'prices'. Got none such; close to it: 'price'"),
        ("PRICE", [], "close to it: 'price'"),
        ("qqq", [], "it has 'price', 'rooms', 'town', 'sold', 'new'"),
        ("price", ["room", "new"], "must have columns 'room'. .* close to it: 'rooms'"),
        ("price", ["price"], "target must not be dropped. Got 'price'"),
        ("town", [], "Column 'town' must hold numbers. Got type string"),
        ("sold", [], "Column 'sold' must hold numbers. Got type date32"),
        ("price", ["rooms", "town", "sold", "new"], "At least one input column must remain"),
    ],
)
def test_a_choice_that_the_table_does_not_allow_is_refused(
    target: str, drop: list[str], message: str
) -> None:
    with pytest.raises(TableError, match=message):
        Schema.learn(houses(), target, drop)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (pa.array([[1], [2]]), "list<"),
        (pa.array([{"a": 1}, {"a": 2}]), "struct<"),
        (pa.array([b"a", b"b"]), "binary"),
        (pa.nulls(2), "null"),
        (pa.array([1, 2], pa.time32("s")), "time32"),
        (pa.array([1, 2], pa.duration("s")), "duration"),
        (pa.array([1, 2]).dictionary_encode(), "dictionary<values=int64"),
        (pa.array([None, None], pa.string()), "string without any"),
    ],
)
def test_a_column_of_another_type_is_refused_with_advice(values: Any, dtype: str) -> None:
    table = pa.table({"my x": values, "y": [1.0, 2.0]})
    with pytest.raises(TableError, match=f"'my x' of type {dtype}.*--drop 'my x'"):
        Schema.learn(table, "y")


def test_all_columns_that_cannot_be_used_are_told_at_once() -> None:
    table = pa.table({"a": pa.nulls(1), "b": [1.0], "c": [[1]], "y": [1.0]})
    with pytest.raises(TableError, match=r"--drop a\.\n.*--drop c\."):
        Schema.learn(table, "y")


@pytest.mark.parametrize("n_rows", [20, 21])
def test_an_identifier_is_refused_beyond_twenty_rows(n_rows: int) -> None:
    texts = [f"id{i:02}" for i in range(n_rows)]
    table = pa.table({"id": texts, "y": [0.0] * n_rows})
    if n_rows <= 20:
        assert Schema.learn(table, "y").columns[0].categories == tuple(texts)
        return
    with pytest.raises(TableError, match="with 21 in 21 rows; leave it out with --drop id"):
        Schema.learn(table, "y")
    repeated = pa.table({"id": [*texts[1:], texts[1]], "y": [0.0] * n_rows})
    assert len(Schema.learn(repeated, "y").columns[0].categories) == 20


@pytest.mark.parametrize("n_categories", [MAX_CATEGORIES, MAX_CATEGORIES + 1])
def test_too_many_categories_are_refused(n_categories: int) -> None:
    texts = [str(i) for i in range(n_categories)] * 2
    table = pa.table({"x": texts, "y": [0.0] * len(texts)})
    if n_categories <= MAX_CATEGORIES:
        assert len(Schema.learn(table, "y").feature_names) == n_categories
        return
    with pytest.raises(TableError, match=r"at most 1000 different values.*Got column 'x'.*1001"):
        Schema.learn(table, "y")


def test_a_category_is_learned_only_if_a_row_has_it() -> None:
    pool = pa.DictionaryArray.from_arrays(pa.array([2, None, 0]), pa.array(["c", "b", "a"]))
    schema = Schema.learn(pa.table({"x": pool, "y": [1, 2, 3]}), "y")
    assert schema.columns == (Column("x", "category", ("a", "c")),)


@pytest.mark.parametrize(
    "values",
    [
        *(
            pa.array([3, 0], dtype)
            for dtype in (pa.int8(), pa.uint64(), pa.float32(), pa.float64())
        ),
        pa.array(np.array([3, 0], np.float16)),
        *(
            pa.array([Decimal("3.00"), Decimal(0)], dtype)
            for dtype in (pa.decimal128(5, 2), pa.decimal256(50, 2))
        ),
    ],
    ids=lambda values: str(values.type),
)
def test_numbers_of_every_type_become_float64(values: Any) -> None:
    x = encoded(values)
    assert x.dtype == np.float64
    assert x.tolist() == [[3.0], [0.0]]


def test_truth_values_become_ones_and_zeros() -> None:
    assert encoded(pa.array([True, False])).tolist() == [[1.0], [0.0]]


def test_integers_beyond_the_precision_are_rounded() -> None:
    assert encoded(pa.array([2**60 + 1])).tolist() == [[2.0**60]]


@pytest.mark.parametrize(
    "dtype",
    [
        pa.date32(),
        pa.date64(),
        *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
        pa.timestamp("us", "UTC"),
        pa.timestamp("ns", "Australia/Sydney"),
    ],
    ids=str,
)
def test_times_become_seconds_since_1970(dtype: Any) -> None:
    before = datetime.datetime(1969, 12, 31, tzinfo=datetime.UTC)
    assert encoded(pa.array([NEW_YEAR, before], dtype)).tolist() == [[SECONDS], [-86400.0]]


def test_fractions_of_a_second_count() -> None:
    assert encoded(pa.array([1500], pa.timestamp("ms"))).tolist() == [[1.5]]


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["b", "a", "b"]),
        pa.array(["b", "a", "b"], pa.large_string()),
        pa.array(["b", "a", "b"], pa.string_view()),
        dictionary(["b", "a", "b"], pa.string()),
        dictionary(["b", "a", "b"], pa.large_string()),
        views(["b", "a"], [0, 1, 0]),
        pa.chunked_array([["b"], ["a", "b"]]),
    ],
    ids=lambda values: str(values.type),
)
def test_text_of_every_type_becomes_indicators(values: Any) -> None:
    assert encoded(values).tolist() == [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]


def test_columns_are_found_by_name() -> None:
    schema = Schema.learn(houses(), "price")
    shuffled = houses().select(["town", "new", "sold", "rooms"]).append_column("id", [list("abcd")])
    x = schema.encode(shuffled)
    assert x.shape == (4, 6)
    np.testing.assert_array_equal(x, schema.encode(houses()))
    np.testing.assert_array_equal(x[:, 0], [1, 2, 3, 4])


def test_the_arrays_can_be_made_tensors_without_a_warning() -> None:
    schema = Schema.learn(houses(), "price", drop=["town"])
    assert torch.from_numpy(schema.targets(houses())).tolist() == [1.5, 2.5, 3.5, 4.5]
    assert torch.from_numpy(schema.encode(houses())).shape == (4, 3)


def test_a_number_column_may_come_as_another_type_of_number() -> None:
    schema = Schema.learn(houses(), "price", drop=["town", "sold", "new"])
    for rooms in ([1.5], [True], [2]):
        assert schema.encode(pa.table({"rooms": rooms})).tolist() == [[float(rooms[0])]]


def test_a_missing_column_is_named_with_those_like_it() -> None:
    schema = Schema.learn(houses(), "price")
    renamed = houses().rename_columns(["price", "Rooms", "towns", "sold", "new"])
    with pytest.raises(
        TableError, match=r"columns 'rooms', 'town'. .* close to it: 'Rooms', 'towns'"
    ):
        schema.encode(renamed)
    with pytest.raises(TableError, match="must have columns 'price'"):
        schema.targets(houses().drop_columns(["price"]))


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("rooms", [list("abcd")], "Column 'rooms' must hold numbers. Got type string"),
        ("rooms", houses()["sold"], "Column 'rooms' must hold numbers. Got type date32"),
        ("town", [[1, 2, 3, 4]], "Column 'town' must hold text. Got type int64"),
        ("sold", [[1, 2, 3, 4]], "Column 'sold' must hold dates or times. Got type int64"),
        ("price", [list("abcd")], "Column 'price' must hold numbers. Got type string"),
    ],
)
def test_a_column_that_has_changed_its_kind_is_refused(
    name: str, values: Any, message: str
) -> None:
    schema = Schema.learn(houses(), "price")
    changed = houses().drop_columns([name]).append_column(name, values)
    with pytest.raises(TableError, match=message):
        (schema.targets if name == "price" else schema.encode)(changed)


def test_unknown_categories_are_zeros_with_a_warning() -> None:
    schema = Schema.learn(pa.table({"x": ["a", "b"], "y": [1.0, 2.0]}), "y")
    with pytest.warns(UnknownCategoryWarning) as caught:
        x = schema.encode(pa.table({"x": ["b", "p", "q", "p", "r", "s", "t", "u", "a"]}))
    assert x.tolist() == [[0.0, 1.0], *[[0.0, 0.0]] * 7, [1.0, 0.0]]
    (warning,) = caught
    message = str(warning.message)
    assert "Column 'x'" in message
    assert "in 7 rows: 'p', 'q', 'r', 's', 't' and 1 more." in message


def test_known_categories_give_no_warning() -> None:
    schema = Schema.learn(houses(), "price")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoded = schema.encode(houses())
    towns = [name.startswith("town=") for name in schema.feature_names]
    assert encoded[:, towns].sum(axis=1).tolist() == [1, 1, 1, 1]


def test_infinite_numbers_are_refused() -> None:
    table = pa.table({"x": [1.0, np.inf, -np.inf], "y": [1.0, 2.0, np.inf]})
    schema = Schema.learn(table, "y")
    with pytest.raises(TableError, match=r"finite. Got 2 infinite values in column 'x'"):
        schema.encode(table)
    with pytest.raises(TableError, match=r"finite. Got 1 infinite values in column 'y'"):
        schema.targets(table)


@pytest.mark.parametrize("name", ["f", "i", "s", "d"])
def test_missing_values_are_neither_encoded_nor_targets(name: str) -> None:
    table = gaps().select([name, "y"])
    with pytest.raises(TableError, match=f"missing values in '{name}'"):
        Schema.learn(table, "y").encode(table)
    with pytest.raises(TableError, match=f"missing values in '{name}'"):
        Schema(name, (Column("y", "number"),)).targets(table)


def test_a_column_that_lost_all_its_values_is_called_missing_not_changed() -> None:
    schema = Schema.learn(houses(), "price", drop=["town", "sold", "new"])
    with pytest.raises(TableError, match=r"missing values in 'rooms' \(2 rows\)"):
        schema.encode(pa.table({"rooms": pa.nulls(2)}))


def test_a_schema_comes_back_from_json() -> None:
    table = houses().append_column("code", [["01", "1", "null", "é"]])
    schema = Schema.learn(table, "price")
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


NUMBER = {"name": "x", "kind": "number", "categories": []}
CATEGORY = {"name": "x", "kind": "category", "categories": ["a"]}


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        {},
        {"target": "y"},
        {"target": 1, "columns": [NUMBER]},
        {"target": "y", "columns": []},
        {"target": "y", "columns": "x"},
        {"target": "y", "columns": ["x"]},
        {"target": "x", "columns": [NUMBER]},
        {"target": "y", "columns": [NUMBER, CATEGORY]},
        {"target": "y", "columns": [NUMBER | {"name": None}]},
        {"target": "y", "columns": [NUMBER | {"kind": "text"}]},
        {"target": "y", "columns": [NUMBER | {"kind": ["number"]}]},
        {"target": "y", "columns": [NUMBER | {"categories": ["a"]}]},
        {"target": "y", "columns": [{"name": "x", "kind": "number"}]},
        {"target": "y", "columns": [CATEGORY | {"categories": []}]},
        {"target": "y", "columns": [CATEGORY | {"categories": "a"}]},
        {"target": "y", "columns": [CATEGORY | {"categories": ["a", "a"]}]},
        {"target": "y", "columns": [CATEGORY | {"categories": ["a", 1]}]},
        {"target": "y", "columns": [CATEGORY | {"categories": ["a", []]}]},
    ],
    ids=repr,
)
def test_a_malformed_schema_is_refused(content: Any) -> None:
    with pytest.raises(TableError, match=r"schema must have .* Got "):
        Schema.from_dict(content)
