"""Training by features: Adam, its stopping, its checkpoints, and the rows of each step."""

from __future__ import annotations

import copy

import pytest
import torch
from builders.models import SMALL, small_rows

from sswim.base.cholesky import FactorisationError
from sswim.base.record import chunks, stack_records
from sswim.base.validation import UserError
from sswim.members import (
    EVIDENCE,
    LEAVE_ONE_OUT,
    MAP,
    SSWIM,
    Adam,
    Objective,
    Step,
    Training,
    start,
    train,
    training,
)
from sswim.members.checkpoints import MemberSteps
from sswim.members.model import stack_models, unstack_models
from sswim.members.objective import one_pass
from sswim.members.training import TrainingRun, growing, train_batch
from sswim.rows import Rows

ADAM = Adam(steps=8, learning_rate=0.1)


@pytest.fixture
def rows(generator: torch.Generator) -> Rows:
    return small_rows(generator, n=60)


@pytest.fixture
def model(rows: Rows, generator: torch.Generator) -> SSWIM:
    return start(SMALL, rows.inputs.mean, 1, generator)


def members(rows: Rows, n: int = 3) -> list[SSWIM]:
    seeds = (torch.Generator().manual_seed(seed) for seed in range(n))
    return [start(SMALL, rows.inputs.mean, 1, seed) for seed in seeds]


def state(model: SSWIM) -> list[torch.Tensor]:
    return [tensor.clone() for tensor in model.state_dict().values()]


def values(result: Training) -> list[float]:
    return [step.value for step in result.history]


def set_patience(patch: pytest.MonkeyPatch, steps: int, tolerance: float) -> None:
    patch.setattr("sswim.members.checkpoints.PATIENCE", steps)
    patch.setattr("sswim.members.checkpoints.TOLERANCE", tolerance)


@pytest.mark.parametrize("objective", [MAP, EVIDENCE, LEAVE_ONE_OUT], ids=["map", "ml", "loo"])
def test_training_lowers_the_objective_and_keeps_the_best(
    model: SSWIM, rows: Rows, objective: Objective
) -> None:
    before = one_pass(model, rows, objective).item()
    result = train(model, rows, objective, ADAM, device="cpu")
    after = one_pass(model, rows, objective).item()
    assert result.history[0].value == pytest.approx(before)
    assert after == result.best.value == min(values(result))
    assert after < before - 0.1
    assert [step.index for step in result.history] == list(range(9))
    assert result.ended == "steps"
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_noise_has_a_rate_of_its_own(model: SSWIM, rows: Rows) -> None:
    """Adam's first step is as long as the learning rate, in every parameter."""
    before = dict(copy.deepcopy(model).named_parameters())
    moved = []
    for rate in (1.0, 0.1):
        other = copy.deepcopy(model)
        train(other, rows, MAP, Adam(steps=1, noise_rate=rate), device="cpu")
        after = dict(other.named_parameters())
        moved.append({name: (after[name] - before[name]).detach() for name in before})
    for name, step in moved[0].items():
        expected = 0.1 * step if name == "log_noise" else step
        assert torch.allclose(moved[1][name], expected, rtol=1e-9, atol=0), name
    assert moved[0]["log_noise"].abs().min() > 0


def test_impossible_settings_are_refused() -> None:
    message = "steps must not be negative, learning_rate and noise_rate positive"
    for settings in ({"steps": -1}, {"learning_rate": 0.0}, {"noise_rate": -1.0}):
        with pytest.raises(UserError, match=message):
            Adam(**settings)


