from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from builders.tables import dictionary, gaps, houses, learn, views

from sswim.tables import (
    CategoryColumn,
    IgnoredColumn,
    LevelMeansColumn,
    NumberColumn,
    Schema,
    SphereColumn,
    TableError,
    TimeColumn,
    UnknownCategoryWarning,
    input_names,
)
from sswim.tables.levels import TELLING_ROWS
from sswim.tables.values import missing_values

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


def test_inputs_are_all_other_columns() -> None:
    assert input_names(houses().schema, "price", []) == ["rooms", "town", "sold", "new"]
    assert input_names(houses().schema, "town", ["new"]) == ["price", "rooms", "sold"]


def test_columns_are_found_by_name() -> None:
    shuffled = houses().select(["town", "new", "sold", "rooms"]).append_column("id", [list("abcd")])
    x = SCHEMA.encode(shuffled)
    assert x.shape == (4, 6)
    np.testing.assert_array_equal(x, SCHEMA.encode(houses()))


def test_the_arrays_can_be_made_tensors_without_a_warning() -> None:
    schema = learn(houses(), "price", ["town"]).schema
    assert torch.from_numpy(schema.encode(houses())).shape[0] == 4


def test_a_number_column_may_come_as_another_type_of_number() -> None:
    schema = Schema("price", (NumberColumn("rooms"),))
    for rooms in ([1.5], [True], [2]):
        assert schema.encode(pa.table({"rooms": rooms})).tolist() == [[float(rooms[0])]]


def test_a_missing_column_is_named_with_those_like_it() -> None:
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
    schema = Schema("y", (CategoryColumn("x", levels=("a", "b", "c")),))
    found = schema.encode(pa.table({"x": values}))
    assert found.tolist() == [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]


def test_unknown_levels_are_missing_with_a_warning() -> None:
    table = houses().set_column(2, "town", [["York", "Rome", "Bath", "Rome"]])
    with pytest.warns(UnknownCategoryWarning, match="'town' .* in 2 rows: 'Rome'"):
        found = SCHEMA.encode(table)
    assert np.isnan(found[[1, 3], 1:4]).all()
    assert np.isfinite(np.delete(found, [1, 2, 3], axis=1)).all()


def test_known_levels_give_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = SCHEMA.encode(houses())
    towns = [name.startswith("town=") for name in SCHEMA.feature_names]
    assert found[:, towns].sum(axis=1).tolist() == [1, 1, 1, 1]


def test_infinite_numbers_are_refused() -> None:
    table = pa.table({"rooms": [1.0, np.inf, -np.inf]})
    with pytest.raises(TableError, match=r"finite. Got 2 infinite values in column 'rooms'"):
        Schema("price", (NumberColumn("rooms"),)).encode(table)


@pytest.mark.parametrize("name", ["f", "i", "s", "d"])
def test_missing_values_are_marked_where_there_were_many_in_fit(name: str) -> None:
    table = pa.concat_tables([gaps().select([name, "y"])] * TELLING_ROWS)
    schema = learn(table).schema
    missing = missing_values(table[name]).to_numpy()
    found = schema.encode(table)
    assert schema.feature_names[-1] == f"{name} is missing"
    assert schema.indicators.tolist() == [*[False] * (found.shape[1] - 1), True]
    assert np.array_equal(found[:, -1], missing)
    assert schema.has_indicator.all()
    if name in ("f", "i"):
        assert np.array_equal(np.isnan(found[:, 0]), missing)
    else:
        assert np.isfinite(found).all()  # a missing level is a level


def test_a_column_that_lost_all_its_values_is_missing_not_changed() -> None:
    found = SCHEMA.encode(pa.table({name: pa.nulls(2) for name in SCHEMA.names}))
    assert found.shape == (2, 6)
    assert np.isnan(found).all()


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


def test_degrees_may_be_text() -> None:
    columns = (NumberColumn("lon", text_format=","), NumberColumn("lat", text_format=","))
    text = pa.table({"lon": ["1,5", "2,5"], "lat": ["3,5", "4,5"]})
    number = pa.table({"lon": [1.5, 2.5], "lat": [3.5, 4.5]})
    schema = Schema("y", columns, SPHERE)
    assert np.array_equal(schema.encode(text), schema.encode(number))


def test_a_known_deviation_of_numbers_counts_in_their_units() -> None:
    deviation = np.array([[0.5, 0, 2.0, 0], [1.0, 0, 0.0, 0]])
    found = MAP.input_variance(deviation)
    assert found.tolist() == [[0, 0, 0, 0.25, 0, 4], [0, 0, 0, 1, 0, 0]]


def test_a_deviation_belongs_to_its_column_even_if_inputs_have_equal_names() -> None:
    schema = Schema(
        "y", (NumberColumn("c=b"), CategoryColumn("c", levels=("a", "b")), NumberColumn("d"))
    )
    assert schema.feature_names == ["c=b", "c=b", "d"]
    assert schema.input_variance(np.array([[0.5, 0.0, 2.0]])).tolist() == [[0.25, 0.0, 4.0]]


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


def test_rows_of_training_have_the_means_of_other_folds() -> None:
    column = LevelMeansColumn("x", ("a", "b"), ((1.0,), (2.0,)), other=(1.5,), missing=(1.7,))
    schema = Schema("y", (NumberColumn("n"), column))
    table = pa.table({"n": [1, 2, 3, 4], "x": ["a", "b", None, "c"]})
    assert schema.encode(table)[:, 1].tolist() == [1.0, 2.0, 1.7, 1.5]
    means = 10.0 * np.arange(4)[:, None] + np.arange(5)
    found = schema.encode(table, {"x": means[:, :, None]}, np.array([4, 0, 2, 3]))
    assert found.tolist() == [[1, 4], [2, 10], [3, 22], [4, 33]]


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
