from __future__ import annotations

import pytest
import torch
from builders.models import SMALL, small_rows

from sswim.base.record import stack_records
from sswim.members import MAP, Adam, start, train
from sswim.members import training as growth
from sswim.members.model import stack_models
from sswim.members.objective import one_pass
from sswim.members.training import growing, train_batch


def test_rows_grow_until_all_are_seen(generator: torch.Generator) -> None:
    rows = small_rows(generator, n=40_000)
    seen = list(growing(rows, 100))
    sizes = [len(each) for each in seen]
    assert sizes == [2500] * 20 + [10_000] * 30 + [40_000] * 50
    assert seen[-1] is rows
    assert seen[0] is seen[19]  # so that it is known to be the same
    # A random choice, each a part of the next, with targets that belong to the inputs.
    first, second = (set(map(tuple, each.inputs.mean.tolist())) for each in (seen[0], seen[20]))
    assert first < second
    assert first != set(map(tuple, rows.inputs.mean[:2500].tolist()))
    pairs = dict(
        zip(map(tuple, rows.inputs.mean.tolist()), rows.targets[:, 0].tolist(), strict=True)
    )
    inputs, targets = seen[0].inputs.mean.tolist(), seen[0].targets[:, 0].tolist()
    assert [pairs[tuple(row)] for row in inputs] == targets


@pytest.mark.parametrize("n_steps", [1, 2, 3, 7, 81])
def test_every_step_sees_rows(n_steps: int, generator: torch.Generator) -> None:
    rows = small_rows(generator, n=9000)
    seen = list(growing(rows, n_steps))
    assert len(seen) == n_steps
    assert seen[-1] is rows
    assert all(len(each) >= growth.MIN_ROWS for each in seen)


def test_few_rows_are_all_seen_at_once(generator: torch.Generator) -> None:
    rows = small_rows(generator, n=growth.MIN_ROWS)
    assert all(each is rows for each in growing(rows, 10))


def test_training_ends_with_the_best_step_on_all_rows(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growth, "MIN_ROWS", 10)
    rows = small_rows(generator, n=200)
    model = start(SMALL, rows.inputs.mean, 1, generator)
    training = train(model, rows, MAP, Adam(steps=30, growing=True), device="cpu")
    assert [step.index for step in training.history] == list(range(31))
    last = [step.value for step in training.history if step.index >= 16]
    assert training.best.value == min(last)
    assert one_pass(model, rows, MAP).item() == pytest.approx(training.best.value, rel=1e-12)


def test_training_does_not_converge_before_it_has_seen_all_rows(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growth, "MIN_ROWS", 10)
    rows = small_rows(generator, n=200)
    model = start(SMALL, rows.inputs.mean, 1, generator)
    monkeypatch.setattr("sswim.members.checkpoints.PATIENCE", 2)
    monkeypatch.setattr("sswim.members.checkpoints.TOLERANCE", 1e9)  # nothing is an improvement
    training = train(model, rows, MAP, Adam(steps=30, growing=True), device="cpu")
    assert training.ended == "converged"
    assert len(training.history) == 16 + 3


def test_members_with_rows_of_their_own_grow_together(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growth, "MIN_ROWS", 10)
    each = [small_rows(generator, n=100) for _ in range(2)]
    models = [start(SMALL, rows.inputs.mean, 1, generator) for rows in each]
    together = stack_models(models)
    optimiser = Adam(steps=12, growing=True)
    trainings = train_batch(together, stack_records(each), MAP, optimiser, device="cpu")
    for model, rows, training in zip(models, each, trainings, strict=True):
        alone = train(model, rows, MAP, optimiser, device="cpu")
        assert [step.value for step in training.history] == pytest.approx(
            [step.value for step in alone.history], rel=1e-9
        )
