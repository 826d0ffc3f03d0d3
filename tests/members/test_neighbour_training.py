from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from builders.models import small_rows
from builders.neighbours import neighbour_model

from sswim.base.cholesky import FactorisationError
from sswim.base.validation import UserError
from sswim.members import SSWIM, Checkpoints, NeighbourMember, Step, Training, neighbour_training
from sswim.members.neighbour_training import MiniBatches, neighbour_objective, train_by_neighbours
from sswim.rows import Rows

SETTINGS = MiniBatches(steps=23, batch_rows=16, pool_steps=5)


@pytest.fixture
def rows(generator: torch.Generator) -> Rows:
    return small_rows(generator, n=60)


@pytest.fixture
def model(rows: Rows, generator: torch.Generator) -> SSWIM:
    return neighbour_model(rows, generator, n_neighbors=6, depth=1, warps="joint")


def state(model: SSWIM) -> list[torch.Tensor]:
    return [tensor.clone() for tensor in model.state_dict().values()]


def assert_equal(ours: SSWIM, theirs: SSWIM) -> None:
    for mine, other in zip(state(ours), state(theirs), strict=True):
        assert torch.equal(mine, other)


def values(training: Training) -> list[float]:
    return [step.value for step in training.history]


def test_training_makes_predictions_of_other_rows_better(generator: torch.Generator) -> None:
    rows = small_rows(generator, n=200)
    known, other = rows.map(lambda t: t[:150]), rows.map(lambda t: t[150:])
    model = neighbour_model(known, generator, n_neighbors=16, depth=1, perturb=0.0)
    scores = []
    for _ in range(2):
        prediction = NeighbourMember.condition_on(model, known).predict(other.inputs)
        scores.append(prediction.log_density(other.targets).mean().item())
        result = train_by_neighbours(model, known, MiniBatches(steps=40, batch_rows=32))
    assert scores[1] > scores[0] + 0.2
    assert [step.index for step in result.history] == list(range(41))
    assert result.ended == "steps"
    assert all(parameter.grad is None for parameter in model.parameters())


def test_same_seed_same_result_bit_for_bit(model: SSWIM, rows: Rows) -> None:
    models = [copy.deepcopy(model) for _ in range(3)]
    results = [
        train_by_neighbours(each, rows, SETTINGS, seed=seed)
        for each, seed in zip(models, (4, 4, 5), strict=True)
    ]
    assert_equal(models[0], models[1])
    assert values(results[0]) == values(results[1])
    assert values(results[0]) != values(results[2])


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4, 5, 6])
def test_any_number_of_steps_is_taken(steps: int, model: SSWIM, rows: Rows) -> None:
    before = copy.deepcopy(model)
    result = train_by_neighbours(model, rows, MiniBatches(steps=steps, batch_rows=8))
    assert len(result.history) == steps + 1
    if steps == 0:
        assert_equal(model, before)
    else:
        assert not torch.equal(model.log_noise, before.log_noise)


def test_every_parameter_is_trained(rows: Rows, generator: torch.Generator) -> None:
    changes: dict[str, Any] = {"output_warp": "sinh-arcsinh", "noise": "input-dependent"}
    model = neighbour_model(rows, generator, n_neighbors=6, depth=2, **changes)
    before = copy.deepcopy(model)
    train_by_neighbours(model, rows, MiniBatches(steps=3))
    for (name, ours), theirs in zip(model.named_parameters(), before.parameters(), strict=True):
        assert not torch.equal(ours, theirs), name
    assert model.noise_correction.equal(before.noise_correction)


def test_the_prior_of_the_warps_counts_as_often_as_it_is_told(model: SSWIM, rows: Rows) -> None:
    models = [copy.deepcopy(model) for _ in range(2)]
    norms = []
    for each, weight in zip(models, (0.0, 30.0), strict=True):
        train_by_neighbours(each, rows, MiniBatches(steps=40), prior_weight=weight)
        norms.append(each.factors()[1].warps.item())
    assert norms[1] < norms[0]


