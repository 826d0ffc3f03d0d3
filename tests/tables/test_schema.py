from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from builders.tables import houses, learn

from sswim.tables import (
    CategoryColumn,
    IgnoredColumn,
    LevelMeansColumn,
    NumberColumn,
    Schema,
    SphereColumn,
    TableError,
    TimeColumn,
    input_names,
    schema_from_dict,
    schema_to_dict,
)

TOWN = CategoryColumn("town", levels=("Bath", "Ely, the city", "York"))
SCHEMA = Schema("price", (NumberColumn("rooms"), TOWN, TimeColumn("sold"), NumberColumn("new")))


def test_a_schema_says_what_becomes_of_each_column() -> None:
    towns = ["town=Bath", "town=Ely, the city", "town=York"]
    assert SCHEMA.names == ["rooms", "town", "sold", "new"]
    assert SCHEMA.feature_names == ["rooms", *towns, "sold", "new"]
    found = SCHEMA.encode(houses())
    day = 18262 * 86_400.0
    assert found.tolist() == [
        [1, 0, 0, 1, day, 1],
        [2, 1, 0, 0, day + 86_400, 0],
        [3, 0, 0, 1, day, 1],
        [4, 0, 1, 0, day, 0],
    ]


@pytest.mark.parametrize(
    ("target", "drop", "message"),
    [
        ("prices", [], "must have columns 'prices'. Got none such; close to it: 'price'"),
        ("PRICE", [], "close to it: 'price'"),
        ("qqq", [], "it has 'price', 'rooms', 'town', 'sold', 'new'"),
        ("price", ["room", "new"], "must have columns 'room'. .* close to it: 'rooms'"),
        ("price", ["price"], "target must not be dropped. Got 'price'"),
        ("price", ["rooms", "town", "sold", "new"], "At least one input column must remain"),
    ],
)
def test_a_choice_that_the_table_does_not_allow_is_refused(
    target: str, drop: list[str], message: str
) -> None:
    with pytest.raises(TableError, match=message):
        input_names(houses().schema, target, drop)


def test_columns_are_found_by_name() -> None:
    assert input_names(houses().schema, "town", ["new"]) == ["price", "rooms", "sold"]
    shuffled = houses().select(["town", "new", "sold", "rooms"]).append_column("id", [list("abcd")])
    np.testing.assert_array_equal(SCHEMA.encode(shuffled), SCHEMA.encode(houses()))
    renamed = houses().rename_columns(["price", "Rooms", "towns", "sold", "new"])
    with pytest.raises(
        TableError, match=r"columns 'rooms', 'town'. .* close to it: 'Rooms', 'towns'"
    ):
        SCHEMA.encode(renamed)


def test_a_column_that_is_not_used_may_be_absent() -> None:
    schema = Schema("y", (IgnoredColumn("id", "it has no values"), NumberColumn("rooms")))
    assert schema.names == ["id", "rooms"]
    assert schema.used == ["rooms"]
    assert schema.feature_names == ["rooms"]
    assert schema.encode(houses())[:, 0].tolist() == [1, 2, 3, 4]


SPHERE = SphereColumn("lon", "lat", (10.0, 20.0))
MAP = Schema(
    "y",
    (NumberColumn("a", True), NumberColumn("lat", True), NumberColumn("b"), NumberColumn("lon")),
    SPHERE,
)


def test_coordinates_become_a_point_which_comes_first() -> None:
    table = pa.table(
        {"lon": [1.0, 2.0, None], "lat": [3.0, None, 5.0], "a": [6.0, None, 8.0], "b": [9.0] * 3}
    )
    assert MAP.feature_names == [*SPHERE.inputs, "a", "a is missing", "b"]
    assert MAP.indicators.tolist() == [False] * 4 + [True, False]
    assert MAP.has_indicator.tolist() == [False] * 3 + [True, True, False]
    assert MAP.isotropic == ((0, 1, 2),)
    found = MAP.encode(table)
    assert np.allclose(found[0, :3], SPHERE.encode(np.array([1.0]), np.array([3.0]))[0])
    assert np.isnan(found[1:, :3]).all()
    others = np.array([[6, 0, 9], [np.nan, 1, 9], [8, 0, 9]])
    assert np.array_equal(found[:, 3:], others, equal_nan=True)
    assert SCHEMA.isotropic == ()


def test_a_known_deviation_of_numbers_counts_in_their_units() -> None:
    deviation = np.array([[0.5, 0, 2.0, 0], [1.0, 0, 0.0, 0]])
    found = MAP.input_variance(deviation)
    assert found.tolist() == [[0, 0, 0, 0.25, 0, 4], [0, 0, 0, 1, 0, 0]]


@pytest.mark.parametrize("name", ["lon", "lat"])
def test_only_plain_numbers_have_a_deviation(name: str) -> None:
    deviation = np.zeros((1, 4))
    deviation[0, MAP.names.index(name)] = 0.1
    with pytest.raises(
        TableError, match=f"zero for columns that are not plain numbers. Got {name!r}"
    ):
        MAP.input_variance(deviation)
    with pytest.raises(TableError, match="Got 'town'"):
        SCHEMA.input_variance(np.array([[1.0, 1.0, 0.0, 0.0]]))


