"""Training by neighbours: its objective, its steps, its checkpoints, and what it recovers from."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
import torch
from builders.models import gradients, normal, small_rows
from builders.neighbours import exact_prediction, neighbour_model, row_of, without
from torch import Tensor

from sswim.base.cholesky import FactorisationError
from sswim.base.validation import UserError
from sswim.distributed.processes import ALONE, Processes
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
from sswim.members.checkpoints import MemberCallback
from sswim.members.model import stack_models, unstack_models
from sswim.members.neighbour_training import (
    MAP_SPACINGS,
    MiniBatches,
    Pool,
    PoolSource,
    neighbour_objective,
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


@pytest.fixture
def pair(rows: Rows, generator: torch.Generator) -> SSWIM:
    """A batch of two members."""
    changes: dict[str, Any] = {"n_neighbors": 6, "depth": 1, "warps": "joint"}
    return stack_models([neighbour_model(rows, generator, **changes) for _ in range(2)])


def train_batch(
    model: SSWIM,
    rows: Rows,
    settings: MiniBatches = STEPS,
    callback: MemberCallback = lambda member, step: None,
    *,
    seen: Sequence[Tensor] = (),
    seeds: tuple[int, ...] = (),
    prior_weight: float = 1.0,
    checkpoints: Checkpoints | None = None,
) -> list[Training]:
    """Train a model or a batch on all rows, unless members see only some."""
    n_members = math.prod(model.batch)
    objective = Objective(prior_weight=prior_weight)
    kind = Kind("one", "neighbours", model.architecture, objective, settings)
    seen = tuple(seen) or (torch.arange(len(rows)),) * n_members
    batch = Batch(NeighbourMember, 0, model, rows, kind, seen, seeds or tuple(range(n_members)))
    return NeighbourMember.train(
        batch,
        callback,
        ALONE,
        lambda name: None if checkpoints is None else checkpoints.file(f"member{name}"),
    )


def train(
    model: SSWIM,
    rows: Rows,
    settings: MiniBatches = STEPS,
    callback: Callable[[Step], object] = lambda step: None,
    *,
    seed: int = 0,
) -> Training:
    """Train a single model."""
    [training] = train_batch(
        model, rows, settings, lambda member, step: callback(step), seeds=(seed,)
    )
    return training


def objective(
    model: SSWIM, rows: Rows, prior_weight: float = 1.0
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the value of every member and the gradient of the first step, which uses all rows."""
    found: list[dict[str, Tensor]] = []
    settings = MiniBatches(steps=0, batch_rows=len(rows), largest_gradient=torch.inf)
    trainings = train_batch(
        model,
        rows,
        settings,
        lambda member, step: found.append(gradients(model)),
        prior_weight=prior_weight,
    )
    best = [training.best.value for training in trainings]
    return torch.tensor(best, dtype=torch.float64), found[0]


def values(training: Training) -> list[float]:
    return [step.value for step in training.history]


def state(model: SSWIM) -> list[Tensor]:
    return [tensor.clone() for tensor in model.state_dict().values()]


def assert_equal(ours: SSWIM, theirs: SSWIM) -> None:
    assert all(map(torch.equal, state(ours), state(theirs)))


# The objective.


@of_every_case
@pytest.mark.parametrize("extras", [False, True], ids=["plain", "weighted and uncertain"])
def test_the_gradients_of_members_against_differences(
    changes: dict[str, Any], extras: bool, generator: torch.Generator
) -> None:
    rows = small_rows(generator, 14, 2, weighted=extras, uncertain=extras)
    model = stack_models([neighbour_model(rows, generator, **changes) for _ in range(2)])
    # The variance of rounding follows the output warp, but pulls at nothing.
    model.resolution[:, 0] = 0.1 if model.output_warp is None else 0.0
    step = PoolSource(rows, [torch.arange(14)] * 2, [0, 1]).draw(model, 0, 14)
    neighbour_objective(model, rows, step, 0.7).sum().backward()
    found = gradients(model)
    assert found.keys() == {name for name, _ in model.named_parameters()}
    for name, parameter in model.named_parameters():
        direction = normal(generator, *parameter.shape)
        ends = []
        with torch.no_grad():
            for sign in (1, -2):
                parameter.add_(sign * 1e-5 * direction)
                ends.append(neighbour_objective(model, rows, step, 0.7))
            parameter.add_(1e-5 * direction)
        slopes = (ends[0] - ends[1]) / 2e-5
        ours = (found[name] * direction).reshape(2, -1).sum(1)
        assert torch.allclose(ours, slopes, rtol=2e-4, atol=1e-6), name


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
    assert ours.item() == pytest.approx((total / weight.sum()).item(), rel=1e-8)


