from __future__ import annotations

import threading

import pytest
import torch
from builders.models import small_model, small_rows

from sswim.model.member_batch import stack_models
from sswim.training.history import Step
from sswim.training.member_training import Batch, MemberTrainer
from sswim.training.objective import MAP
from sswim.training.optimisers import Adam


@pytest.fixture
def batches(generator: torch.Generator) -> list[Batch]:
    rows = small_rows(generator, n=40)
    models = [small_model(rows, generator, depth=depth) for depth in (0, 0, 1, 2)]
    together = stack_models(models[:2])
    return [
        Batch(0, together, rows, MAP),
        *(Batch(number, models[number], rows, MAP) for number in (2, 3)),
    ]


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_every_step_of_every_member_is_told_one_at_a_time(
    workers: int, batches: list[Batch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: workers)
    seen: list[tuple[int, int]] = []
    inside = threading.Lock()

    def callback(member: int, step: Step) -> None:
        assert inside.acquire(blocking=False)  # one at a time
        seen.append((member, step.index))
        inside.release()

    results = MemberTrainer().train(batches, Adam(steps=5), callback)
    assert [len(result) for result in results] == [2, 1, 1]
    assert sorted(seen) == [(member, step) for member in range(4) for step in range(6)]


def test_members_are_the_same_side_by_side_or_in_turn(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = small_rows(generator, n=40)
    states = [small_model(rows, generator, depth=depth) for depth in (1, 2, 1)]
    values = []
    for workers in (1, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda workers=workers: workers)
        copies = [stack_models([model]) for model in states]
        results = MemberTrainer().train(
            [Batch(number, model, rows, MAP) for number, model in enumerate(copies)],
            Adam(steps=5),
            lambda member, step: None,
        )
        values.append([result[0].best.value for result in results])
    assert values[0] == pytest.approx(values[1], rel=1e-12)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_callback_ends_all(
    workers: int, batches: list[Batch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: workers)
    results = MemberTrainer().train(batches, Adam(steps=1000), lambda member, step: step.index == 2)
    lengths = [len(training.history) for result in results for training in result]
    assert lengths
    assert max(lengths) < 100


def test_an_error_in_one_ends_all(batches: list[Batch], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)

    def callback(member: int, step: Step) -> None:
        if member == 3:
            raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        MemberTrainer().train(batches, Adam(steps=100_000), callback)