@pytest.mark.parametrize(
    ("objectives", "ended"),
    [
        ([3.0, 2.0, 1.0, 0.0], None),
        ([3.0, 2.99, 2.98], "converged"),
        ([3.0, 2.99, 2.5], None),
        ([3.0, 2.0, 2.0], None),
        ([3.0, 2.0, 2.0, 2.0], "converged"),
    ],
)
def test_a_member_ends_when_it_no_longer_improves(
    objectives: list[float], ended: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_patience(monkeypatch, 2, 0.1)
    for may_end in (True, False):
        steps = MemberSteps()
        for index, value in enumerate(objectives):
            steps.finish_step(Step(index, value, 0.1, float(index)), may_end=may_end)
        assert steps.ended == (ended if may_end else None)


def test_an_interruption_loses_nothing(model: SSWIM, rows: Rows) -> None:
    seen: list[float] = []

    def interrupt(step: Step) -> None:
        seen.append(step.value)
        if step.index == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(model, rows, MAP, ADAM, callback=interrupt, device="cpu")
    assert one_pass(model, rows, MAP).item() == min(seen)


def test_an_objective_that_is_not_finite_is_an_error(model: SSWIM, rows: Rows) -> None:
    rows.targets.fill_(1e200)
    with pytest.raises(
        FactorisationError, match=r"it is (inf|nan) at step 0.*Lower the learning rate"
    ):
        train(model, rows, MAP, ADAM, device="cpu")


# Members that are trained together.


def assert_trained_alike(
    models: list[SSWIM], trainings: list[Training], batch: SSWIM, together: list[Training]
) -> None:
    for ours, theirs in zip(unstack_models(batch), models, strict=True):
        for mine, yours in zip(state(ours), state(theirs), strict=True):
            assert torch.allclose(mine, yours, rtol=1e-9, atol=1e-10)
    for own, alone in zip(together, trainings, strict=True):
        assert own.ended == alone.ended
        assert own.best.index == alone.best.index
        assert values(own) == pytest.approx(values(alone), rel=1e-10)
        norms = [[step.gradient_norm for step in each.history] for each in (own, alone)]
        assert norms[0] == pytest.approx(norms[1], rel=1e-8)


@pytest.mark.parametrize(
    ("own", "chunk_rows", "growing"),
    [
        (False, 60, False),
        (True, 60, False),
        (False, 31, False),
        (True, 31, False),
        (True, 60, True),
    ],
)
def test_members_trained_together_are_as_if_alone(
    own: bool,
    chunk_rows: int,
    growing: bool,
    rows: Rows,
    generator: torch.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(training, "MIN_ROWS", 10)
    each = [small_rows(generator, n=60) if own else rows for _ in range(3)]
    models = members(rows)
    batch = stack_models(models)
    adam = Adam(steps=6, growing=growing)
    trainings = [
        train(*pair, MAP, adam, device="cpu", chunk_rows=chunk_rows)
        for pair in zip(models, each, strict=True)
    ]
    given = stack_records(each) if own else rows
    together = train_batch(batch, given, MAP, adam, device="cpu", chunk_rows=chunk_rows)
    assert_trained_alike(models, trainings, batch, together)
    with pytest.raises(ValueError, match="train_batch"):
        train(batch, rows, device="cpu")
    if growing:
        with pytest.raises(ValueError, match="rows in the memory of one process"):
            train(models[0], list(chunks(rows, 10)), MAP, adam, device="cpu")


def test_a_member_that_no_longer_improves_waits_for_the_others(
    rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends where it would alone; later steps of the optimiser do not change it."""
    models = members(rows)
    train(models[1], rows, MAP, Adam(steps=60, learning_rate=0.1), device="cpu")
    batch = stack_models(models)
    set_patience(monkeypatch, 2, 0.01)
    adam = Adam(steps=15, learning_rate=0.05)
    trainings = [train(model, rows, MAP, adam, device="cpu") for model in models]
    together = train_batch(batch, rows, MAP, adam, device="cpu")
    assert len(trainings[1].history) < len(trainings[0].history)
    assert trainings[1].ended == "converged"
    assert_trained_alike(models, trainings, batch, together)


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


# Checkpoints and recorded steps.


class Failing:
    """A recorded step that cannot be replayed."""

    def __init__(self, *arguments: object) -> None:
        pass

    def replay(self) -> None:
        return None


@pytest.mark.parametrize("can_record", [False, True])
def test_steps_that_cannot_be_recorded_or_replayed_are_computed(
    can_record: bool, model: SSWIM, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def record(*arguments: object) -> Failing:
        tries.append(arguments)
        if not can_record:
            raise RuntimeError("operation not permitted when stream is capturing")
        return Failing()

    other = copy.deepcopy(model)
    expected = train(model, rows, MAP, Adam(steps=5), device="cpu")
    monkeypatch.setattr(TrainingRun, "can_record", True)
    monkeypatch.setattr(training, "RecordedStep", record)
    assert values(train(other, rows, MAP, Adam(steps=5), device="cpu")) == values(expected)
    assert len(tries) == 1


# Rows of each step that grow in number.


def test_rows_grow_until_all_are_seen(generator: torch.Generator) -> None:
    rows = small_rows(generator, n=40_000)
    seen = list(growing(rows, 100))
    sizes = [len(each) for each in seen]
    assert sizes == [2500] * 20 + [10_000] * 30 + [40_000] * 50
    assert seen[-1] is rows
    assert seen[0] is seen[19]  # so that it is known to be the same
    # A random choice, each a part of the next, with targets that belong to the inputs.
    pairs = [
        set(map(tuple, torch.cat((each.inputs.mean, each.targets), 1).tolist()))
        for each in (seen[0], seen[20], rows)
    ]
    assert pairs[0] < pairs[1] < pairs[2]
    assert not torch.equal(seen[0].inputs.mean, rows.inputs.mean[:2500])
    for n_rows, n_steps in ((9000, 1), (9000, 2), (9000, 81), (training.MIN_ROWS, 7)):
        few = rows.map(lambda tensor, n=n_rows: tensor[:n])  # type: ignore[misc]
        seen = list(growing(few, n_steps))
        assert len(seen) == n_steps
        assert seen[-1] is few
        assert all(len(each) >= training.MIN_ROWS for each in seen)


@pytest.mark.parametrize("converging", [False, True])
def test_only_steps_on_all_rows_are_compared(
    converging: bool, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best of them is kept, and training converges among them."""
    monkeypatch.setattr(training, "MIN_ROWS", 10)
    if converging:
        set_patience(monkeypatch, 2, 1e9)  # nothing is an improvement
    rows = small_rows(generator, n=200)
    [model] = members(rows, 1)
    result = train(model, rows, MAP, Adam(steps=10, growing=True), device="cpu")
    assert result.ended == ("converged" if converging else "steps")
    assert len(result.history) == (6 + 3 if converging else 11)
    assert result.best.value == min(values(result)[6:])
    assert one_pass(model, rows, MAP).item() == pytest.approx(result.best.value, rel=1e-12)