@pytest.mark.parametrize("depth", [0, 1])
def test_each_row_is_predicted_from_its_nearest_others_in_the_warped_space(
    depth: int, generator: torch.Generator
) -> None:
    """With many inputs these are the nearest of all rows; there are at most 32 of them."""
    rows = as_rows(normal(generator, 60, 6), normal(generator, 60))
    model = neighbour_model(rows, generator, n_neighbors=4, depth=depth)
    density = condition(model, rows).leave_one_out(rows).log_density(rows.targets)
    ours, _ = objective(model, rows, prior_weight=0.0)
    assert ours.item() == pytest.approx(-density.mean().item(), rel=1e-9)
    found = []
    for n_neighbors in (31, 32, 64):
        model.architecture = replace(model.architecture, n_neighbors=n_neighbors)
        found.append(objective(model, rows)[0])
    assert found[0] != found[1] == found[2]


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
    assert value.item() == pytest.approx(model.factors()[1].warps.item() / len(rows), rel=1e-12)
    assert all(tensor.isfinite().all() for tensor in gradient.values())


def test_steps_see_every_row_once_and_are_unbiased(generator: torch.Generator) -> None:
    rows = small_rows(generator, 14, 2)
    model = neighbour_model(rows, generator)
    expected, _ = objective(model, rows)
    settings = MiniBatches(steps=1, batch_rows=7, learning_rate=1e-12)
    found = sum(values(train(model, rows, settings))) / 2
    assert found == pytest.approx(expected.item(), rel=1e-9)


def test_the_parts_of_processes_add_up_to_the_objective(generator: torch.Generator) -> None:
    """Some have no rows where there are few."""
    rows = small_rows(generator, 14, 2, weighted=True)
    model = stack_models([neighbour_model(rows, generator, depth=1) for _ in range(2)])
    source = PoolSource(rows, [torch.arange(14)] * 2, [0, 1])
    for size in (2, 14):
        pool = source.draw(model, 0, size)
        parts = [
            neighbour_objective(model, rows, pool, processes=Processes(n, 3)) for n in range(3)
        ]
        assert torch.allclose(
            torch.stack(parts).sum(0), neighbour_objective(model, rows, pool), rtol=1e-12
        )


