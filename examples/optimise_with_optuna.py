"""Minimise an expensive function by Optuna, with SSWIM as the surrogate.

Run ``python examples/optimise_with_optuna.py``. It takes about half a minute. The function has a
narrow funnel at the bottom of a gentle valley, so no single length scale suits it. It needs the
extra ``sswim[optuna]``.
"""

from __future__ import annotations

import math

import optuna
from optuna_integration import BoTorchSampler
from rich.console import Console

from sswim.integrations.optuna import suggest_candidates

N_INITIAL, N_TRIALS = 6, 20


def loss(x: float, y: float) -> float:
    """Return what is minimised; no value is below −3."""
    valley = 0.5 + 0.3 * math.sin(5 * x)
    return math.log10(0.001 + (x - 0.8) ** 2 + (y - valley) ** 2)


def objective(trial: optuna.Trial) -> float:
    """Return the loss of a trial."""
    return loss(trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1))


def optimise(n_trials: int = N_TRIALS) -> optuna.Study:
    """Run trials, and return the study of them."""
    sampler = BoTorchSampler(candidates_func=suggest_candidates, n_startup_trials=N_INITIAL, seed=0)
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials)
    return study


def describe(study: optuna.Study) -> str:
    """Say which trial was the best."""
    best = study.best_trial
    x, y = best.params["x"], best.params["y"]
    return f"Trial {best.number}: a loss of {best.value:.2f} at x={x:.3f}, y={y:.3f}"


def main() -> None:
    """Run the trials and print the best."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    Console().print(describe(optimise()), highlight=False)


if __name__ == "__main__":
    main()
