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
    schema_from_dict,
    schema_to_dict,
)

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
    for schema in (EVERYTHING, learn(houses(), "price").schema, Schema("", (NumberColumn("x"),))):
        again = schema_from_dict(json.loads(json.dumps(schema_to_dict(schema), allow_nan=False)))
        assert again == schema
        assert schema_to_dict(again) == schema_to_dict(schema)


def test_a_schema_that_came_back_encodes_the_same() -> None:
    table = houses().append_column("code", [["01", "1", "null", "é"]])
    schema = learn(table, "price").schema
    again = schema_from_dict(json.loads(json.dumps(schema_to_dict(schema))))
    assert np.array_equal(again.encode(table), schema.encode(table))


def test_without_a_target_a_column_may_have_no_name() -> None:
    schema = learn(pa.table({"": [1.0, 2.0], "y": [1.0, 2.0]})).schema
    nameless = Schema("", schema.columns)
    assert schema_from_dict(schema_to_dict(nameless)) == nameless


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
        entry(NUMBER, name=1),
        entry(NUMBER, kind="text"),
        entry(NUMBER, kind=["number"]),
        entry(NUMBER, kind="category"),
        entry(NUMBER, levels=["a"]),
        entry(NUMBER, markers=None),
        entry(NUMBER, markers="?"),
        entry(NUMBER, has_missing="no"),
        entry(NUMBER, text_format=";"),
        entry(NUMBER, text_format="ISO 8601"),
        entry(NUMBER, text_format=["."]),
        entry(TIME, text_format="."),
        entry(TIME, cycles=["month"]),
        entry(TIME, cycles=["day", "day"]),
        entry(TIME, cycles=[{}]),
        entry(TIME, cycles="day"),
        entry(TIME, zone=3),
        entry(CATEGORY, levels=[]),
        entry(CATEGORY, levels="a"),
        entry(CATEGORY, levels=["a", "a"]),
        entry(CATEGORY, levels=["a", 1]),
        entry(CATEGORY, levels=["a", []]),
        entry(LEVELS, means=[[1.0]]),
        entry(LEVELS, means=[[1.0], [2.0, 3.0]]),
        entry(LEVELS, means=[[1.0], [float("nan")]]),
        entry(LEVELS, means=[[1.0], []]),
        entry(LEVELS, means=[1.0, 2.0]),
        entry(LEVELS, other=[]),
        entry(LEVELS, missing=[1.0, 2.0]),
        entry(LEVELS, missing=["1.0"]),
        entry(LEVELS, shown="a"),
        entry(LEVELS, shown={"name": "x"}),
    ],
    ids=repr,
)
def test_a_malformed_column_is_refused(column: Any) -> None:
    content = {"target": "y", "columns": [column], "sphere": None, "crs": ""}
    with pytest.raises(TableError, match=r"must have|is not right"):
        schema_from_dict(content)


GOOD: dict[str, Any] = {"target": "y", "columns": [entry(NUMBER)], "sphere": None, "crs": ""}


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        {},
        {"target": "y"},
        {**GOOD, "target": 1},
        {**GOOD, "target": "x"},
        {**GOOD, "columns": []},
        {**GOOD, "columns": "x"},
        {**GOOD, "crs": None},
        {**GOOD, "columns": [entry(NUMBER), entry(CATEGORY)]},
        *({name: GOOD[name] for name in GOOD if name != absent} for absent in GOOD),
    ],
    ids=repr,
)
def test_a_malformed_schema_is_refused(content: Any) -> None:
    with pytest.raises(TableError, match=r"schema must have .* Got "):
        schema_from_dict(content)


@pytest.mark.parametrize(
    "sphere",
    [
        {},
        "lon,lat",
        {"longitude": "lon", "latitude": "lat"},
        {"longitude": "lon", "latitude": "south", "centre": [0.0, 0.0]},
        {"longitude": "lon", "latitude": "y", "centre": [0.0, 0.0]},
        {"longitude": "lon", "latitude": "c", "centre": [0.0, 0.0]},
        {"longitude": "lon", "latitude": "lat", "centre": [0.0]},
        {"longitude": "lon", "latitude": "lat", "centre": [0.0, float("inf")]},
        {"longitude": "lon", "latitude": "lat", "centre": [0.0, "0"]},
    ],
    ids=repr,
)
def test_coordinates_that_cannot_be_are_refused(sphere: Any) -> None:
    content = schema_to_dict(EVERYTHING) | {"sphere": sphere}
    with pytest.raises(TableError, match="Coordinates must be two columns of numbers and a centre"):
        schema_from_dict(content)
