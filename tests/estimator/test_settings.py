from __future__ import annotations

from typing import Any

import pytest
from builders.estimators import make_rows
from builders.models import unchecked

from sswim import SSWIMRegressor
from sswim.estimator.settings import check_settings, make_fit_plan
from sswim.recipe.recipe import Recipe
from sswim.training.objective import EVIDENCE, MAP


def test_the_default_is_the_recipe() -> None:
    plan = make_fit_plan(SSWIMRegressor(), 1000, 5)
    assert len(plan.kinds) == 6
    assert plan.screening
    assert plan.cross_fitting
    assert plan.stacking
    assert plan.calibration


def test_a_depth_is_one_model_on_all_rows() -> None:
    plan = make_fit_plan(SSWIMRegressor(depth=2), 1000, 5)
    [kind] = plan.kinds
    assert kind.architecture.depth == 2
    assert kind.architecture.n_frequencies == 256
    assert kind.architecture.output_warp == "none"
    assert kind.objective == MAP
    assert plan.n_members == 1
    assert not plan.cross_fitting
    assert not plan.screening


@pytest.mark.parametrize(
    ("settings", "name", "expected"),
    [
        ({"kernel": "matern12"}, "kernel", "matern12"),
        ({"n_pseudo": 7}, "n_pseudo", 7),
        ({"n_components": 20}, "n_frequencies", 10),
        ({"n_components": 19}, "n_frequencies", 10),
        ({"n_components": 20}, "n_warp_frequencies", 5),
        ({"output_warp": "tanh"}, "output_warp", "tanh"),
        ({"n_output_terms": 3}, "n_output_terms", 3),
        ({"noise": "input-dependent"}, "noise", "input-dependent"),
    ],
)
def test_an_argument_changes_its_part_of_every_kind(
    settings: dict[str, Any], name: str, expected: object
) -> None:
    plan = make_fit_plan(SSWIMRegressor(**settings), 1000, 5)
    assert {getattr(kind.architecture, name) for kind in plan.kinds} == {expected}
    assert len(plan.kinds) == 6


def test_training_can_be_changed() -> None:
    regressor = SSWIMRegressor(
        n_members=5, max_iter=7, learning_rate=0.5, length_scale=2.0, objective="evidence"
    )
    plan = make_fit_plan(regressor, 1000, 5)
    assert plan.n_members == 5
    assert plan.optimiser.steps == 7
    assert plan.optimiser.learning_rate == 0.5
    assert plan.length_scale == 2.0
    assert not plan.screening
    assert {kind.objective for kind in plan.kinds} == {EVIDENCE}


def test_a_recipe_of_ones_own() -> None:
    plan = make_fit_plan(SSWIMRegressor(recipe=Recipe(depths=(1,), cross_fitting=False)), 1000, 5)
    assert [kind.architecture.depth for kind in plan.kinds] == [1, 1]
    assert not plan.cross_fitting


def test_a_recipe_and_a_depth_are_refused() -> None:
    with pytest.raises(ValueError, match="A recipe has its own depths"):
        check_settings(SSWIMRegressor(depth=1, recipe=Recipe()))


def test_targets_with_many_ties_are_not_warped() -> None:
    plan = make_fit_plan(SSWIMRegressor(), 1000, 5, tied=True)
    assert {kind.architecture.output_warp for kind in plan.kinds} == {"none"}
    asked = make_fit_plan(SSWIMRegressor(output_warp="tanh"), 1000, 5, tied=True)
    assert {kind.architecture.output_warp for kind in asked.kinds} == {"tanh"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"depth": -1}, "depth must be an integer of at least 0. Got -1"),
        ({"depth": 1.5}, "depth must be an integer"),
        ({"depth": True}, "depth must be an integer"),
        ({"n_components": 0}, "n_components must be an integer of at least 1"),
        ({"n_pseudo": 0}, "at least 1"),
        ({"n_members": 0}, "at least 1"),
        ({"max_iter": -1}, "at least 0"),
        ({"kernel": "cosine"}, "kernel must be one of"),
        ({"objective": "aic"}, "objective must be one of"),
        ({"output_warp": "log"}, r"output_warp must be one of .*'tanh'.* Got 'log'"),
        ({"output_warp": None}, r"output_warp must be one of .*'none'.* Got None"),
        ({"noise": "none"}, r"noise must be one of .*'input-dependent'.* Got 'none'"),
        ({"n_output_terms": 0}, "n_output_terms must be an integer of at least 1. Got 0"),
        ({"n_output_terms": 2.0}, "n_output_terms must be an integer"),
        ({"n_output_terms": True}, "n_output_terms must be an integer"),
        ({"learning_rate": 0.0}, "learning_rate and noise_rate positive"),
        ({"length_scale": -1.0}, "length_scale must be positive"),
        ({"dtype": "float16"}, "dtype must be one of"),
        ({"warps": "tied"}, r"warps must be one of .*'joint'.* Got 'tied'"),
        ({"growing": "no"}, "growing must be True or False. Got 'no'"),
    ],
)
def test_bad_settings_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        unchecked(SSWIMRegressor, **change).fit(*make_rows(20))
