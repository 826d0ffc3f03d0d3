"""Kinds compete by their first members: those that do not pay get no further members.

``tests/members/test_distributed_training.py`` compares the competition in several processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders.cores import use_threads
from builders.distributed_fits import assert_same, result, table
from builders.estimators import few_noise_steps  # noqa: F401 (for every test here)
from builders.models import SMALL, assert_close, small_rows
from builders.training import kind_of, let_few_rows_compete, training_rows

from sswim import load
from sswim.base.validation import draw_generator
from sswim.ensemble import Combined, FittedKind, fit_members
from sswim.estimator import make_estimator
from sswim.members import Checkpoints, Kind, Plan, Step, kinds
from sswim.members.checkpoints import MemberCallback
from sswim.members.kinds import draw_folds
from sswim.rows import Rows

STEPS = 6
SHALLOW = kind_of(SMALL, 3, STEPS)
NEAR = kind_of(replace(SMALL, depth=0, n_neighbors=8), 3, STEPS)
USELESS = replace(kind_of(replace(SMALL, depth=0, n_frequencies=1), 3, 0), name="useless")
MEAN = replace(kind_of(replace(SMALL, depth=0, n_frequencies=1), steps=0), name="mean", way="mean")


@pytest.fixture(autouse=True)
def _few_rows_compete_in_one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    let_few_rows_compete(monkeypatch, 10)
    with use_threads(1):
        yield


@pytest.fixture
def rows() -> Rows:
    """Return rows for which both SHALLOW and NEAR pay, but not USELESS."""
    return small_rows(torch.Generator().manual_seed(7), n=300)


def plan_of(*members: Kind, competition: bool = True) -> Plan:
    return Plan(
        members,
        cross_fitting=True,
        stacking=True,
        correction=True,
        pruning=True,
        competition=competition,
    )


PLAN = plan_of(SHALLOW, NEAR, USELESS)
"""The first members of the kinds are the members 0, 3 and 6."""


@dataclass
class Fit:
    """A fit, and the steps that the callback got."""

    rows: Rows
    plan: Plan = PLAN
    callback: MemberCallback = lambda member, step: None
    checkpoints: Checkpoints | None = None
    calls: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        def callback(member: int, step: Step) -> object:
            self.calls.append((member, step.index))
            return self.callback(member, step)

        self.combined, self.kinds = fit_members(
            self.plan, training_rows(self.rows), 0, callback, self.checkpoints
        )

    combined: Combined = field(init=False)
    kinds: tuple[FittedKind, ...] = field(init=False)

    @property
    def lengths(self) -> list[int]:
        """Numbers of steps of the members of the ensemble."""
        return [len(training.history) - 1 for training in self.combined.trainings]

    @property
    def sizes(self) -> dict[str, int]:
        """Numbers of trained members by the names of their kinds."""
        return {kind.name: kind.n_members for kind in self.kinds}


def assert_same_members(ours: Fit, theirs: Fit, tolerance: float = 0.0) -> None:
    pairs = zip(ours.combined.members, theirs.combined.members, strict=True)
    for mine, other in pairs:
        state = mine.model.state_dict()
        for name, tensor in other.model.state_dict().items():
            assert torch.allclose(state[name], tensor, rtol=tolerance, atol=tolerance), name
        inputs = ours.rows.inputs
        assert_close(mine.predict(inputs), other.predict(inputs), tolerance)


def test_a_kind_that_does_not_pay_gets_no_further_members(rows: Rows) -> None:
    fit = Fit(rows)
    trained = [(member, step) for member in range(6) for step in range(STEPS + 1)]
    assert sorted(fit.calls) == [*trained, (6, 0)]
    order = [*dict.fromkeys(member for member, _ in fit.calls)]
    assert order == [0, 3, 6, 1, 2, 4, 5]  # the deepest first in each round
    assert fit.sizes == {"features-1": 3, "neighbours-0": 3, "useless": 1}
    shallow, near, useless = (kind.weight for kind in fit.kinds)
    assert useless == 0
    assert min(shallow, near) > 0.1
    assert shallow + near == pytest.approx(1)
    assert fit.combined.weights.tolist() == pytest.approx([shallow / 3] * 3 + [near / 3] * 3)
    assert fit.lengths == [STEPS] * 6
    assert fit.combined.folds is not None
    assert fit.combined.folds.n_folds == 3


def test_the_kinds_that_pay_are_fitted_as_if_the_others_had_not_been(rows: Rows) -> None:
    """The useless kind comes last, so that the others have the same random draws."""
    fit, expected = Fit(rows), Fit(rows, plan_of(SHALLOW, NEAR, competition=False))
    assert torch.allclose(fit.combined.weights, expected.combined.weights, rtol=1e-5)
    assert_same_members(fit, expected, tolerance=1e-6)


@pytest.mark.parametrize("more", [0, 1])
def test_kinds_compete_if_the_first_fold_has_enough_rows(
    more: int, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_left_out = len(folds_of(rows)[0])
    monkeypatch.setattr(kinds, "COMPETITION_ROWS", n_left_out + more)
    assert Fit(rows).sizes["useless"] == (3 if more else 1)
    assert Fit(rows, replace(PLAN, competition=False)).sizes["useless"] == 3


def test_the_mean_and_a_kind_with_one_member_compete_too(rows: Rows) -> None:
    """The mean is weighed last, whatever its weight among the first members."""
    fit = Fit(rows, plan_of(MEAN, USELESS, NEAR, replace(SHALLOW, n_members=1)))
    assert fit.sizes == {"mean": 1, "useless": 1, "neighbours-0": 3, "features-1": 1}
    assert [kind.weight > 0 for kind in fit.kinds] == [False, False, True, True]
    assert len(fit.combined.members) == 4


def test_kinds_of_one_name_are_told_apart(rows: Rows) -> None:
    fit = Fit(rows, plan_of(NEAR, replace(USELESS, name=NEAR.name), SHALLOW))
    assert [kind.n_members for kind in fit.kinds] == [3, 1, 3]
    assert [kind.weight > 0 for kind in fit.kinds] == [True, False, True]


def test_of_two_equal_kinds_both_are_complete_until_one_is_pruned(rows: Rows) -> None:
    still = kind_of(NEAR.architecture, 3, 0)
    fit = Fit(rows, plan_of(still, still))
    assert sorted((kind.weight, kind.n_members) for kind in fit.kinds) == [(0, 3), (1, 3)]
    assert len(fit.combined.members) == 3


def test_the_number_of_threads_changes_no_bit(rows: Rows) -> None:
    plan = plan_of(MEAN, *PLAN.kinds, kind_of(replace(SMALL, depth=2), 2, STEPS))
    alone = Fit(rows, plan)
    for n in (2, 4):
        with use_threads(n):
            fit = Fit(rows, plan)
        assert fit.kinds == alone.kinds
        assert torch.equal(fit.combined.weights, alone.combined.weights)
        assert_same_members(fit, alone)
        for mine, other in zip(fit.combined.trainings, alone.combined.trainings, strict=True):
            assert [step.value for step in mine.history] == [step.value for step in other.history]


def test_the_number_of_threads_changes_no_bit_of_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor where there are enough rows and features for several threads in one operation."""
    let_few_rows_compete(monkeypatch, 100)
    settings: dict[str, Any] = {"n_components": 64, "n_pseudo": 8, "max_iter": 2, "n_members": 2}
    found = []
    for n in (1, 3):
        regressor = make_estimator(**settings, random_state=0, device="cpu")
        with use_threads(n):
            regressor.fit(*table())
        found.append(result(regressor))
    assert_same(found[0], found[1], tolerance=0.0)


