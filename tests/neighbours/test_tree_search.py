from __future__ import annotations

import pytest
import torch
from search_checks import TABLES, assert_nearest

from sswim.neighbours.nearest import Search
from sswim.neighbours.tree_search import TreeSearch


@pytest.mark.parametrize("k", [1, 7, 40])
@pytest.mark.parametrize("name", TABLES)
def test_nearest_points_are_those_of_brute_force(name: str, k: int) -> None:
    points, queries = TABLES[name]
    assert_nearest(TreeSearch(points), points, queries, k)


def test_one_point_is_the_nearest() -> None:
    point = torch.tensor([[1.0, 2.0]], dtype=torch.float64)
    search = TreeSearch(point)
    assert isinstance(search, Search)
    assert search.n_points == 1
    nearest = search.nearest(torch.tensor([[1.0, 4.0]]), 1)
    assert nearest.indices.tolist() == [[0]]
    assert nearest.squared.tolist() == [[4.0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_queries_have_either_precision(dtype: torch.dtype) -> None:
    points, queries = TABLES["normal"]
    assert_nearest(TreeSearch(points), points, queries.to(dtype), 5)


@pytest.mark.parametrize("k", [0, 4])
def test_neighbours_must_be_no_more_than_points(k: int) -> None:
    search = TreeSearch(torch.zeros(3, 2))
    with pytest.raises(ValueError, match=f"Got k={k} and 3 points"):
        search.nearest(torch.zeros(1, 2), k)


def test_all_points_can_be_neighbours() -> None:
    points, queries = TABLES["one dimension"]
    assert_nearest(TreeSearch(points[:30]), points[:30], queries, 30)
