"""Tests that every search for nearest points must pass."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from search_checks import TABLES, assert_nearest

from sswim.search.nearest import Search, TreeSearch
from sswim.search.search import BlockSearch

MakeSearch = Callable[[torch.Tensor], Search]


@pytest.fixture(params=[TreeSearch, BlockSearch])
def search_in(request: pytest.FixtureRequest) -> MakeSearch:
    make: MakeSearch = request.param
    return make


@pytest.mark.parametrize("k", [1, 7, 40])
@pytest.mark.parametrize("name", TABLES)
def test_nearest_points_are_those_of_brute_force(search_in: MakeSearch, name: str, k: int) -> None:
    points, queries = TABLES[name]
    assert_nearest(search_in(points), points, queries, k)


def test_one_point_is_the_nearest(search_in: MakeSearch) -> None:
    point = torch.tensor([[1.0, 2.0]], dtype=torch.float64)
    search = search_in(point)
    assert isinstance(search, Search)
    assert search.n_points == 1
    nearest = search.nearest(torch.tensor([[1.0, 4.0]]), 1)
    assert nearest.indices.tolist() == [[0]]
    assert nearest.squared.tolist() == [[4.0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_queries_have_either_precision(search_in: MakeSearch, dtype: torch.dtype) -> None:
    points, queries = TABLES["normal"]
    assert_nearest(search_in(points), points, queries.to(dtype), 5)


@pytest.mark.parametrize("k", [0, 4])
def test_neighbours_must_be_no_more_than_points(search_in: MakeSearch, k: int) -> None:
    search = search_in(torch.zeros(3, 2))
    with pytest.raises(ValueError, match=f"Got k={k} and 3 points"):
        search.nearest(torch.zeros(1, 2), k)


def test_all_points_can_be_neighbours(search_in: MakeSearch) -> None:
    points, queries = TABLES["one dimension"]
    assert_nearest(search_in(points[:30]), points[:30], queries, 30)