def test_the_default_lists_the_kinds_that_were_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_few_rows_compete(monkeypatch, 10, weight=0.15)
    x, y = table()
    settings: dict[str, Any] = {"n_components": 16, "n_pseudo": 4, "max_iter": 4}
    regressor = make_estimator(**settings, random_state=0, device="cpu").fit(x[:200], y[:200])
    dropped = [kind for kind in regressor.kinds_ if kind.n_members == 1 and kind.name != "mean"]
    assert dropped
    assert not any(kind.weight for kind in dropped)
    complete = [kind for kind in regressor.kinds_ if kind.n_members == 3]
    assert len(regressor.kinds_) == 1 + len(dropped) + len(complete) == 6
    paying = [kind for kind in regressor.kinds_ if kind.weight > 0]
    assert len(regressor.members_) == sum(kind.n_members for kind in paying)
    assert sum(kind.weight for kind in paying) == pytest.approx(1)
    regressor.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.kinds_ == regressor.kinds_
    assert np.array_equal(again.predict(x[200:]), regressor.predict(x[200:]))


# A callback that ends the training.


def folds_of(rows: Rows) -> list[torch.Tensor]:
    """Return the folds that the fit draws."""
    folds = draw_folds(rows, 3, draw_generator(np.random.RandomState(0)))
    assert folds is not None
    return folds


def assert_cross_fitted_on_the_first_fold(fit: Fit) -> None:
    assert fit.combined.folds is not None
    assert fit.combined.folds.n_folds == 1
    fold_of = fit.combined.folds.fold_of(fit.rows.inputs.mean)
    left_out = folds_of(fit.rows)[0]
    assert torch.equal((fold_of == 0).nonzero()[:, 0], left_out.sort().values)
    assert torch.equal(fit.combined.folds.weights[0], fit.combined.weights)
    assert fit.combined.weights.sum() == pytest.approx(1)
    for member in fit.combined.members:
        assert member.model.noise_correction.all()  # was learnt from the fold


