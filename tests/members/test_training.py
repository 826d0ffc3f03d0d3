from __future__ import annotations

import copy

import pytest
import torch
from builders.models import SMALL, small_rows

from sswim.base.cholesky import FactorisationError
from sswim.base.record import stack_records
from sswim.members import (
    EVIDENCE,
    LEAVE_ONE_OUT,
    MAP,
    SSWIM,
    Adam,
    Objective,
    Step,
    Training,
    condition,
    start,
    train,
)
from sswim.members.model import stack_models, unstack_models
from sswim.members.objective import one_pass
from sswim.members.training import train_batch
from sswim.rows import Rows

ADAM = Adam(steps=25)


@pytest.fixture
def rows(generator: torch.Generator) -> Rows:
    return small_rows(generator, n=60)


@pytest.fixture
def model(rows: Rows, generator: torch.Generator) -> SSWIM:
    return start(SMALL, rows.inputs.mean, 1, generator)


def state(model: SSWIM) -> list[torch.Tensor]:
    return [tensor.clone() for tensor in model.state_dict().values()]


@pytest.mark.parametrize("objective", [MAP, EVIDENCE, LEAVE_ONE_OUT], ids=["map", "ml", "loo"])
def test_training_lowers_the_objective_and_keeps_the_best(
    model: SSWIM, rows: Rows, objective: Objective
) -> None:
    before = one_pass(model, rows, objective).item()
    result = train(model, rows, objective, ADAM, device="cpu")
    after = one_pass(model, rows, objective).item()
    assert result.history[0].value == pytest.approx(before)
    assert after == result.best.value == min(step.value for step in result.history)
    assert after < before - 0.1
    assert [step.index for step in result.history] == list(range(len(result.history)))
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_same_seed_same_result_bit_for_bit(dtype: torch.dtype, generator: torch.Generator) -> None:
    rows = small_rows(generator, n=60, dtype=dtype)

    def run() -> list[torch.Tensor]:
        model = start(SMALL, rows.inputs.mean, 1, torch.Generator().manual_seed(7))
        train(model, rows, MAP, ADAM, device="cpu", chunk_rows=16)
        return [*state(model), condition(model, rows).predict(rows.inputs).mean]

    assert all(torch.equal(ours, theirs) for ours, theirs in zip(run(), run(), strict=True))


def test_chunked_training_is_the_same_training(model: SSWIM, rows: Rows) -> None:
    other = copy.deepcopy(model)
    train(model, rows, MAP, Adam(steps=20), device="cpu", chunk_rows=len(rows))
    train(other, rows, MAP, Adam(steps=20), device="cpu", chunk_rows=7)
    for ours, theirs in zip(state(other), state(model), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-7, atol=1e-9)


def test_float32_features_train_to_nearly_the_same_predictions(
    generator: torch.Generator,
) -> None:
    """They differ by less than 1 % of the predictions' spread after a whole training."""
    rows = small_rows(generator, n=200)
    model = start(SMALL, rows.inputs.mean, 1, generator)
    single_model = copy.deepcopy(model)
    single = Rows(rows.inputs.to(dtype=torch.float32), rows.targets)
    train(model, rows, device="cpu")
    train(single_model, single, device="cpu")
    expected = condition(model, rows).predict(rows.inputs)
    ours = condition(single_model, single).predict(single.inputs)
    assert (ours.mean - expected.mean).abs().max() < 0.01 * expected.mean.std()
    ratio = ours.observation_variance / expected.observation_variance
    assert (ratio - 1).abs().max() < 0.01


def test_a_callback_sees_every_step_and_may_end_the_training(model: SSWIM, rows: Rows) -> None:
    seen: list[Step] = []

    def callback(step: Step) -> bool:
        seen.append(step)
        return step.index == 4

    result = train(model, rows, MAP, ADAM, callback=callback, device="cpu")
    assert result.ended == "callback"
    assert tuple(seen) == result.history
    assert len(seen) == 5