@pytest.mark.parametrize("after", [0, 4, 14])
def test_a_callback_sees_every_step_and_may_end_the_training(
    after: int, model: SSWIM, rows: Rows
) -> None:
    seen: list[Step] = []

    def callback(member: int, step: Step) -> bool:
        assert member == 0
        seen.append(step)
        return step.index == after

    result = train_by_neighbours(model, rows, SETTINGS, callback=callback)
    assert result.ended == "callback"
    assert tuple(seen) == result.history
    assert len(seen) == after + 1


class _Killed(Exception):  # noqa: N818
    pass


@pytest.mark.parametrize(("after", "every"), [(0, 1), (4, 1), (13, 4), (23, 4)])
def test_a_training_that_was_cut_off_ends_as_if_it_had_not_been(
    after: int, every: int, model: SSWIM, rows: Rows, tmp_path: Path
) -> None:
    models = [copy.deepcopy(model) for _ in range(3)]
    expected = train_by_neighbours(models[0], rows, SETTINGS, seed=2)

    def cut_off(member: int, step: Step) -> None:
        if step.index == after:
            raise _Killed

    def train(each: SSWIM, callback: Any = None) -> Training:
        file = Checkpoints(tmp_path, every=every).file("member")
        return train_by_neighbours(each, rows, SETTINGS, seed=2, callback=callback, checkpoint=file)

    with pytest.raises(_Killed):
        train(models[1], cut_off)
    resumed = train(models[2])
    assert_equal(models[2], models[0])
    assert values(resumed) == values(expected)
    # A training that has ended takes no more steps; the callback is called with its last one.
    steps: list[int] = []
    finished = train(model, lambda member, step: steps.append(step.index))
    assert_equal(model, models[0])
    assert steps == [23]
    assert values(finished) == values(expected)


def failing(monkeypatch: pytest.MonkeyPatch, calls: set[int]) -> list[int]:
    """Let some evaluations of the objective fail; return a list that counts them all."""
    count: list[int] = []

    def objective(*arguments: Any) -> torch.Tensor:
        count.append(len(count))
        if count[-1] in calls:
            raise FactorisationError("injected")
        return neighbour_objective(*arguments)

    monkeypatch.setattr(neighbour_training, "neighbour_objective", objective)
    return count


