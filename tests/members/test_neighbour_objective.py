from __future__ import annotations

from dataclasses import replace
from operator import itemgetter
from typing import Any

import pytest
import torch
from builders.models import gradients, small_rows
from builders.neighbours import exact_prediction, neighbour_model, row_of, without
from torch import Tensor

from sswim.distributed.processes import Processes
from sswim.members import SSWIM
from sswim.members.neighbour_training import Pool, PoolSource, neighbour_objective
from sswim.rows import Rows

CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "one amplitude": {"local_amplitude": False, "kernel": "matern12"},
    "joint warps": {"depth": 2, "warps": "joint", "kernel": "rbf"},
    "separate warps": {"depth": 1, "warps": "separate", "pseudo_prior": "whitened"},
    "densities": {"output_warp": "sinh-arcsinh", "noise": "input-dependent"},
    "normal scores": {"inputs": "normal-scores", "kernel": "matern52", "output_warp": "tanh"},
}


@pytest.fixture(params=["plain", "weighted", "uncertain"])
def rows(generator: torch.Generator, request: pytest.FixtureRequest) -> Rows:
    kind = request.param
    return small_rows(generator, 14, 2, weighted=kind == "weighted", uncertain=kind == "uncertain")


def all_others(rows: Rows) -> Pool:
    """Every row once, with all other rows as its neighbours."""
    n = len(rows)
    others = [[other for other in range(n) if other != own] for own in range(n)]
    return Pool(torch.arange(n), torch.tensor(others), torch.ones(n, n - 1, dtype=torch.bool))


def make(rows: Rows, generator: torch.Generator, **changes: Any) -> SSWIM:
    model = neighbour_model(rows, generator, **changes)
    model.resolution.copy_(torch.tensor([0.1, 0.0]))
    return model


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES.keys())
def test_the_gradient_against_differences(
    changes: dict[str, Any], rows: Rows, generator: torch.Generator
) -> None:
    model = make(rows, generator, **changes)
    step = PoolSource(rows, 0).draw(model, 0, 10)

    def value() -> Tensor:
        return neighbour_objective(model, rows, step, prior_weight=0.7)

    # The variance of rounding follows the output warp, but pulls at nothing.
    model.resolution.mul_(0 if model.output_warp is not None else 1)
    value().backward()
    found = gradients(model)
    assert found.keys() == {name for name, _ in model.named_parameters()}
    for name, parameter in model.named_parameters():
        direction = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        ends = []
        with torch.no_grad():
            for sign in (1, -2, 1):
                parameter.add_(sign * 1e-5 * direction)
                ends.append(value().item())
        slope = (ends[0] - ends[1]) / 2e-5
        assert (found[name] * direction).sum().item() == pytest.approx(slope, rel=2e-4, abs=1e-6), (
            name
        )


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@torch.no_grad()
def test_it_is_the_leave_one_out_density_of_exact_gps(
    changes: dict[str, Any], weighted: bool, generator: torch.Generator
) -> None:
    """Each row is predicted as one observation, and counts as often as its weight says.

    The noise of the objective is tempered at the row itself too, so it is not here.
    """
    rows = small_rows(generator, 14, 2, weighted=weighted)
    model = make(rows, generator, **changes)
    if model.noise_field is not None:
        model.noise_field.temper.fill_(1.0)
    factors, prior = model.factors()
    ours = neighbour_objective(model, rows, all_others(rows), prior_weight=0.5)
    weight = torch.ones(14, dtype=torch.float64) if rows.weight is None else rows.weight
    total = 0.5 * prior.warps + prior.density
    z, log_slope = factors.output.forward(rows.targets)
    for row in range(14):
        prediction = exact_prediction(model, without(rows, row), row_of(rows.inputs, row))
        # Rounding at the target, not at the prediction.
        inflation: Tensor | float = 1.0
        if prediction.degrees is not None:
            inflation = prediction.degrees / (prediction.degrees - 2)
        slopes = (
            log_slope.exp()[row],
            factors.output.forward(factors.output.inverse(prediction.mean))[1].exp(),
        )
        change = model.resolution.square() / 12 * (slopes[0].square() - slopes[1].square())
        moved = replace(
            prediction, observation_variance=prediction.observation_variance + change * inflation
        )
        density = moved.log_density(z[row : row + 1]) + log_slope[row]
        total = total - weight[row] * density.sum()
    assert torch.allclose(ours, total / weight.sum(), rtol=1e-8)


