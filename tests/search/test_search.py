"""Every search for nearest points, against all squared distances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from builders.processes import run_processes
from torch import Tensor

from sswim.distributed.processes import Processes
from sswim.search import (
    Nearest,
    ProductSearch,
    Search,
    SharedSearch,
    TreeSearch,
    largest_product,
    make_search,
    point_factors,
    query_factors,
)


def tables() -> dict[str, tuple[Tensor, Tensor]]:
    """Return points and queries of many kinds, by name."""
    generator = torch.Generator().manual_seed(7)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=torch.float64, generator=generator)

    def split(rows: Tensor, n_queries: int = 100) -> tuple[Tensor, Tensor]:
        return rows[n_queries:], rows[:n_queries]

    clusters = 1e4 * draw(5, 4).repeat(260, 1) + draw(1300, 4)
    constant = draw(700, 3)
    constant[:, 1] = 4.0
    outlier = draw(900, 3)
    outlier[450] = 1e12
    return {
        "normal": split(draw(3000, 8)),
        "correlated": split(draw(3000, 2) @ draw(2, 12) + 1e-3 * draw(3000, 12)),
        "one dimension": split(draw(800, 1)),
        "far from zero": split(draw(800, 3) + 1e8),
        "clusters": split(clusters),
        "constant column": split(constant),
        "all equal": split(torch.ones(500, 2, dtype=torch.float64)),
        "few values": split(draw(2500, 5).round()),
        "outlier": split(outlier),
        "huge": split(draw(300, 3) * 1e30),
        "tiny": split(draw(300, 3) * 1e-30),
        "queries far away": (draw(1000, 4), 1e3 + draw(50, 4)),
        "queries are points": (points := draw(1000, 4), points[:200]),
        "one query": (draw(1000, 4), draw(1, 4)),
        "no query": (draw(100, 4), draw(0, 4)),
        "single precision": (draw(1000, 4), draw(50, 4).float()),
    }


TABLES = tables()


def brute_force(points: Tensor, queries: Tensor) -> Tensor:
    """Return all squared distances, by differences in float64."""
    return (queries[:, None].double() - points.double()).square().sum(-1)


def assert_nearest(search: Search, points: Tensor, queries: Tensor, k: int) -> None:
    """Check a search against all squared distances."""
    nearest = search.nearest(queries, k)
    squared = brute_force(points, queries)
    expected = squared.sort(dim=1).values[:, :k]
    assert nearest.indices.shape == nearest.squared.shape == (len(queries), k)
    assert nearest.squared.dtype == torch.float64
    assert bool((nearest.squared.diff(dim=1) >= 0).all())
    torch.testing.assert_close(nearest.squared, expected, rtol=1e-12, atol=0)
    # The points are those at these distances, and none comes twice.
    torch.testing.assert_close(squared.gather(1, nearest.indices), expected, rtol=1e-12, atol=0)
    assert all(len(row.unique()) == k for row in nearest.indices)


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


ENDS = (0, 0, 3, 500)
"""The first process has no points, the second fewer than are asked for."""


def search_together(processes: Processes, k: int) -> Nearest:
    points, queries = TABLES["far from zero"]
    begin, end = ENDS[processes.rank], ENDS[processes.rank + 1]
    own = ProductSearch(points[begin:end])
    return SharedSearch(own, begin, processes).nearest(queries, k)


@pytest.mark.parametrize("k", [1, 20])
def test_processes_find_the_nearest_of_all_points(k: int) -> None:
    points, queries = TABLES["far from zero"]
    squared = brute_force(points[: ENDS[-1]], queries)
    expected = squared.sort(dim=1).values[:, :k]
    first, *others = run_processes(3, search_together, k)
    torch.testing.assert_close(first.squared, expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(squared.gather(1, first.indices), expected, rtol=1e-12, atol=0)
    for other in others:
        assert torch.equal(other.indices, first.indices)
        assert torch.equal(other.squared, first.squared)


def test_all_processes_refuse_too_many_neighbours() -> None:
    for name, text in run_processes(3, search_together, 501):
        assert name == "ValueError"
        assert "Got k=501 and 500 points" in text


@dataclass(frozen=True)
class Echo(Processes):
    """Two processes, of which the other one always has the values that this one has."""

    size: int = 2

    def all_gather(self, value: Any) -> list[Any]:
        return [value, value]


def test_equal_points_of_two_processes_both_count() -> None:
    points, queries = TABLES["normal"]
    search = SharedSearch(TreeSearch(points), 10, Echo())
    assert search.n_points == 2 * len(points)
    nearest = search.nearest(queries, 4)
    own = TreeSearch(points).nearest(queries, 2)
    assert torch.equal(nearest.squared, own.squared.repeat_interleave(2, dim=1))
    assert torch.equal(nearest.indices, 10 + own.indices.repeat_interleave(2, dim=1))
