from __future__ import annotations

import copy

import pytest
import torch
from builders.models import SMALL, normal, small_rows

from sswim.base.cholesky import FactorisationError
from sswim.distributed.processes import ALONE
from sswim.members import MAP, SSWIM, Adam, start, train
from sswim.members import training as training_run
from sswim.members.checkpoints import MemberCallback
from sswim.members.model import stack_models
from sswim.members.objective import one_pass
from sswim.members.training import StopTraining, TrainingRun
from sswim.rows import Rows


@pytest.fixture
def rows(generator: torch.Generator) -> Rows:
    return small_rows(generator, n=60)


@pytest.fixture
def model(rows: Rows, generator: torch.Generator) -> SSWIM:
    return start(SMALL, rows.inputs.mean, 1, generator)


def make_run(model: SSWIM, rows: Rows, callback: MemberCallback | None = None) -> TrainingRun:
    return TrainingRun(model, rows, MAP, None, callback, ALONE)


def two_members(rows: Rows) -> SSWIM:
    seeds = (torch.Generator().manual_seed(seed) for seed in range(2))
    return stack_models([start(SMALL, rows.inputs.mean, 1, seed) for seed in seeds])


def test_values_and_gradients_are_those_of_each_member(rows: Rows) -> None:
    batch = two_members(rows)
    run = make_run(batch, rows)
    values, norms = run.evaluate()
    assert values == pytest.approx(one_pass(batch, rows, MAP).tolist(), rel=1e-12)
    assert norms == pytest.approx(run.gradient().norm(dim=1).tolist(), rel=1e-12)
    for member in range(2):
        squares = [p.grad[member].square().sum() for p in run.parameters if p.grad is not None]
        assert norms[member] == pytest.approx(torch.stack(squares).sum().sqrt().item(), rel=1e-12)


def test_parameters_are_flattened_and_set_again(rows: Rows, generator: torch.Generator) -> None:
    batch = two_members(rows)
    run = make_run(batch, rows)
    before, position = copy.deepcopy(batch.state_dict()), run.position()
    assert position.shape == (2, sum(p.numel() for p in batch.parameters()) // 2)
    elsewhere = normal(generator, *position.shape)
    run.move_to(elsewhere)
    assert torch.equal(run.position(), elsewhere)
    run.move_to(position)
    for name, tensor in before.items():
        assert torch.equal(batch.state_dict()[name], tensor), name


def test_the_best_parameters_of_each_member_are_restored(
    rows: Rows, generator: torch.Generator
) -> None:
    run = make_run(two_members(rows), rows)
    first = run.position()
    run.finish_step([1.0, 1.0], [0.0, 0.0])
    second = first + normal(generator, *first.shape)
    run.move_to(second)
    run.finish_step([0.5, 2.0], [0.0, 0.0])  # only the first member has improved
    run.restore_best()
    assert torch.equal(run.position(), torch.stack((second[0], first[1])))


def test_a_member_that_has_ended_is_put_back_to_its_best_parameters(
    rows: Rows, generator: torch.Generator
) -> None:
    run = make_run(two_members(rows), rows)
    best = run.position()
    run.finish_step([1.0, 1.0], [0.0, 0.0])
    run.members[1].ended = "converged"
    elsewhere = normal(generator, *best.shape)
    run.move_to(elsewhere)
    run.restore_ended()
    assert torch.equal(run.position(), torch.stack((elsewhere[0], best[1])))


def test_a_run_ends_when_all_members_have_ended(
    rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sswim.members.checkpoints.PATIENCE", 1)
    run = make_run(two_members(rows), rows)
    run.finish_step([1.0, 1.0], [0.0, 0.0])
    run.finish_step([0.5, 1.0], [0.0, 0.0])
    assert [member.ended for member in run.members] == [None, "converged"]
    with pytest.raises(StopTraining):
        run.finish_step([0.5, 0.0], [0.0, 0.0])
    assert [len(member.history) for member in run.members] == [3, 2]


def test_other_rows_forget_the_best_steps(model: SSWIM, rows: Rows) -> None:
    run = make_run(model, rows)
    run.finish_step([1.0], [0.0])
    run.use_rows(rows)
    assert run.members[0].best is not None
    run.use_rows(rows.map(lambda tensor: tensor[:30]))
    assert run.members[0].best is None
    run.finish_step([5.0], [0.0])
    assert run.members[0].best is not None
    assert run.members[0].best.value == 5.0


def test_a_run_is_resumed_from_its_state(rows: Rows, generator: torch.Generator) -> None:
    run = make_run(two_members(rows), rows)
    run.finish_step([1.0, 2.0], [0.1, 0.2])
    run.move_to(normal(generator, *run.position().shape))
    saved = copy.deepcopy(run.state())
    other = make_run(two_members(rows), rows)
    other.resume(saved)
    assert other.steps == 1
    assert other.members == run.members
    assert torch.equal(other.position(), run.position())
    assert torch.equal(other.best_position, run.best_position)
    reported: list[tuple[int, float]] = []
    other.callback = lambda member, step: reported.append((member, step.value))
    other.report_last_steps()
    assert reported == [(0, 1.0), (1, 2.0)]


def test_an_objective_that_is_not_finite_is_an_error(
    model: SSWIM, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(model, rows)
    monkeypatch.setattr(run, "_compute", lambda: torch.tensor([torch.inf, 1.0]))
    with pytest.raises(FactorisationError, match=r"it is inf at step 0.*Lower the learning rate"):
        run.evaluate()


def test_steps_that_cannot_be_recorded_are_computed(
    model: SSWIM, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, tries = copy.deepcopy(model), []

    def refuse(*arguments: object) -> None:
        tries.append(arguments)
        raise RuntimeError("operation not permitted when stream is capturing")

    expected = train(model, rows, MAP, Adam(steps=5), device="cpu")
    monkeypatch.setattr(TrainingRun, "can_record", True)
    monkeypatch.setattr(training_run, "RecordedStep", refuse)
    ours = train(other, rows, MAP, Adam(steps=5), device="cpu")
    assert [step.value for step in ours.history] == [step.value for step in expected.history]
    assert len(tries) == 1


def test_a_recorded_step_that_failed_is_computed(
    model: SSWIM, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing:
        def __init__(self, *arguments: object) -> None:
            pass

        def replay(self) -> None:
            return None

    other = copy.deepcopy(model)
    expected = train(model, rows, MAP, Adam(steps=5), device="cpu")
    monkeypatch.setattr(TrainingRun, "can_record", True)
    monkeypatch.setattr(training_run, "RecordedStep", Failing)
    ours = train(other, rows, MAP, Adam(steps=5), device="cpu")
    assert [step.value for step in ours.history] == [step.value for step in expected.history]
