"""Training by neighbours: its objective, its steps, its checkpoints, and what it recovers from."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from builders.models import gradients, normal, small_rows
from builders.neighbours import exact_prediction, neighbour_model, row_of, without
from torch import Tensor

from sswim.base.cholesky import FactorisationError
from sswim.base.validation import UserError
from sswim.distributed.processes import ALONE
from sswim.members import (
    SSWIM,
    Batch,
    Checkpoints,
    Kind,
    NeighbourMember,
    Objective,
    Step,
    Training,
    condition,
    neighbour_training,
)
from sswim.members.neighbour_training import (
    MAP_SPACINGS,
    MiniBatches,
    PoolSource,
)
from sswim.rows import Rows, as_rows

STEPS = MiniBatches(steps=13, batch_rows=16, pool_steps=5)

CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "one amplitude": {"local_amplitude": False, "kernel": "matern12"},
    "joint warps": {"depth": 2, "warps": "joint", "kernel": "rbf"},
    "separate warps": {"depth": 1, "warps": "separate", "pseudo_prior": "whitened"},
    "densities": {"output_warp": "sinh-arcsinh", "noise": "input-dependent"},
    "normal scores": {"inputs": "normal-scores", "kernel": "matern52", "output_warp": "tanh"},
}
of_every_case = pytest.mark.parametrize("changes", CASES.values(), ids=CASES.keys())


@pytest.fixture
def rows(generator: torch.Generator) -> Rows:
    return small_rows(generator, n=60)


@pytest.fixture
def model(rows: Rows, generator: torch.Generator) -> SSWIM:
    return neighbour_model(rows, generator, n_neighbors=6, depth=1, warps="joint")


def train(
    model: SSWIM,
    rows: Rows,
    settings: MiniBatches = STEPS,
    callback: Callable[[Step], object] = lambda step: None,
    *,
    seed: int = 0,
    prior_weight: float = 1.0,
    checkpoints: Checkpoints | None = None,
) -> Training:
    objective = Objective(prior_weight=prior_weight)
    kind = Kind("one", "neighbours", model.architecture, objective, settings)
    batch = Batch(NeighbourMember, 0, model, rows, kind, seed)
    [training] = NeighbourMember.train(
        batch,
        lambda member, step: callback(step),
        ALONE,
        lambda name: None if checkpoints is None else checkpoints.file(f"member{name}"),
    )
    return training


def objective(
    model: SSWIM, rows: Rows, prior_weight: float = 1.0
) -> tuple[float, dict[str, Tensor]]:
    """Return the value and the gradient of the first step, which uses all rows."""
    found: list[dict[str, Tensor]] = []
    settings = MiniBatches(steps=0, batch_rows=len(rows), largest_gradient=torch.inf)
    training = train(
        model,
        rows,
        settings,
        lambda step: found.append(gradients(model)),
        prior_weight=prior_weight,
    )
    return training.best.value, found[0]


def values(training: Training) -> list[float]:
    return [step.value for step in training.history]


def state(model: SSWIM) -> list[Tensor]:
    return [tensor.clone() for tensor in model.state_dict().values()]


def assert_equal(ours: SSWIM, theirs: SSWIM) -> None:
    assert all(map(torch.equal, state(ours), state(theirs)))


# The objective.


@of_every_case
@pytest.mark.parametrize("extras", [False, True], ids=["plain", "weighted and uncertain"])
def test_the_gradient_against_differences(
    changes: dict[str, Any], extras: bool, generator: torch.Generator
) -> None:
    rows = small_rows(generator, 14, 2, weighted=extras, uncertain=extras)
    model = neighbour_model(rows, generator, **changes)
    # The variance of rounding follows the output warp, but pulls at nothing.
    model.resolution.copy_(torch.tensor([0.1 if model.output_warp is None else 0.0, 0.0]))
    _, found = objective(model, rows, prior_weight=0.7)
    assert found.keys() == {name for name, _ in model.named_parameters()}
    for name, parameter in model.named_parameters():
        direction = normal(generator, *parameter.shape)
        ends = []
        for sign in (1, -2):
            with torch.no_grad():
                parameter.add_(sign * 1e-5 * direction)
            ends.append(objective(model, rows, prior_weight=0.7)[0])
        with torch.no_grad():
            parameter.add_(1e-5 * direction)
        slope = (ends[0] - ends[1]) / 2e-5
        ours = (found[name] * direction).sum().item()
        assert ours == pytest.approx(slope, rel=2e-4, abs=1e-6), name


@of_every_case
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_it_is_the_leave_one_out_density_of_exact_gps(
    changes: dict[str, Any], weighted: bool, generator: torch.Generator
) -> None:
    """Each row is predicted as one observation, and counts as often as its weight says.

    The noise of the objective is tempered at the row itself too, so it is not here.
    """
    rows = small_rows(generator, 14, 2, weighted=weighted)
    model = neighbour_model(rows, generator, **changes)
    # Under an output warp the step of rounding is that at the target, not at the prediction.
    model.resolution.copy_(torch.tensor([0.1 if model.output_warp is None else 0.0, 0.0]))
    if model.noise_field is not None:
        model.noise_field.temper.fill_(1.0)
    factors, prior = model.factors()
    weight = torch.ones(14, dtype=torch.float64) if rows.weight is None else rows.weight
    total = 0.5 * prior.warps + prior.density
    z, log_slope = factors.output.forward(rows.targets)
    for row in range(14):
        prediction = exact_prediction(model, without(rows, row), row_of(rows.inputs, row))
        density = prediction.log_density(z[row : row + 1]) + log_slope[row]
        total = total - weight[row] * density.sum()
    ours, _ = objective(model, rows, prior_weight=0.5)
    assert ours == pytest.approx((total / weight.sum()).item(), rel=1e-8)


@pytest.mark.parametrize("depth", [0, 1])
def test_each_row_is_predicted_from_its_nearest_others_in_the_warped_space(
    depth: int, generator: torch.Generator
) -> None:
    """With many inputs these are the nearest of all rows; there are at most 32 of them."""
    rows = as_rows(normal(generator, 60, 6), normal(generator, 60))
    model = neighbour_model(rows, generator, n_neighbors=4, depth=depth)
    density = condition(model, rows).leave_one_out(rows).log_density(rows.targets)
    ours, _ = objective(model, rows, prior_weight=0.0)
    assert ours == pytest.approx(-density.mean().item(), rel=1e-9)
    found = []
    for n_neighbors in (32, 64):
        model.architecture = replace(model.architecture, n_neighbors=n_neighbors)
        found.append(objective(model, rows)[0])
    assert found[0] == found[1]


@pytest.mark.parametrize(("n_distinct", "n_inputs"), [(1, 3), (8, 6)])
def test_rows_that_are_nothing_but_copies_teach_the_prior_alone(
    n_distinct: int, n_inputs: int, generator: torch.Generator
) -> None:
    """More copies than are looked up leave a row without neighbours."""
    distinct = as_rows(normal(generator, n_distinct, n_inputs), normal(generator, n_distinct))
    rows = distinct.take(torch.arange(n_distinct).repeat(60))
    rows.targets.add_(normal(generator, *rows.targets.shape))
    model = neighbour_model(distinct, generator, n_neighbors=6, depth=1)
    value, gradient = objective(model, rows)
    assert value == pytest.approx(model.factors()[1].warps.item() / len(rows), rel=1e-12)
    assert all(tensor.isfinite().all() for tensor in gradient.values())


def test_steps_see_every_row_once_and_are_unbiased(generator: torch.Generator) -> None:
    rows = small_rows(generator, 14, 2)
    model = neighbour_model(rows, generator)
    expected, _ = objective(model, rows)
    settings = MiniBatches(steps=1, batch_rows=7, learning_rate=1e-12)
    assert sum(values(train(model, rows, settings))) / 2 == pytest.approx(expected, rel=1e-9)


def test_some_rows_of_a_map_have_far_neighbours_among_a_limited_number_of_rows(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = as_rows(normal(generator, 8000, 2), normal(generator, 8000))
    model = neighbour_model(rows, generator, n_neighbors=8)
    x = rows.inputs.mean
    pool = PoolSource(rows, 0).draw(model, 0, 500)
    distances = torch.cdist(x[pool.own], x)
    distances[torch.arange(500), pool.own] = torch.inf
    nearest = (pool.neighbours == distances.argmin(-1)[:, None]).any(-1).double()
    assert abs(nearest.mean() - MAP_SPACINGS[0][1]) < 0.05
    for part in nearest.split(100):  # every step has rows of both kinds
        assert 0.8 < part.mean() < 1
    monkeypatch.setitem(neighbour_training.MAX_CANDIDATES, "few inputs", 30)
    pool = PoolSource(rows, 0).draw(model, 0, 100)
    assert len(pool.neighbours[pool.present].unique()) <= 2 * 30  # of each kind


# Steps.


@pytest.mark.parametrize("steps", [0, 1, 4, 5])
@pytest.mark.parametrize("n_rows", [1, 2, 3, 60])
def test_any_number_of_steps_is_taken_on_any_number_of_rows(
    n_rows: int, steps: int, generator: torch.Generator
) -> None:
    """A callback sees every step, and may end the training."""
    rows = small_rows(generator, n=n_rows)
    model = neighbour_model(rows, generator, n_neighbors=5, depth=1)
    before, seen = copy.deepcopy(model), list[Step]()
    result = train(model, rows, MiniBatches(steps=steps, batch_rows=8), seen.append)
    assert len(result.history) == steps + 1
    assert tuple(seen) == result.history
    assert torch.equal(model.log_noise, before.log_noise) == (steps == 0 or n_rows == 1)
    assert all(tensor.isfinite().all() for tensor in state(model))
    result = train(model, rows, callback=lambda step: step.index == steps)
    assert result.ended == "callback"
    assert len(result.history) == steps + 1


def test_impossible_settings_are_refused() -> None:
    for wrong in ({"steps": -1}, {"learning_rate": 0.0}):
        with pytest.raises(UserError, match="steps must not be negative, and learning_rate"):
            MiniBatches(**wrong)


# Failures and checkpoints.


class _Killed(Exception):  # noqa: N818
    pass


def spoiling(
    model: SSWIM, steps: set[int], value: float = torch.inf, killed: int = -1
) -> Callable[[Step], None]:
    """Return a callback that spoils a parameter after some steps, and may end the process."""

    def callback(step: Step) -> None:
        if step.index == killed:
            raise _Killed
        if step.index in steps:
            with torch.no_grad():
                model.log_signal.fill_(value)

    return callback


@pytest.mark.parametrize("after", [0, 4, 5])
@pytest.mark.parametrize("value", [torch.inf, 12.0], ids=["lost", "worse"])
def test_parameters_that_are_lost_or_become_worse_are_given_up(
    value: float, after: int, model: SSWIM, rows: Rows
) -> None:
    """The step, or the check before the next pool, goes back to the best parameters."""
    result = train(model, rows, callback=spoiling(model, {after}, value))
    assert len(result.history) == 14
    assert result.ended == "steps"
    assert all(tensor.isfinite().all() for tensor in state(model))
    assert model.log_signal.item() < 6


def test_going_back_restores_the_parameters_and_shortens_the_steps(
    model: SSWIM, rows: Rows
) -> None:
    seen: list[Tensor] = []

    def callback(failures: set[int], step: Step) -> None:
        seen.append(model.log_noise.detach().clone())
        spoiling(model, failures)(step)

    settings = MiniBatches(steps=6, batch_rows=16, pool_steps=10)
    train(model, rows, settings, partial(callback, {3}))
    assert not torch.equal(seen[3], seen[0])
    assert torch.equal(seen[4], seen[0])  # where the pool began
    assert (seen[5] - seen[4]).abs() < (seen[3] - seen[2]).abs()
    seen.clear()
    with pytest.raises(FactorisationError):
        train(model, rows, callback=partial(callback, set(range(100))))
    assert len(seen) == STEPS.retries + 1


@pytest.mark.parametrize(("after", "every"), [(0, 1), (8, 3), (13, 4)])
@pytest.mark.parametrize("failures", [set(), {6}], ids=["no failure", "a failure"])
def test_a_training_that_was_cut_off_ends_as_if_it_had_not_been(
    failures: set[int], after: int, every: int, model: SSWIM, rows: Rows, tmp_path: Path
) -> None:
    whole, cut, resumed = (copy.deepcopy(model) for _ in range(3))
    expected = train(whole, rows, callback=spoiling(whole, failures), seed=2)
    checkpoints = Checkpoints(tmp_path, every=every)
    spoil = spoiling(cut, failures, killed=after)
    with pytest.raises(_Killed):
        train(cut, rows, callback=spoil, seed=2, checkpoints=checkpoints)
    steps: list[int] = []

    def callback(step: Step) -> None:
        steps.append(step.index)
        spoiling(resumed, failures)(step)

    again = train(resumed, rows, callback=callback, seed=2, checkpoints=checkpoints)
    assert_equal(resumed, whole)
    assert values(again) == values(expected)
    assert steps[0] == every * (after // every)
