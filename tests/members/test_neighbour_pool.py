from __future__ import annotations

import pytest
import torch
from builders.models import normal, small_rows
from builders.neighbours import neighbour_model

from sswim.members import neighbour_training as neighbour_pool
from sswim.members.model import kernel_points
from sswim.members.neighbour_training import (
    MAP_SPACINGS,
    N_NEIGHBORS,
    Pool,
    PoolSource,
    max_candidates,
    step_of,
)
from sswim.rows import Rows, as_rows


def many_inputs(generator: torch.Generator, n: int = 60) -> Rows:
    """Rows with too many inputs for a map."""
    return as_rows(normal(generator, n, 6), normal(generator, n))


def copies_of(rows: Rows, n: int) -> Rows:
    """Rows of which each input occurs n times, with other targets."""
    again = torch.arange(len(rows)).repeat(n)
    targets = torch.cat([rows.targets + number for number in range(n)])
    return Rows(rows.take(again).inputs, targets)


def neighbours_of(pool: Pool, place: int) -> list[int]:
    return pool.neighbours[place][pool.present[place]].tolist()


def test_neighbours_are_the_nearest_other_rows_in_the_warped_space(
    generator: torch.Generator,
) -> None:
    rows = many_inputs(generator)
    model = neighbour_model(rows, generator, n_neighbors=4, depth=1)
    pool = PoolSource(rows, seed=0).draw(model, 0, 60)
    with torch.no_grad():
        points = kernel_points(model.factors()[0], rows.inputs).mean
    distances = torch.cdist(points, points).fill_diagonal_(torch.inf)
    for place, own in enumerate(pool.own.tolist()):
        assert neighbours_of(pool, place) == distances[own].argsort()[:4].tolist()


def test_all_other_rows_are_neighbours_where_there_are_few(generator: torch.Generator) -> None:
    rows = many_inputs(generator, 9)
    pool = PoolSource(rows, 0).draw(neighbour_model(rows, generator, n_neighbors=100), 0, 9)
    for place, own in enumerate(pool.own.tolist()):
        assert {*neighbours_of(pool, place)} == {*range(9)} - {own}


def test_there_are_at_most_so_many_neighbours(generator: torch.Generator) -> None:
    rows = many_inputs(generator, 100)
    pool = PoolSource(rows, 0).draw(neighbour_model(rows, generator, n_neighbors=64), 0, 20)
    assert pool.neighbours.shape == (20, N_NEIGHBORS)
    assert pool.present.all()


def test_a_row_that_is_missing_has_no_place_before_one_that_is_there(
    generator: torch.Generator,
) -> None:
    rows = copies_of(many_inputs(generator, 5), 3)
    pool = PoolSource(rows, 0).draw(neighbour_model(rows, generator, n_neighbors=15), 0, 15)
    counts = pool.present.sum(-1)
    assert (counts == 12).all()
    for present, count in zip(pool.present, counts.tolist(), strict=True):
        assert present[:count].all()


@pytest.mark.parametrize("n_inputs", [2, 6], ids=["map", "many inputs"])
@pytest.mark.parametrize("n_copies", [2, 5, 60])
def test_copies_are_never_neighbours(
    n_copies: int, n_inputs: int, generator: torch.Generator
) -> None:
    """A row has no neighbour if there are more copies of it than are looked up beyond those."""
    distinct = as_rows(normal(generator, 8, n_inputs), normal(generator, 8))
    rows = copies_of(distinct, n_copies)
    model = neighbour_model(rows, generator, n_neighbors=6)
    pool = PoolSource(rows, 0).draw(model, 0, len(rows))
    inputs = rows.inputs.mean
    same = (inputs[pool.neighbours] == inputs[pool.own][:, None]).all(-1)
    assert not (same & pool.present).any()
    if n_copies == 2:
        assert pool.present.all()


def test_equal_rows_alone_have_no_neighbours(generator: torch.Generator) -> None:
    rows = copies_of(many_inputs(generator, 1), 7)
    pool = PoolSource(rows, 0).draw(neighbour_model(rows, generator, n_neighbors=3), 0, 7)
    assert not pool.present.any()


def test_every_row_is_drawn_as_often_as_the_others(generator: torch.Generator) -> None:
    rows = small_rows(generator, 50)
    model = neighbour_model(rows, generator, n_neighbors=3)
    source = PoolSource(rows, seed=3)
    own = torch.cat([source.draw(model, begin, 40).own for begin in range(0, 200, 40)])
    assert torch.equal(own.bincount(minlength=50), torch.full((50,), 4))
    long = source.draw(model, 0, 200).own
    assert torch.equal(long.bincount(minlength=50), torch.full((50,), 4))
    assert torch.equal(source._own(30, 40), torch.cat([source._own(30, 10), source._own(40, 30)]))


def test_the_same_seed_draws_the_same(generator: torch.Generator) -> None:
    rows = small_rows(generator, 50)
    model = neighbour_model(rows, generator, n_neighbors=3)
    pools = [PoolSource(rows, seed).draw(model, 40, 30) for seed in (1, 1, 2)]
    for ours, theirs in zip(pools[0].tensors(), pools[1].tensors(), strict=True):
        assert torch.equal(ours, theirs)
    assert not torch.equal(pools[0].own, pools[2].own)


def test_some_rows_of_a_map_have_far_neighbours(generator: torch.Generator) -> None:
    rows = as_rows(normal(generator, 8000, 2), normal(generator, 8000))
    model = neighbour_model(rows, generator, n_neighbors=8)
    pool = PoolSource(rows, 0).draw(model, 0, 500)
    x = rows.inputs.mean
    distances = torch.cdist(x[pool.own], x)
    distances[torch.arange(500), pool.own] = torch.inf
    nearest = (pool.neighbours == distances.argmin(-1)[:, None]).any(-1).double()
    assert abs(nearest.mean() - MAP_SPACINGS[0][1]) < 0.05
    for step in range(5):  # every step has rows of both kinds
        assert 0.8 < nearest[100 * step : 100 * step + 100].mean() < 1


def test_candidates_are_limited(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu = torch.device("cpu")
    assert max_candidates(2, cpu) > max_candidates(50, cpu)
    monkeypatch.setattr(neighbour_pool, "max_candidates", lambda *_: 30)
    rows = many_inputs(generator, 200)
    model = neighbour_model(rows, generator, n_neighbors=4)
    pool = PoolSource(rows, 0).draw(model, 0, 100)
    assert len(pool.neighbours[pool.present].unique()) <= 30
    assert pool.present.all()


def test_steps_of_a_pool(generator: torch.Generator) -> None:
    rows = small_rows(generator, 30)
    pool = PoolSource(rows, 0).draw(neighbour_model(rows, generator, n_neighbors=3), 0, 24)
    steps = [step_of(pool, number, 8) for number in range(3)]
    assert torch.equal(torch.cat([step.own for step in steps]), pool.own)
    assert torch.equal(steps[1].neighbours, pool.neighbours[8:16])
