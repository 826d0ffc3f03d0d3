"""The random forest of SMAC, with the expected improvement."""

from __future__ import annotations

import tempfile
from pathlib import Path

import joblib
import numpy as np
from ConfigSpace import Configuration, ConfigurationSpace, Float
from jaxtyping import Float64
from smac import HyperparameterOptimizationFacade, Scenario
from smac.model.random_forest import RandomForest
from smac.runhistory.dataclasses import TrialInfo, TrialValue

MANY_TRIALS = 1_000_000
"""No limit of trials: the benchmark counts them."""


def small_forest(scenario: Scenario, n_rows: int) -> RandomForest:
    """Return the facade's forest, with room for no more leaves than trees of some rows can have.

    The trees are the same. By default each takes memory for 2²⁰ leaves, which costs more than
    the rest of a suggestion.
    """
    return RandomForest(
        scenario.configspace,
        ratio_features=1.0,
        log_y=True,
        seed=scenario.seed,
        n_trees=10,
        min_samples_split=2,
        min_samples_leaf=1,
        max_leaf_nodes=n_rows + 1,
    )


def suggest_by_forest(
    x: Float64[np.ndarray, "N D"], costs: Float64[np.ndarray, " N"], seed: int
) -> Float64[np.ndarray, " D"]:
    """Return the point that SMAC's facade for hyper-parameters asks for, with its defaults.

    It is told all costs so far, and has no initial design of its own. The model is fitted before
    every suggestion, as by the other methods, rather than before every eighth.

    SMAC iterates over sets, so that suggestions depend on ``PYTHONHASHSEED`` too.
    """
    facade = HyperparameterOptimizationFacade
    names = [f"x{position:02d}" for position in range(x.shape[1])]
    space = ConfigurationSpace(seed=seed)
    space.add([Float(name, (0.0, 1.0)) for name in names])
    with (
        tempfile.TemporaryDirectory() as folder,
        joblib.parallel_config(backend="sequential"),  # its threads wait for each other
    ):
        scenario = Scenario(
            space,
            n_trials=MANY_TRIALS,
            seed=seed,
            deterministic=True,
            output_directory=Path(folder),
        )
        optimiser = facade(
            scenario,
            model=small_forest(scenario, len(x)),
            initial_design=facade.get_initial_design(scenario, n_configs=0),
            intensifier=facade.get_intensifier(scenario, max_config_calls=1),
            config_selector=facade.get_config_selector(scenario, retrain_after=1),
            logging_level=False,
            overwrite=True,
        )
        for point, cost in zip(x, costs, strict=True):
            values = dict(zip(names, map(float, point), strict=True))
            trial = TrialInfo(Configuration(space, values=values), seed=0)
            optimiser.tell(trial, TrialValue(cost=float(cost)), save=False)
        asked = optimiser.ask().config
    return np.array([asked[name] for name in names])
