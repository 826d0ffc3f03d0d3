"""Minimise an expensive function by Ax, with SSWIM as the surrogate.

Run ``python examples/optimise_with_ax.py``. It takes about half a minute. The function has a
narrow funnel at the bottom of a gentle valley, so no single length scale suits it. It needs the
extra ``sswim[ax]``.
"""

from __future__ import annotations

import logging
import math

from ax import Client, RangeParameterConfig
from ax.utils.common.logger import set_ax_logger_levels
from rich.console import Console

from sswim.integrations.ax import generation_strategy

N_INITIAL, N_TRIALS = 6, 20


def loss(x: float, y: float) -> float:
    """Return what is minimised; no value is below −3."""
    valley = 0.5 + 0.3 * math.sin(5 * x)
    return math.log10(0.001 + (x - 0.8) ** 2 + (y - valley) ** 2)


def optimise(n_trials: int = N_TRIALS) -> Client:
    """Run trials, and return the client that has asked for them."""
    client = Client(random_seed=0)
    client.configure_experiment(
        [RangeParameterConfig(name, bounds=(0, 1), parameter_type="float") for name in "xy"]
    )
    client.configure_optimization(objective="-loss")
    client.set_generation_strategy(
        generation_strategy(initialization_budget=N_INITIAL, initialization_random_seed=0)
    )
    for _ in range(n_trials):
        for index, parameters in client.get_next_trials(max_trials=1).items():
            client.complete_trial(index, {"loss": loss(**parameters)})
    return client


def describe(client: Client) -> str:
    """Say which trial was the best."""
    best, values, trial, _ = client.get_best_parameterization(use_model_predictions=False)
    return (
        f"Trial {trial}: a loss of {values['loss'][0]:.2f} at x={best['x']:.3f}, y={best['y']:.3f}"
    )


def main() -> None:
    """Run the trials and print the best."""
    set_ax_logger_levels(logging.WARNING)
    Console().print(describe(optimise()), highlight=False)


if __name__ == "__main__":
    main()
