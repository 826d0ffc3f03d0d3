from __future__ import annotations

import pytest
import torch
from builders.models import normal
from torch import Tensor

from sswim.members.neighbourhood import NeighbourIndex, thinned


@pytest.fixture(params=[2, 20], ids=["tree", "products"])
def points(generator: torch.Generator, request: pytest.FixtureRequest) -> Tensor:
    return normal(generator, 400, request.param)


def nearest(points: Tensor, queries: Tensor, k: int) -> Tensor:
    return torch.cdist(queries, points).topk(k, largest=False).indices


def test_with_many_inputs_all_neighbours_are_the_nearest(generator: torch.Generator) -> None:
    points, queries = normal(generator, 400, 20), normal(generator, 30, 20)
    found = NeighbourIndex(points, thinned(points, 16)).neighbours(queries, 20)
    assert torch.equal(found, nearest(points, queries, 20))


@pytest.mark.parametrize("n_inputs", [1, 2, 3])
def test_near_and_far_neighbours_of_a_map_against_all_distances(
    n_inputs: int, generator: torch.Generator
) -> None:
    points, queries = normal(generator, 400, n_inputs), normal(generator, 30, n_inputs)
    found = NeighbourIndex(points, thinned(points, 16)).neighbours(queries, 20)
    far = thinned(points, 16).nonzero()[:, 0]
    near = nearest(points, queries, 10)
    beyond = far[nearest(points[far], queries, 10)]
    assert found.shape == (30, 20)
    assert torch.equal(found[:, ::2], near)  # in turn, the nearest first
    for ours, theirs, close in zip(found[:, 1::2], beyond, near, strict=True):
        for mine, other in zip(ours.tolist(), theirs.tolist(), strict=True):
            assert mine == (-1 if other in close else other)  # a near row is no far row as well
    assert all(len({*row}) + row.count(-1) - (-1 in row) == 20 for row in found.tolist())


def test_all_rows_are_neighbours_where_there_are_no_more(points: Tensor) -> None:
    few = NeighbourIndex(points[:9], thinned(points[:9], 16))
    for k in (9, 10, 1000):
        found = few.neighbours(points[:4], k)
        assert torch.equal(found, nearest(points[:9], points[:4], 9))


def test_one_neighbour_and_few_rows(points: Tensor) -> None:
    index = NeighbourIndex(points[:12], thinned(points[:12], 16))  # of which none or one can be far
    assert torch.equal(index.neighbours(points[:5], 1)[:, 0], torch.arange(5))
    found = index.neighbours(points[:5], 8)
    assert found.shape == (5, 8)
    assert torch.equal(found[:, 0], torch.arange(5))


def test_far_rows_do_not_depend_on_the_order_of_rows(
    points: Tensor, generator: torch.Generator
) -> None:
    order = torch.randperm(len(points), generator=generator)
    chosen = thinned(points, 16)
    assert torch.equal(thinned(points[order], 16), chosen[order])
    assert 10 < chosen.sum() < 45  # 25 of 400
    found = NeighbourIndex(points, thinned(points, 16)).neighbours(points[:20], 12)
    shuffled = NeighbourIndex(points[order], thinned(points[order], 16)).neighbours(points[:20], 12)
    assert torch.equal(torch.where(shuffled < 0, -1, order[shuffled]), found)


def test_one_row_in_n_is_chosen(generator: torch.Generator) -> None:
    points = normal(generator, 100_000, 1)
    for divisor in (1, 2, 16):
        share = thinned(points, divisor).double().mean().item()
        assert share == pytest.approx(1 / divisor, abs=4 / 100_000**0.5)


def test_far_neighbours_lie_around_a_gap(generator: torch.Generator) -> None:
    """The nearest rows of a point in a gap lie at its edge; far ones on all sides."""
    x = normal(generator, 4000, 2)
    x = x[(x.norm(dim=1) > 1.0)]
    index = NeighbourIndex(x, thinned(x, 16))
    centre = torch.tensor([[0.5, 0.0]], dtype=torch.float64)
    [found], [near] = index.neighbours(centre, 64), nearest(x, centre, 64)
    ours, theirs = (torch.atan2(*x[some].T).std() for some in (found[found >= 0], near))
    assert ours > 1.2 * theirs