def test_an_end_among_the_first_members_leaves_those_that_have_begun(rows: Rows) -> None:
    fit = Fit(rows, callback=lambda member, step: (member, step.index) == (3, 2))
    assert fit.calls[-1] == (3, 2)
    assert fit.sizes == {"features-1": 1, "neighbours-0": 1}
    assert fit.lengths == [STEPS, 2]
    assert [training.ended for training in fit.combined.trainings] == ["steps", "callback"]
    assert_cross_fitted_on_the_first_fold(fit)


@pytest.mark.parametrize(("last", "expected"), [(3, STEPS), (0, 0)])
def test_an_end_with_the_last_step_of_a_first_member_is_one_too(
    last: int, expected: int, rows: Rows
) -> None:
    fit = Fit(rows, callback=lambda member, step: (member, step.index) == (last, expected))
    assert fit.calls[-1] == (last, expected)
    assert fit.lengths == ([STEPS, STEPS] if last else [0])


def test_an_end_with_the_last_of_the_first_members_leaves_all_of_these(rows: Rows) -> None:
    fit = Fit(rows, callback=lambda member, step: member == 6)
    assert fit.sizes == {"features-1": 1, "neighbours-0": 1, "useless": 1}
    assert fit.calls[-1] == (6, 0)
    assert_cross_fitted_on_the_first_fold(fit)


def test_a_later_end_leaves_the_first_members_of_the_kinds_that_pay(rows: Rows) -> None:
    whole = Fit(rows)
    fit = Fit(rows, callback=lambda member, step: (member, step.index) == (2, 3))
    assert fit.calls[-1] == (2, 3)
    assert fit.sizes == {"features-1": 1, "neighbours-0": 1, "useless": 1}
    assert [kind.weight > 0 for kind in fit.kinds] == [True, True, False]
    assert fit.lengths == [STEPS, STEPS]
    assert_cross_fitted_on_the_first_fold(fit)
    firsts = [whole.combined.members[number] for number in (0, 3)]
    for member, expected in zip(fit.combined.members, firsts, strict=True):
        state = member.model.state_dict()
        for name, parameter in expected.model.named_parameters():
            assert torch.equal(state[name], parameter), name


def test_an_end_after_all_members_have_begun_leaves_them_all(rows: Rows) -> None:
    fit = Fit(rows, callback=lambda member, step: (member, step.index) == (5, 2))
    assert fit.calls[-1] == (5, 2)
    assert fit.sizes == {"features-1": 3, "neighbours-0": 3, "useless": 1}
    assert fit.lengths == [STEPS] * 4 + [2] * 2
    assert fit.combined.folds is not None
    assert fit.combined.folds.n_folds == 3


# Checkpoints.


class _Killed(Exception):  # noqa: N818
    pass


def killer(n_calls: int) -> Callable[[int, Step], None]:
    """Return a callback that fails when it has been called so often, as if the power were cut."""
    left = n_calls

    def callback(member: int, step: Step) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise _Killed

    return callback


@pytest.fixture
def whole(rows: Rows) -> Fit:
    """A fit that was not cut off."""
    return Fit(rows)


# After 7 and 14 calls one and two first members are complete, and after 15 all of them.
@pytest.mark.parametrize("n_calls", [4, 12, 15, 20, 29, 36])
def test_a_fit_that_was_cut_off_ends_as_if_it_had_not_been(
    n_calls: int, whole: Fit, tmp_path: Path
) -> None:
    checkpoints = Checkpoints(tmp_path / "kept", every=2, resume=True)
    with suppress(_Killed):
        Fit(whole.rows, callback=killer(n_calls), checkpoints=checkpoints)
    for _ in range(2):
        fit = Fit(whole.rows, checkpoints=checkpoints)
        assert fit.kinds == whole.kinds
        assert torch.equal(fit.combined.weights, whole.combined.weights)
        assert_same_members(fit, whole)
    # Finished members are not trained again; the callback gets their last steps.
    assert sorted(fit.calls) == [*((member, STEPS) for member in range(6)), (6, 0)]


def test_an_end_while_finished_first_members_are_read_leaves_those_before(
    whole: Fit, tmp_path: Path
) -> None:
    checkpoints = Checkpoints(tmp_path / "kept", resume=True)
    Fit(whole.rows, checkpoints=checkpoints)
    fit = Fit(whole.rows, callback=lambda member, step: member == 3, checkpoints=checkpoints)
    assert fit.calls == [(0, STEPS), (3, STEPS)]
    assert fit.sizes == {"features-1": 1, "neighbours-0": 1}
    assert_cross_fitted_on_the_first_fold(fit)
