from __future__ import annotations

import json

import pytest

from sswim.files.records import from_json, to_json
from sswim.members import Step
from sswim.members.checkpoints import MemberSteps


@pytest.fixture(autouse=True)
def _impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sswim.members.checkpoints.PATIENCE", 2)
    monkeypatch.setattr("sswim.members.checkpoints.TOLERANCE", 0.1)


def take_steps(values: list[float], *, may_end: bool = True) -> MemberSteps:
    """Record steps with these values."""
    steps = MemberSteps()
    for index, value in enumerate(values):
        steps.finish_step(Step(index, value, 0.1, float(index)), may_end=may_end)
    return steps


def test_the_best_step_is_the_one_with_the_smallest_value() -> None:
    steps = MemberSteps()
    found = [
        steps.finish_step(Step(index, value, 0.1, 0.0))
        for index, value in enumerate([3.0, 1.0, 2.0, 0.5])
    ]
    assert found == [True, True, False, True]
    training = steps.training()
    assert training.best == training.history[3]
    assert training.ended == "steps"


@pytest.mark.parametrize(
    ("values", "ended"),
    [
        ([3.0, 2.0, 1.0, 0.0], None),
        ([3.0, 2.99, 2.98], "converged"),
        ([3.0, 2.99, 2.5], None),
        ([3.0, 2.0, 2.0], None),
        ([3.0, 2.0, 2.0, 2.0], "converged"),
    ],
)
def test_a_member_ends_when_it_no_longer_improves(values: list[float], ended: str | None) -> None:
    steps = take_steps(values)
    assert steps.ended == ended
    assert take_steps(values, may_end=False).ended is None


def test_steps_on_fewer_rows_can_be_forgotten() -> None:
    steps = take_steps([1.0, 0.5])
    steps.forget_best()
    assert steps.finish_step(Step(2, 4.0, 0.1, 2.0))
    assert steps.training().best.value == 4.0
    assert len(steps.training().history) == 3


@pytest.mark.parametrize("values", [[], [3.0], [3.0, 2.0, 2.0, 2.0]], ids=len)
def test_steps_survive_json(values: list[float]) -> None:
    steps = take_steps(values)
    restored = from_json(MemberSteps, json.loads(json.dumps(to_json(steps))), "it")
    assert restored == steps
