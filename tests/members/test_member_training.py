"""Members that are trained side by side."""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Iterator

import pytest
import torch
from builders.cores import use_threads
from builders.models import small_model, small_rows
from builders.neighbours import neighbour_model
from builders.training import kind_of

from sswim.distributed.processes import ALONE
from sswim.ensemble.member_training import MemberTrainer
from sswim.members import SSWIM, WAYS, Batch, Step
from sswim.members.model import stack_models
from sswim.rows import Rows


def batch_of(first: int, model: SSWIM, rows: Rows, steps: int = 5) -> Batch:
    kind = kind_of(model.architecture, steps=steps)
    seeds = tuple(range(3, 3 + math.prod(model.batch)))
    seen = (torch.arange(len(rows)),) * len(seeds)
    return Batch(WAYS[kind.way], first, model, rows, kind, seen, seeds)


@pytest.fixture
def batches(generator: torch.Generator) -> list[Batch]:
    rows = small_rows(generator, n=40)
    models = [small_model(rows, generator, depth=depth) for depth in (0, 0, 1, 2)]
    together = stack_models(models[:2])
    return [
        batch_of(0, together, rows),
        *(batch_of(number, models[number], rows) for number in (2, 3)),
    ]


def with_steps(batches: list[Batch], steps: int) -> list[Batch]:
    return [batch_of(b.first, b.model, b.rows, steps) for b in batches if isinstance(b.rows, Rows)]


@pytest.fixture
def workers(request: pytest.FixtureRequest) -> Iterator[int]:
    """Use so many threads."""
    with use_threads(request.param):
        yield request.param


@pytest.mark.parametrize("workers", [1, 2, 5], indirect=True)
def test_the_callback_gets_every_step_of_every_member_one_at_a_time(
    workers: int, batches: list[Batch]
) -> None:
    seen: list[tuple[int, int]] = []
    inside = threading.Lock()

    def callback(member: int, step: Step) -> None:
        assert inside.acquire(blocking=False)  # one at a time
        seen.append((member, step.index))
        inside.release()

    results = MemberTrainer().train(batches, callback)
    assert [len(result) for result in results] == [2, 1, 1]
    assert sorted(seen) == [(member, step) for member in range(4) for step in range(6)]


@pytest.mark.parametrize("workers", [1, 2], indirect=True)
def test_a_callback_or_an_error_in_one_ends_all(workers: int, batches: list[Batch]) -> None:
    results = MemberTrainer().train(with_steps(batches, 1000), lambda member, step: step.index == 2)
    lengths = [len(training.history) for result in results for training in result]
    assert lengths
    assert max(lengths) < 100

    def fail(member: int, step: Step) -> None:
        if member == 3:
            raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        MemberTrainer().train(with_steps(batches, 100_000), fail)


@pytest.mark.parametrize("workers", [1, 2], indirect=True)
def test_every_batch_has_its_own_optimiser(
    workers: int, batches: list[Batch], generator: torch.Generator
) -> None:
    """Members by features and by neighbours are trained together, each as if alone."""
    rows = batches[0].rows
    assert isinstance(rows, Rows)
    by_neighbours = stack_models([neighbour_model(rows, generator, 8) for _ in range(2)])
    mixed = [batch_of(0, by_neighbours, rows, 7), batches[1], with_steps(batches, 2)[2]]
    alone = copy.deepcopy(mixed)
    results = MemberTrainer().train(mixed, lambda member, step: None)
    lengths = [[len(training.history) for training in result] for result in results]
    assert lengths == [[8, 8], [6], [3]]
    for batch, other in zip(mixed, alone, strict=True):
        other.member.train(other, lambda member, step: None, ALONE, lambda name: None)
        for name, tensor in other.model.state_dict().items():
            assert torch.allclose(batch.model.state_dict()[name], tensor, rtol=1e-10), name


@pytest.mark.parametrize("shortest_first", [False, True])
def test_an_early_end_leaves_the_longest_or_the_shortest_out(
    shortest_first: bool, batches: list[Batch]
) -> None:
    trainer = MemberTrainer(shortest_first=shortest_first)
    with use_threads(1):
        results = trainer.train(batches, lambda member, step: member == 2)  # in the middle
    assert [bool(result) for result in results] == [shortest_first, True, not shortest_first]