@pytest.mark.parametrize("local", [False, True], ids=["global", "local"])
@torch.no_grad()
def test_a_row_of_weight_two_is_the_row_twice(local: bool, generator: torch.Generator) -> None:
    """It is, in the mean over all rows, if a row's own copies are no neighbours of it.

    With amplitudes of their own it is not, because these count rows and not weights.
    """
    rows = small_rows(generator, 8, 2)
    weight = torch.tensor([1.0, 2.0, 1.0, 3.0] * 2, dtype=torch.float64)
    number = torch.arange(8).repeat_interleave(weight.long())
    repeated = rows.take(number)
    model = make(rows, generator, depth=1, local_amplitude=local)
    ours = neighbour_objective(model, replace(rows, weight=weight), all_others(rows))
    pool = all_others(repeated)
    present = number[pool.neighbours] != number[pool.own][:, None]
    theirs = neighbour_objective(model, repeated, replace(pool, present=present))
    assert torch.allclose(ours, theirs, rtol=1e-10) == (not local)
    assert torch.allclose(ours, theirs, atol=0.3)


@torch.no_grad()
def test_a_step_is_an_unbiased_estimate(rows: Rows, generator: torch.Generator) -> None:
    model = make(rows, generator)
    everything = all_others(rows)
    whole = neighbour_objective(model, rows, everything)
    halves = [
        neighbour_objective(model, rows, everything.map(itemgetter(half)))
        for half in (slice(0, 7), slice(7, 14))
    ]
    assert torch.allclose(torch.stack(halves).mean(), whole, rtol=1e-10)


def test_rows_without_neighbours_do_not_count(rows: Rows, generator: torch.Generator) -> None:
    rows = replace(rows, weight=None)
    model = make(rows, generator)
    pool = all_others(rows)
    present = pool.present.clone()
    present[5:] = False
    some = neighbour_objective(model, rows, replace(pool, present=present))
    first = neighbour_objective(model, rows, pool.map(lambda t: t[:5]))
    assert torch.allclose(some, first, rtol=1e-12)
    nothing = neighbour_objective(model, rows, replace(pool, present=pool.present & False))
    assert nothing == 0
    (some + nothing).backward()
    assert all(gradient.isfinite().all() for gradient in gradients(model).values())


@torch.no_grad()
def test_parts_of_processes_add_up(rows: Rows, generator: torch.Generator) -> None:
    model = make(rows, generator, depth=1)
    pool = all_others(rows)
    whole = neighbour_objective(model, rows, pool)
    for size in (2, 3, 20):  # some of twenty have no row
        parts = [
            neighbour_objective(model, rows, pool, processes=Processes(rank, size))
            for rank in range(size)
        ]
        assert torch.allclose(torch.stack(parts).sum(), whole, rtol=1e-10)


def test_the_noise_of_equal_targets_does_not_vanish(generator: torch.Generator) -> None:
    """Where all targets are equal, rounding bounds the objective."""
    rows = small_rows(generator, 14, 1)
    rows.targets.fill_(0.5)
    model = neighbour_model(rows, generator)
    values = []
    for log_signal in (0.0, -20.0, -40.0, -80.0):
        with torch.no_grad():
            model.log_signal.fill_(log_signal)
            model.resolution.fill_(0.01)
        values.append(neighbour_objective(model, rows, all_others(rows)))
    values[-1].backward()
    assert values[-1].item() == pytest.approx(values[-2].item(), abs=1e-3)
    assert all(gradient.isfinite().all() for gradient in gradients(model).values())
