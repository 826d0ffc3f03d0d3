from __future__ import annotations

import pytest
import torch
from search_checks import TABLES, assert_nearest

from sswim.search.search import BlockSearch


@pytest.mark.parametrize("k", [1, 7, 40])
@pytest.mark.parametrize("name", TABLES)
def test_products_with_all_points_find_the_same(name: str, k: int) -> None:
    points, queries = TABLES[name]
    assert_nearest(BlockSearch(points, boxes=False), points, queries, k)


@pytest.mark.parametrize("boxes", [True, False])
@pytest.mark.parametrize("memory", [1, 2**16])
def test_little_memory_changes_nothing(memory: int, boxes: bool) -> None:
    points, queries = TABLES["few values"]
    assert_nearest(BlockSearch(points, memory, boxes), points, queries, 9)


@pytest.mark.parametrize("boxes", [True, False])
def test_many_dimensions_need_no_tree(boxes: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(600, 30, dtype=torch.float64, generator=generator).round()
    points[:, 0] += 1e6 * torch.arange(600).remainder(2)
    search = BlockSearch(points, boxes=boxes)
    assert_nearest(search, points, points[:80], 12)
    assert "tree" not in vars(search)


@pytest.mark.parametrize("boxes", [True, False])
def test_coarse_products_are_not_trusted(boxes: bool) -> None:
    points, queries = TABLES["correlated"]
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        assert_nearest(BlockSearch(points, boxes=boxes), points, queries, 6)
    finally:
        torch.set_float32_matmul_precision(before)


def test_several_threads_find_the_same_and_keep_their_number() -> None:
    points, queries = TABLES["normal"]
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert_nearest(BlockSearch(points), points, queries, 6)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_a_search_without_points_can_be_made() -> None:
    assert BlockSearch(torch.zeros(0, 3)).n_points == 0