def test_cells_of_levels_and_of_grouped_numbers_are_read_as_they_are_written() -> None:
    schema = Schema(
        "y",
        (
            NumberColumn("plain"),
            NumberColumn("comma", text_format=","),
            NumberColumn("groups", text_format=",."),
            CategoryColumn("code", levels=("007",)),
            LevelMeansColumn("many", ("a",), ((1.0,),), (1.0,), (1.0,)),
            TimeColumn("time"),
            IgnoredColumn("id"),
        ),
    )
    assert schema.text_names == ["groups", "code", "many"]


SHOWN = CategoryColumn("many", True, ("a",), has_other=True)
EVERYTHING = Schema(
    "y",
    (
        NumberColumn("lon"),
        NumberColumn("lat", True, ",\u202f", ("?", "n/a")),
        TimeColumn("t", True, ("day", "year"), "Europe/Berlin"),
        TimeColumn("text", text_format="%d.%m.%Y", markers=("never",)),
        TimeColumn("clock", cycles=("day",), is_time_of_day=True),
        CategoryColumn("c", True, ("01", "1", "null", "é", ""), has_other=True),
        LevelMeansColumn("l", ("a", "b"), ((1 / 3, -2e-300), (np.pi, 5.0)), (0.1, 0.2), (3.0, 4.0)),
        LevelMeansColumn("many", ("a", "b"), ((1.0,), (2.0,)), (0.1,), (3.0,), SHOWN),
        IgnoredColumn("id", "it has no values"),
    ),
    SphereColumn("lon", "lat", (-170.123456789012345, 1 / 3)),
    "PROJCRS[…]",
)


def test_a_schema_comes_back_from_json_to_the_last_bit() -> None:
    for schema in (EVERYTHING, learn(houses(), "price").schema, Schema("", (NumberColumn(""),))):
        again = schema_from_dict(json.loads(json.dumps(schema_to_dict(schema), allow_nan=False)))
        assert again == schema
        assert schema_to_dict(again) == schema_to_dict(schema)


def entry(column: Any, **changes: Any) -> dict[str, Any]:
    """Return a column as a schema file has it, with changes; ``None`` leaves a field out."""
    (content,) = schema_to_dict(Schema("y", (column,)))["columns"]
    return {name: value for name, value in {**content, **changes}.items() if value is not None}


NUMBER = NumberColumn("x")
TIME = TimeColumn("x")
CATEGORY = CategoryColumn("x", levels=("a", "b"))
LEVELS = LevelMeansColumn("x", ("a", "b"), ((1.0,), (2.0,)), (1.5,), (1.5,))


@pytest.mark.parametrize(
    "column",
    [
        "x",
        None,
        {},
        {"name": "x"},
        entry(NUMBER, kind="text"),
        entry(NUMBER, kind=["number"]),
        entry(NUMBER, levels=["a"]),
        entry(NUMBER, markers=None),
        entry(NUMBER, text_format=";"),
        entry(NUMBER, text_format="ISO 8601"),
        entry(TIME, text_format="."),
        entry(TIME, cycles=["month"]),
        entry(TIME, cycles=["day", "day"]),
        entry(TIME, cycles=[{}]),
        entry(TIME, zone="Nowhere"),
        entry(CATEGORY, levels=[]),
        entry(CATEGORY, levels=["a", "a"]),
        entry(CATEGORY, levels=["a", []]),
        entry(LEVELS, means=[[1.0]]),
        entry(LEVELS, means=[[1.0], [2.0, 3.0]]),
        entry(LEVELS, means=[[1.0], [float("nan")]]),
        entry(LEVELS, other=[]),
        entry(LEVELS, missing=[1.0, 2.0]),
        entry(LEVELS, shown={"name": "x"}),
    ],
    ids=repr,
)
def test_a_malformed_column_is_refused(column: Any) -> None:
    content = {"target": "y", "columns": [column], "sphere": None, "crs": ""}
    with pytest.raises(ValueError, match="must"):
        schema_from_dict(content)


GOOD = schema_to_dict(EVERYTHING)
COORDINATES: dict[str, Any] = {"longitude": "lon", "latitude": "lat", "centre": [0.0, 0.0]}


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        {**GOOD, "target": "lon"},
        {**GOOD, "columns": []},
        {**GOOD, "columns": [entry(NUMBER), entry(CATEGORY)]},
        *({name: GOOD[name] for name in GOOD if name != absent} for absent in GOOD),
        {**GOOD, "sphere": {}},
        {**GOOD, "sphere": {**COORDINATES, "latitude": "south"}},
        {**GOOD, "sphere": {**COORDINATES, "latitude": "c"}},
        {**GOOD, "sphere": {**COORDINATES, "centre": [0.0]}},
        {**GOOD, "sphere": {**COORDINATES, "centre": [0.0, float("inf")]}},
    ],
    ids=range(14),
)
def test_a_malformed_schema_is_refused(content: Any) -> None:
    with pytest.raises(ValueError, match="must"):
        schema_from_dict(content)


@pytest.mark.parametrize("name", ["lon", "lat", "a", "b"])
def test_shuffling_a_column_is_encoding_the_shuffled_table(name: str) -> None:
    random = np.random.default_rng(0)
    table = pa.table({column: random.uniform(0, 9, 20) for column in MAP.names})
    order = random.permutation(20)
    place = table.column_names.index(name)
    shuffled = table.set_column(place, name, table[name].take(order))
    found = MAP.with_column_in_order(MAP.encode(table), table, name, order)
    assert np.array_equal(found, MAP.encode(shuffled))
    assert MAP.inputs_of("b").tolist() == [False] * 5 + [True]
    with pytest.raises(TableError, match=r"group must be a column of the fit. Got 'c'"):
        MAP.inputs_of("c")
