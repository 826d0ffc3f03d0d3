"""Tests that every search for nearest points must pass."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from search_checks import TABLES, assert_nearest

from sswim.search import (
    Method,
    ProductSearch,
    Search,
    TreeSearch,
    largest_product,
    make_search,
    point_factors,
    query_factors,
)

MakeSearch = Callable[[torch.Tensor], Search]
SEARCHES: dict[str, MakeSearch] = {
    "tree": TreeSearch,
    "products": ProductSearch,
    "topk": partial(ProductSearch, by_topk=True),
    "little memory": partial(ProductSearch, memory=1),
    "topk in little memory": partial(ProductSearch, memory=2**16, by_topk=True),
}


@pytest.fixture(params=list(SEARCHES.values()), ids=list(SEARCHES))
def search_in(request: pytest.FixtureRequest) -> MakeSearch:
    make: MakeSearch = request.param
    return make


@pytest.mark.parametrize("k", [1, 7, 40])
@pytest.mark.parametrize("name", TABLES)
def test_nearest_points_are_those_of_brute_force(search_in: MakeSearch, name: str, k: int) -> None:
    points, queries = TABLES[name]
    assert_nearest(search_in(points), points, queries, k)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_queries_have_either_precision(search_in: MakeSearch, dtype: torch.dtype) -> None:
    points, queries = TABLES["normal"]
    assert_nearest(search_in(points), points, queries.to(dtype), 5)


def test_all_points_can_be_neighbours(search_in: MakeSearch) -> None:
    points, queries = TABLES["one dimension"]
    for n_points in (1, 30):
        search = search_in(points[:n_points])
        assert isinstance(search, Search)
        assert search.n_points == n_points
        assert_nearest(search, points[:n_points], queries, n_points)


@pytest.mark.parametrize("k", [0, 4])
def test_neighbours_must_be_no_more_than_points(search_in: MakeSearch, k: int) -> None:
    search = search_in(torch.zeros(3, 2))
    with pytest.raises(ValueError, match=f"Got k={k} and 3 points"):
        search.nearest(torch.zeros(1, 2), k)


@pytest.mark.parametrize("value", [1e300, torch.inf, torch.nan])
def test_points_that_diverged_are_found(
    search_in: MakeSearch, value: float, generator: torch.Generator
) -> None:
    """Every search still finds points, and none that do not exist."""
    points = torch.randn(40, 2, dtype=torch.float64, generator=generator)
    queries = torch.cat((points[:3], torch.full((1, 2), value, dtype=torch.float64)))
    for each in (points, value * points):
        found = search_in(each).nearest(queries, 5).indices
        assert ((found >= 0) & (found < 40)).all()


@pytest.mark.parametrize("by_topk", [True, False])
def test_many_dimensions_need_no_tree(by_topk: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(600, 30, dtype=torch.float64, generator=generator).round()
    points[:, 0] += 1e6 * torch.arange(600).remainder(2)
    search = ProductSearch(points, by_topk=by_topk)
    assert_nearest(search, points, points[:80], 12)
    assert "tree" not in vars(search)
    points = torch.eye(60, dtype=torch.float64)  # ties are compared by differences
    search = ProductSearch(points, by_topk=by_topk)
    assert_nearest(search, points, torch.zeros(3, 60, dtype=torch.float64), 5)


def test_coarse_products_are_not_trusted() -> None:
    points, queries = TABLES["correlated"]
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        assert_nearest(ProductSearch(points, by_topk=True), points, queries, 6)
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("method", ["auto", "tree", "products"])
def test_every_method_finds_the_same(method: Method) -> None:
    points, queries = TABLES["normal"]
    assert_nearest(make_search(points, method), points, queries, 5)


@pytest.mark.parametrize(
    ("n_points", "n_inputs", "kind"),
    [
        (10_000, 1, TreeSearch),
        (10_000, 8, TreeSearch),
        (10_000, 9, ProductSearch),
        (1_000, 12, TreeSearch),
        (1_000, 13, ProductSearch),
    ],
)
def test_few_dimensions_get_a_tree(n_points: int, n_inputs: int, kind: type) -> None:
    assert isinstance(make_search(torch.zeros(n_points, n_inputs)), kind)
    assert ProductSearch(torch.zeros(0, 3)).n_points == 0  # no points are a search as well


def test_points_near_a_set_of_few_dimensions_get_a_tree(generator: torch.Generator) -> None:
    options: dict[str, Any] = {"dtype": torch.float64, "generator": generator}
    plane = torch.randn(2**15, 2, **options) @ torch.randn(2, 12, **options)
    assert isinstance(make_search(plane), TreeSearch)
    assert isinstance(make_search(torch.randn(2**15, 12, **options)), ProductSearch)


@pytest.mark.parametrize("n_inputs", [1, 10, 300])
@pytest.mark.parametrize("shift", [0.0, 100.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bounds_contain_products(n_inputs: int, shift: float, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    points, queries = torch.randn(2, 400, n_inputs, dtype=torch.float64, generator=generator)
    points, queries = points + shift, queries + shift
    centre = torch.zeros(n_inputs, dtype=torch.float64)
    products = query_factors(queries, dtype) @ point_factors(points, centre, dtype).mT
    squared = (queries[:, None] - points).square().sum(-1)
    squares = queries.square().sum(-1)
    rounding = 1e-14 * squared.max()  # of the reference
    for column in range(len(points)):
        true, product = squared[:, column], products[:, column]
        limit = largest_product(true, squares, n_inputs, dtype)
        assert bool((product.double() <= limit + rounding).all())
