from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from builders.processes import run_processes
from search_checks import TABLES, assert_nearest, brute_force

from sswim.distributed.processes import ALONE, Processes
from sswim.search import Nearest, ProductSearch, SharedSearch, TreeSearch

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


def test_one_process_searches_alone() -> None:
    points, queries = TABLES["normal"]
    assert_nearest(SharedSearch(TreeSearch(points), 0, ALONE), points, queries, 3)
