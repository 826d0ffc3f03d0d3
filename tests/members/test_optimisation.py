from __future__ import annotations

import copy

import pytest
import torch
from builders.models import SMALL, normal, small_rows

from sswim.base.record import chunks
from sswim.base.validation import UserError
from sswim.members import MAP, SSWIM, Adam, Step, start, train
from sswim.members.checkpoints import TrainingState
from sswim.rows import Rows


@pytest.fixture
def rows(generator: torch.Generator) -> Rows:
    return small_rows(generator, n=60)


@pytest.fixture
def model(rows: Rows, generator: torch.Generator) -> SSWIM:
    return start(SMALL, rows.inputs.mean, 1, generator)


def test_the_noise_has_a_rate_of_its_own(model: SSWIM, rows: Rows) -> None:
    """Adam's first step is as long as the learning rate, in every parameter."""
    models = [copy.deepcopy(model) for _ in range(2)]
    before = dict(model.named_parameters())
    moved = []
    for one, rate in zip(models, (1.0, 0.1), strict=True):
        train(one, rows, MAP, Adam(steps=1, noise_rate=rate), device="cpu")
        after = dict(one.named_parameters())
        moved.append({name: (after[name] - before[name]).detach() for name in before})
    for name, step in moved[0].items():
        expected = 0.1 * step if name == "log_noise" else step
        assert torch.allclose(moved[1][name], expected, rtol=1e-9, atol=0), name
    assert moved[0]["log_noise"].abs().min() > 0


class Memory:
    """A store that keeps every saved state in memory."""

    every = 3

    def __init__(self) -> None:
        self.states: list[TrainingState] = []

    def load(self) -> TrainingState | None:
        return self.states[-1] if self.states else None

    def save(self, state: TrainingState) -> None:
        self.states.append(copy.deepcopy(state))


def test_adam_continues_from_a_saved_state_as_if_it_had_not_stopped(
    model: SSWIM, rows: Rows
) -> None:
    whole, store = copy.deepcopy(model), Memory()
    expected = train(whole, rows, MAP, Adam(steps=10), device="cpu")

    def interrupt(step: Step) -> None:
        if step.index == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(model, rows, MAP, Adam(steps=10), device="cpu", callback=interrupt, checkpoint=store)
    assert [state.content["run"]["steps"] for state in store.states] == [3, 6]
    seen: list[int] = []
    resumed = train(
        model,
        rows,
        MAP,
        Adam(steps=10),
        device="cpu",
        callback=lambda step: seen.append(step.index),
        checkpoint=store,
    )
    assert seen == [6, 7, 8, 9, 10]
    assert [step.value for step in resumed.history] == [step.value for step in expected.history]
    for name, tensor in whole.state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor), name


@pytest.mark.parametrize(
    "settings",
    [{"steps": -1}, {"learning_rate": 0.0}, {"noise_rate": 0.0}, {"noise_rate": -1.0}],
    ids=str,
)
def test_impossible_settings_are_refused(settings: dict[str, float]) -> None:
    message = "steps must not be negative, learning_rate and noise_rate positive"
    with pytest.raises(UserError, match=message):
        Adam(**settings)  # type: ignore[arg-type]


def test_chunks_cannot_grow(generator: torch.Generator) -> None:
    rows = small_rows(generator, n=40)
    model = start(SMALL, normal(generator, 40, 3), 1, generator)
    with pytest.raises(ValueError, match="rows in the memory of one process"):
        train(model, list(chunks(rows, 10)), MAP, Adam(steps=3, growing=True), device="cpu")