@pytest.mark.parametrize("call", [0, 4, 5, 13])
def test_a_step_that_fails_goes_back_to_shorter_steps(
    call: int, model: SSWIM, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = failing(monkeypatch, {call})
    result = train_by_neighbours(model, rows, SETTINGS)
    assert len(result.history) == 24
    assert len(count) > 24  # every step, and checks between them
    assert result.ended == "steps"


def test_parameters_that_become_worse_are_given_up(model: SSWIM, rows: Rows) -> None:
    """The check before the next pool finds that the objective rose, and goes back."""

    def spoil(member: int, step: Step) -> None:
        if step.index == 3:
            with torch.no_grad():
                model.log_signal.fill_(12.0)

    kept = copy.deepcopy(model)
    train_by_neighbours(kept, rows, SETTINGS)
    train_by_neighbours(model, rows, SETTINGS, callback=spoil)
    assert model.log_signal.item() < 6


def test_going_back_restores_the_parameters_and_shortens_the_steps(
    model: SSWIM, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[torch.Tensor] = []

    def objective(*arguments: Any) -> torch.Tensor:
        seen.append(model.log_noise.detach().clone())
        if len(seen) == 4:
            raise FactorisationError("injected")
        return neighbour_objective(*arguments)

    monkeypatch.setattr(neighbour_training, "neighbour_objective", objective)
    settings = MiniBatches(steps=6, batch_rows=16, pool_steps=10)
    train_by_neighbours(model, rows, settings)
    assert not torch.equal(seen[3], seen[0])
    assert torch.equal(seen[4], seen[0])  # where the pool began
    assert (seen[5] - seen[4]).abs() < (seen[3] - seen[2]).abs()


def test_training_gives_up_after_too_many_failures(
    model: SSWIM, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = copy.deepcopy(model)
    count = failing(monkeypatch, set(range(100)))
    with pytest.raises(FactorisationError, match="injected"):
        train_by_neighbours(model, rows, SETTINGS)
    assert len(count) == SETTINGS.retries + 1
    assert_equal(model, before)


def test_a_failure_is_remembered_by_checkpoints(
    model: SSWIM, rows: Rows, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    models = [copy.deepcopy(model) for _ in range(3)]
    with monkeypatch.context() as patch:
        failing(patch, {7})
        train_by_neighbours(models[0], rows, SETTINGS)

    def stop(member: int, step: Step) -> None:
        if step.index == 11:
            raise _Killed

    file = Checkpoints(tmp_path, every=2).file("member")
    with monkeypatch.context() as patch:
        failing(patch, {7})
        with pytest.raises(_Killed):
            train_by_neighbours(models[1], rows, SETTINGS, callback=stop, checkpoint=file)
    train_by_neighbours(models[2], rows, SETTINGS, checkpoint=file)
    assert_equal(models[2], models[0])


def test_parameters_that_are_lost_are_found_again(model: SSWIM, rows: Rows) -> None:
    """They are, wherever in a pool they are lost: here just before a new one is drawn."""

    def lose(member: int, step: Step) -> None:
        if step.index == 4 and not lost:
            lost.append(step.index)
            with torch.no_grad():
                model.log_noise.fill_(torch.inf)

    lost: list[int] = []
    result = train_by_neighbours(model, rows, SETTINGS, callback=lose)
    assert lost
    assert len(result.history) == 24
    assert all(tensor.isfinite().all() for tensor in state(model))


def test_duplicates_do_not_make_the_noise_vanish(generator: torch.Generator) -> None:
    """Copies of inputs with equal targets say nothing of the noise, as they are no neighbours."""
    rows = small_rows(generator, n=40)
    noisy = Rows(rows.inputs, rows.targets + 0.5 * torch.randn(40, 1, generator=generator).double())
    twice = noisy.take(torch.arange(40).repeat(2))
    noises = []
    for each in (noisy, twice):
        model = neighbour_model(rows, torch.Generator().manual_seed(0), n_neighbors=10)
        train_by_neighbours(model, each, MiniBatches(steps=80, batch_rows=40))
        noises.append((model.noise() / model.signal()).item())
    assert noises[1] > 0.3 * noises[0]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_very_few_rows_are_trained_on(n: int, generator: torch.Generator) -> None:
    rows = small_rows(generator, n=n)
    model = neighbour_model(rows, generator, n_neighbors=5)
    result = train_by_neighbours(model, rows, MiniBatches(steps=10))
    assert len(result.history) == 11
    assert all(tensor.isfinite().all() for tensor in state(model))


def test_rows_with_equal_inputs_are_trained_on(generator: torch.Generator) -> None:
    """They have no neighbours, and nothing but the prior is learnt."""
    rows = small_rows(generator, n=12)
    rows.inputs.mean.copy_(rows.inputs.mean[:1].clone())
    model = neighbour_model(rows, generator, n_neighbors=5, depth=1)
    train_by_neighbours(model, rows, MiniBatches(steps=10))
    assert all(tensor.isfinite().all() for tensor in state(model))


def test_weights_and_uncertain_inputs_are_trained_on(generator: torch.Generator) -> None:
    rows = small_rows(generator, 40, 2, weighted=True, uncertain=True)
    model = neighbour_model(rows, generator, n_neighbors=8, depth=1)
    result = train_by_neighbours(model, rows, MiniBatches(steps=20, batch_rows=16))
    assert sum(values(result)[-5:]) < sum(values(result)[:5])


def test_settings_are_checked() -> None:
    for wrong in ({"steps": -1}, {"learning_rate": 0.0}):
        with pytest.raises(UserError, match="steps must not be negative, and learning_rate"):
            MiniBatches(**wrong)
