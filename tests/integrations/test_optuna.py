from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from builders.searches import funnel, lucky_random_search

optuna = pytest.importorskip("optuna", reason="needs the extra optuna")
integration = pytest.importorskip("optuna_integration", reason="needs the extra optuna")

from botorch.utils.multi_objective.hypervolume import Hypervolume  # noqa: E402
from botorch.utils.sampling import manual_seed  # noqa: E402

from sswim.integrations.optuna import suggest_candidates  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:BoTorchSampler is experimental")
N_INITIAL = 5
UNIT_SQUARE = torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double()


def run_trials(
    objective: Callable[[Any, float, float], Any], n_trials: int, n_objectives: int = 1
) -> Any:
    sampler = integration.BoTorchSampler(
        candidates_func=suggest_candidates,
        n_startup_trials=N_INITIAL,
        consider_running_trials=True,
        seed=0,
    )
    study = optuna.create_study(directions=["minimize"] * n_objectives, sampler=sampler)

    def value(trial: Any) -> Any:
        return objective(trial, trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1))

    study.optimize(value, n_trials)
    return study


def test_few_trials_find_more_than_random_search() -> None:
    study = run_trials(lambda trial, x, y: funnel(x, y), n_trials=12)
    assert study.best_value < lucky_random_search(funnel, 12)


def two_losses(x: float, y: float) -> tuple[float, float]:
    return 100 * (x**2 + y), (x - 1) ** 2 + y


def dominated(losses: list[tuple[float, float]]) -> float:
    scaled = -torch.tensor(losses).double() / torch.tensor([100.0, 1.0])
    return float(Hypervolume(torch.full((2,), -1.2).double()).compute(scaled))


def test_two_objectives_dominate_more_than_random_search() -> None:
    study = run_trials(lambda trial, x, y: two_losses(x, y), n_trials=9, n_objectives=2)
    searches = np.random.default_rng(0).uniform(size=(100, 9, 2))
    random = [dominated([two_losses(*point) for point in search]) for search in searches]
    assert dominated([trial.values for trial in study.trials]) > np.quantile(random, 0.75)


def test_constraint_that_no_first_trial_meets() -> None:
    def objective(trial: Any, x: float, y: float) -> float:
        trial.set_constraint("sum", 1e-4 * (1.7 - x - y))
        return x**2 + y**2

    trials = run_trials(objective, n_trials=9).trials
    feasible = [trial.number for trial in trials if trial.constraints["sum"] <= 0]
    assert feasible[0] >= N_INITIAL
    lowest = 1.7**2 / 2
    assert min(trials[number].value for number in feasible) < lowest + 0.15


def test_pending_trials_are_not_suggested_again(generator: torch.Generator) -> None:
    x = torch.rand(6, 2, generator=generator).double()
    values = -(x - 0.5).square().sum(-1, keepdim=True)
    with manual_seed(0):
        alone = suggest_candidates(x, values, None, UNIT_SQUARE, UNIT_SQUARE[:0])
        beside = suggest_candidates(x, values, None, UNIT_SQUARE, alone)
    assert (beside - alone).norm() > 0.05


@pytest.mark.filterwarnings("ignore:Optimization failed")  # nothing is left to be gained
def test_a_known_optimum_is_not_tried_again() -> None:
    axis = torch.linspace(0, 1, 5).double()
    x = torch.cartesian_prod(axis, axis)
    values = -(x - 0.5).square().sum(-1, keepdim=True)  # its maximum is among the trials
    for _ in range(2):
        with manual_seed(0):
            suggested = suggest_candidates(x, values, None, UNIT_SQUARE, UNIT_SQUARE[:0])
        assert (suggested - x).abs().amax(-1).min() > 1e-5
        x = torch.cat((x, suggested))
        values = -(x - 0.5).square().sum(-1, keepdim=True)


def test_first_suggestions_lie_within_the_bounds() -> None:
    bounds = torch.tensor([[3.0, -1e3], [4.0, 1e3]]).double()
    empty = bounds[:0]
    with manual_seed(0):
        suggested = suggest_candidates(empty, empty[:, :1], None, bounds, bounds)
    assert suggested.shape == (1, 2)
    assert ((bounds[0] <= suggested) & (suggested <= bounds[1])).all()