def test_some_rows_of_a_map_have_far_neighbours_among_a_limited_number_of_rows(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = as_rows(normal(generator, 8000, 2), normal(generator, 8000))
    model = neighbour_model(rows, generator, n_neighbors=8)
    x, everything = rows.inputs.mean, torch.arange(8000)

    def draw(size: int) -> Pool:
        pool = PoolSource(rows, [everything], [0]).draw(model, 0, size)
        return pool.map(itemgetter(0))

    pool = draw(500)
    distances = torch.cdist(x[pool.own], x)
    distances[torch.arange(500), pool.own] = torch.inf
    nearest = (pool.neighbours == distances.argmin(-1)[:, None]).any(-1).double()
    assert abs(nearest.mean() - MAP_SPACINGS[0][1]) < 0.05
    for part in nearest.split(100):  # every step has rows of both kinds
        assert 0.8 < part.mean() < 1
    monkeypatch.setitem(neighbour_training.MAX_CANDIDATES, "few inputs", 30)
    pool = draw(100)
    assert len(pool.neighbours[pool.present].unique()) <= 2 * 30  # of each kind


# Members that are trained together.


@of_every_case
@pytest.mark.parametrize(
    ("extras", "n_seen"), [(False, 3), (True, 40)], ids=["few", "weighted and uncertain"]
)
def test_members_end_as_each_would_alone_on_the_rows_that_it_sees(
    extras: bool, n_seen: int, changes: dict[str, Any], generator: torch.Generator
) -> None:
    """One of few rows has fewer neighbours than the others; each has its own order of rows."""
    rows = small_rows(generator, 60, 2, weighted=extras, uncertain=extras)
    seen = [torch.randperm(60, generator=generator)[:n] for n in (n_seen, 40)]
    each = [rows.take(numbers) for numbers in seen]
    starts = each if extras else (rows, rows)  # with other normal scores, or the same
    models = [neighbour_model(start, generator, 6, **changes) for start in starts]
    batch = stack_models(models)
    settings = MiniBatches(steps=5, batch_rows=3, pool_steps=3)
    together = train_batch(batch, rows, settings, seen=seen, seeds=(3, 5))
    for model, own, seed, ours, training in zip(
        models, each, (3, 5), unstack_models(batch), together, strict=True
    ):
        alone = train(model, own, settings, seed=seed)
        assert values(training) == pytest.approx(values(alone), rel=1e-9)
        for mine, theirs in zip(state(ours), state(model), strict=True):
            assert torch.allclose(mine, theirs, rtol=1e-8, atol=1e-10)


def test_pools_have_only_rows_that_a_member_sees(generator: torch.Generator) -> None:
    rows = small_rows(generator, 60)
    seen = [torch.randperm(60, generator=generator)[:n] for n in (4, 40)]
    model = stack_models([neighbour_model(rows, generator, 6) for _ in range(2)])
    source = PoolSource(rows, seen, [0, 1])
    for pool in (source.draw(model, 8, 40), source.check(model)):
        for own, neighbours, present, visible in zip(*pool.tensors(), seen, strict=True):
            assert torch.isin(own, visible).all()
            assert torch.isin(neighbours[present], visible).all()
            assert (present.sum(-1) == min(6, len(visible) - 1)).all()
    counts = source.draw(model, 0, 40).own[0].unique(return_counts=True)[1]
    assert counts.tolist() == [10] * 4  # each row as often as the others


# Steps.


@pytest.mark.parametrize("steps", [0, 1, 4, 5])
@pytest.mark.parametrize("n_rows", [1, 2, 3, 60])
def test_any_number_of_steps_is_taken_on_any_number_of_rows(
    n_rows: int, steps: int, generator: torch.Generator
) -> None:
    """A callback sees every step of every member, and may end the training."""
    rows = small_rows(generator, n=60)
    model = stack_models([neighbour_model(rows, generator, 5, depth=1) for _ in range(2)])
    before, told = copy.deepcopy(model), list[tuple[int, Step]]()
    seen = [torch.arange(n_rows), torch.arange(60)]
    settings = MiniBatches(steps=steps, batch_rows=8)
    result = train_batch(model, rows, settings, lambda *step: told.append(step), seen=seen)
    histories = [training.history for training in result]
    assert [len(history) for history in histories] == [steps + 1] * 2
    assert told == [
        (n, history[step]) for step in range(steps + 1) for n, history in enumerate(histories)
    ]
    stays = [torch.equal(*pair) for pair in zip(model.log_noise, before.log_noise, strict=True)]
    assert stays == [steps == 0 or n_rows == 1, steps == 0]
    assert all(tensor.isfinite().all() for tensor in state(model))
    few = rows.take(seen[0])  # with no others at all
    alone = neighbour_model(few, generator, 5, depth=1)
    assert len(train(alone, few, settings).history) == steps + 1
    assert all(tensor.isfinite().all() for tensor in state(alone))
    result = train_batch(
        model, rows, STEPS, lambda member, step: (member, step.index) == (1, steps)
    )
    assert [training.ended for training in result] == ["callback"] * 2
    assert [len(training.history) for training in result] == [steps + 1] * 2


@pytest.mark.parametrize("n_inputs", [2, 6], ids=["map", "many inputs"])
def test_warps_take_shorter_steps_than_the_kernel_and_gradients_are_clipped(
    n_inputs: int, generator: torch.Generator
) -> None:
    """Adam's first step is as long as the learning rate, in every parameter."""
    rows = as_rows(normal(generator, 30, n_inputs), normal(generator, 30))
    model = neighbour_model(rows, generator, 6, depth=1, warp_matrix="full", kernel="rbf")
    before = copy.deepcopy(model)
    settings = MiniBatches(steps=1, largest_gradient=0.01)
    training = train(model, rows, settings)
    [layer] = model.warp_layers()
    assert layer.projection is not None
    assert model.log_degrees is not None
    top = (model.spectrum.log_length_scales, model.log_signal, model.log_noise, model.log_degrees)
    kernel = [id(parameter) for parameter in (*top, layer.projection.log_scales)]
    ratio = settings.map_warp_rate if n_inputs == 2 else settings.warp_rate
    for (name, parameter), old in zip(model.named_parameters(), before.parameters(), strict=True):
        longest = 0.2 * settings.learning_rate * (1 if id(parameter) in kernel else ratio)
        assert (parameter - old).abs().max().item() == pytest.approx(longest, rel=0.01), name
    for step in training.history:  # of the kernel, and of all else
        assert step.gradient_norm == pytest.approx(2**0.5 * 0.01, rel=0.01)


def test_impossible_settings_are_refused() -> None:
    for wrong in ({"steps": -1}, {"learning_rate": 0.0}):
        with pytest.raises(UserError, match="steps must not be negative, and learning_rate"):
            MiniBatches(**wrong)


# Failures and checkpoints.


class _Killed(Exception):  # noqa: N818
    pass


def spoiling(
    model: SSWIM, steps: set[int], value: float = torch.inf, killed: int = -1
) -> MemberCallback:
    """Return a callback that spoils the last member after some steps, and may end the process."""

    def callback(member: int, step: Step) -> None:
        if step.index == killed:
            raise _Killed
        if step.index in steps:
            with torch.no_grad():
                model.log_signal[-1] = value

    return callback


@pytest.mark.parametrize("after", [0, 4, 5])
@pytest.mark.parametrize("value", [torch.inf, 12.0], ids=["lost", "worse"])
def test_parameters_that_are_lost_or_become_worse_are_given_up(
    value: float, after: int, pair: SSWIM, rows: Rows
) -> None:
    """The step, or the check before the next pool, goes back to the best; others do not notice."""
    other = copy.deepcopy(pair)
    expected = train_batch(other, rows)
    result = train_batch(pair, rows, callback=spoiling(pair, {after}, value))
    for training in result:
        assert len(training.history) == 14
        assert training.ended == "steps"
    assert all(tensor.isfinite().all() for tensor in state(pair))
    assert pair.log_signal.max() < 6
    assert values(result[0]) == values(expected[0])
    assert all(torch.equal(*both) for both in first_members(pair, other))


def first_members(ours: SSWIM, theirs: SSWIM) -> list[tuple[Tensor, Tensor]]:
    return [(mine[0], other[0]) for mine, other in zip(state(ours), state(theirs), strict=True)]


def test_a_matrix_that_cannot_be_factorised_ends_no_step_of_another_member(
    pair: SSWIM, rows: Rows
) -> None:
    other = copy.deepcopy(pair)
    expected = train_batch(other, rows)

    def callback(member: int, step: Step) -> None:
        if step.index == 2:
            with torch.no_grad():
                pair.spectrum.log_length_scales[1] = torch.nan

    result = train_batch(pair, rows, callback=callback)
    assert result[1].history[3].gradient_norm == 0
    assert values(result[0]) == pytest.approx(values(expected[0]), rel=1e-12)
    assert all(torch.allclose(*both, rtol=1e-12) for both in first_members(pair, other))
    assert all(tensor.isfinite().all() for tensor in state(pair))


def test_going_back_restores_the_parameters_and_shortens_the_steps(pair: SSWIM, rows: Rows) -> None:
    seen: list[Tensor] = []

    def after_steps(failures: set[int]) -> MemberCallback:
        def callback(member: int, step: Step) -> None:
            if member == 1:
                seen.append(pair.log_noise[1].detach().clone())
                spoiling(pair, failures)(member, step)

        return callback

    train_batch(pair, rows, MiniBatches(steps=6, batch_rows=16, pool_steps=10), after_steps({3}))
    assert not torch.equal(seen[3], seen[0])
    for number in (4, 5):  # where the pool began: the step that failed has no gradient
        assert torch.equal(seen[number], seen[0])
    assert 0 < (seen[6] - seen[5]).abs() < (seen[3] - seen[2]).abs()
    seen.clear()
    with pytest.raises(FactorisationError):
        train_batch(pair, rows, callback=after_steps(set(range(100))))
    assert len(seen) == STEPS.retries + 1


@pytest.mark.parametrize(("after", "every"), [(0, 1), (8, 3), (13, 4)])
@pytest.mark.parametrize("failures", [set(), {6}], ids=["no failure", "a failure"])
def test_a_training_that_was_cut_off_ends_as_if_it_had_not_been(
    failures: set[int], after: int, every: int, pair: SSWIM, rows: Rows, tmp_path: Path
) -> None:
    whole, cut, resumed = (copy.deepcopy(pair) for _ in range(3))
    members: dict[str, Any] = {"seen": [torch.arange(50), torch.arange(10, 60)], "seeds": (2, 7)}
    expected = train_batch(whole, rows, callback=spoiling(whole, failures), **members)
    members["checkpoints"] = Checkpoints(tmp_path, every=every)
    with pytest.raises(_Killed):
        train_batch(cut, rows, callback=spoiling(cut, failures, killed=after), **members)
    steps: list[int] = []

    def callback(member: int, step: Step) -> None:
        steps.append(step.index)
        spoiling(resumed, failures)(member, step)

    again = train_batch(resumed, rows, callback=callback, **members)
    assert_equal(resumed, whole)
    assert [values(one) for one in again] == [values(one) for one in expected]
    assert steps[0] == every * (after // every)