def test_training_that_no_longer_improves_ends(
    model: SSWIM, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sswim.members.checkpoints.PATIENCE", 3)
    monkeypatch.setattr("sswim.members.checkpoints.TOLERANCE", 10.0)  # nothing improves by this
    result = train(model, rows, MAP, ADAM, device="cpu")
    assert result.ended == "converged"
    assert len(result.history) == 4


def test_an_interruption_loses_nothing(model: SSWIM, rows: Rows) -> None:
    values: list[float] = []

    def interrupt(step: Step) -> None:
        values.append(step.value)
        if step.index == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(model, rows, MAP, ADAM, callback=interrupt, device="cpu")
    assert one_pass(model, rows, MAP).item() == min(values)


def test_divergence_is_named_and_the_best_parameters_are_kept(model: SSWIM, rows: Rows) -> None:
    before = one_pass(model, rows, MAP).item()
    with pytest.raises(FactorisationError, match=r"[lL]ower the learning rate"):
        train(model, rows, MAP, Adam(steps=50, learning_rate=1e4), device="cpu")
    assert one_pass(model, rows, MAP).item() <= before


def members(rows: Rows) -> list[SSWIM]:
    return [
        start(SMALL, rows.inputs.mean, 1, torch.Generator().manual_seed(seed)) for seed in range(3)
    ]


def assert_trained_alike(
    models: list[SSWIM], trainings: list[Training], batch: SSWIM, together: list[Training]
) -> None:
    for ours, theirs in zip(unstack_models(batch), models, strict=True):
        for mine, yours in zip(state(ours), state(theirs), strict=True):
            assert torch.allclose(mine, yours, rtol=1e-9, atol=1e-10)
    for own, alone in zip(together, trainings, strict=True):
        assert own.ended == alone.ended
        assert own.best.index == alone.best.index
        for step, expected in zip(own.history, alone.history, strict=True):
            assert step.index == expected.index
            assert step.value == pytest.approx(expected.value, rel=1e-10)
            assert step.gradient_norm == pytest.approx(expected.gradient_norm, rel=1e-8)


@pytest.mark.parametrize("chunk_rows", [60, 31])
@pytest.mark.parametrize("own", [False, True], ids=["shared", "own"])
def test_members_trained_together_are_as_if_alone(
    chunk_rows: int, own: bool, rows: Rows, generator: torch.Generator
) -> None:
    each = [small_rows(generator, n=60) if own else rows for _ in range(3)]
    models = members(rows)
    batch = stack_models(models)
    adam = Adam(steps=6)
    trainings = [
        train(*pair, MAP, adam, device="cpu", chunk_rows=chunk_rows)
        for pair in zip(models, each, strict=True)
    ]
    given = stack_records(each) if own else rows
    together = train_batch(batch, given, MAP, adam, device="cpu", chunk_rows=chunk_rows)
    assert_trained_alike(models, trainings, batch, together)


def test_a_member_that_no_longer_improves_waits_for_the_others(
    rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends where it would alone; later steps of the optimiser do not change it."""
    models = members(rows)
    train(models[1], rows, MAP, Adam(steps=60, learning_rate=0.1), device="cpu")
    batch = stack_models(models)
    monkeypatch.setattr("sswim.members.checkpoints.PATIENCE", 2)
    monkeypatch.setattr("sswim.members.checkpoints.TOLERANCE", 0.01)
    adam = Adam(steps=15, learning_rate=0.05)
    trainings = [train(model, rows, MAP, adam, device="cpu") for model in models]
    together = train_batch(batch, rows, MAP, adam, device="cpu")
    assert len(trainings[1].history) < len(trainings[0].history)
    assert trainings[1].ended == "converged"
    assert_trained_alike(models, trainings, batch, together)


def test_a_callback_sees_every_member_and_ends_the_training_of_all(rows: Rows) -> None:
    seen: list[tuple[int, int]] = []

    def callback(member: int, step: Step) -> bool:
        seen.append((member, step.index))
        return (member, step.index) == (1, 2)

    trainings = train_batch(stack_models(members(rows)), rows, callback=callback, device="cpu")
    assert seen == [(member, step) for step in range(3) for member in range(3)]
    assert [training.ended for training in trainings] == ["callback"] * 3
    assert [len(training.history) for training in trainings] == [3] * 3


def test_the_divergence_of_one_member_is_named_and_all_keep_their_best(rows: Rows) -> None:
    models = members(rows)
    with torch.no_grad():
        models[1].log_noise.fill_(float("nan"))
    with pytest.raises(FactorisationError, match=r"[lL]ower the learning rate"):
        train_batch(stack_models(models), rows, device="cpu")
    batch = stack_models(members(rows))
    before = one_pass(batch, rows, MAP)
    with pytest.raises(FactorisationError, match=r"[lL]ower the learning rate"):
        train_batch(batch, rows, MAP, Adam(steps=50, learning_rate=1e4), device="cpu")
    assert (one_pass(batch, rows, MAP) <= before).all()


def test_what_takes_a_single_model_refuses_a_batch(rows: Rows) -> None:
    batch = stack_models(members(rows))
    with pytest.raises(ValueError, match="train_batch"):
        train(batch, rows, device="cpu")


@pytest.mark.parametrize("steps", [0, 1])
def test_few_steps(model: SSWIM, rows: Rows, steps: int) -> None:
    assert len(train(model, rows, MAP, Adam(steps=steps), device="cpu").history) == steps + 1
