from __future__ import annotations

import math
from typing import Any

import pytest
from builders.estimators import make_rows
from builders.models import unchecked

from sswim import SSWIMRegressor
from sswim.ensemble.plan import KINDS, Kind, Plan, Recipe, choose_size, make_plan
from sswim.estimator.settings import check_settings, make_fit_plan
from sswim.members.neighbour_training import MiniBatches
from sswim.members.objective import EVIDENCE, MAP
from sswim.members.training import Adam


def test_the_default_is_the_recipe() -> None:
    plan = make_fit_plan(SSWIMRegressor(), 1000, 5)
    assert plan == make_plan(Recipe(), choose_size(1000, 5))
    assert len(plan.kinds) == len(KINDS)
    assert plan.screening
    assert plan.cross_fitting
    assert plan.stacking
    assert plan.calibration
    assert plan.pruning
    assert plan.keeps_rows


def test_a_depth_is_one_model_on_all_rows() -> None:
    plan = make_fit_plan(SSWIMRegressor(depth=2), 1000, 5)
    [kind] = plan.kinds
    assert kind.architecture.depth == 2
    assert kind.architecture.n_frequencies == 256
    assert kind.architecture.output_warp == "none"
    assert kind.objective == MAP
    assert kind.optimiser == Adam()
    assert plan.total_members == 1
    assert not plan.cross_fitting
    assert not plan.screening
    assert not plan.keeps_rows


def test_one_model_may_predict_by_neighbours() -> None:
    plan = make_fit_plan(SSWIMRegressor(depth=1, n_neighbors=32, max_iter=9), 1000, 5)
    [kind] = plan.kinds
    assert kind.by_neighbours
    assert kind.architecture.n_neighbors == 32
    assert kind.optimiser == MiniBatches(steps=9)
    assert plan.precision == "float32"
    assert plan.keeps_rows


def trained(plan: Plan) -> list[Kind]:
    return [kind for kind in plan.kinds if not kind.is_mean]


def by_features(plan: Plan) -> list[Kind]:
    return [kind for kind in trained(plan) if not kind.by_neighbours]


@pytest.mark.parametrize(
    ("settings", "name", "expected"),
    [
        ({"kernel": "matern12"}, "kernel", "matern12"),
        ({"inputs": "standardised"}, "inputs", "standardised"),
        ({"warps": "separate"}, "warps", "separate"),
        ({"output_warp": "tanh"}, "output_warp", "tanh"),
        ({"n_output_terms": 3}, "n_output_terms", 3),
        ({"noise": "constant"}, "noise", "constant"),
    ],
)
def test_an_argument_changes_its_part_of_every_kind_that_is_trained(
    settings: dict[str, Any], name: str, expected: object
) -> None:
    usual, plan = (make_fit_plan(SSWIMRegressor(**each), 1000, 5) for each in ({}, settings))
    assert {getattr(kind.architecture, name) for kind in trained(plan)} == {expected}
    assert plan.kinds[0].is_mean
    assert plan.kinds[0] == usual.kinds[0]
    assert len(plan.kinds) == len(KINDS)


@pytest.mark.parametrize(
    ("settings", "name", "expected"),
    [
        ({"n_pseudo": 7}, "n_pseudo", 7),
        ({"n_components": 20}, "n_frequencies", 10),
        ({"n_components": 19}, "n_frequencies", 10),
        ({"n_components": 20}, "n_warp_frequencies", 5),
    ],
)
def test_sizes_are_those_of_the_kinds_that_predict_by_features(
    settings: dict[str, Any], name: str, expected: object
) -> None:
    usual, plan = (make_fit_plan(SSWIMRegressor(**each), 1000, 5) for each in ({}, settings))
    assert {getattr(kind.architecture, name) for kind in by_features(plan)} == {expected}
    for ours, theirs in zip(plan.kinds, usual.kinds, strict=True):
        assert not ours.by_neighbours or ours == theirs


def test_training_can_be_changed() -> None:
    regressor = SSWIMRegressor(
        n_members=5, max_iter=7, learning_rate=0.5, length_scale=2.0, objective="evidence"
    )
    plan = make_fit_plan(regressor, 1000, 5)
    assert [kind.n_members for kind in plan.kinds] == [1, 5, 5, 1, 1, 5]
    assert {kind.optimiser.steps for kind in trained(plan)} == {7}
    assert {kind.optimiser.learning_rate for kind in trained(plan)} == {0.5}
    assert plan.length_scale == 2.0
    assert not plan.screening
    assert {kind.objective for kind in trained(plan)} == {EVIDENCE}


def test_rows_may_grow_for_the_kinds_that_predict_by_features() -> None:
    plan = make_fit_plan(SSWIMRegressor(growing=True), 1000, 5)
    for kind in by_features(plan):
        assert isinstance(kind.optimiser, Adam)
        assert kind.optimiser.growing


def test_one_member_of_each_kind() -> None:
    plan = make_fit_plan(SSWIMRegressor(n_members=1), 100, 5)
    assert {kind.n_members for kind in plan.kinds} == {1}


def test_a_recipe_of_ones_own() -> None:
    recipe = Recipe(kinds=("features-1", "neighbours-1"), cross_fitting=False)
    plan = make_fit_plan(SSWIMRegressor(recipe=recipe), 1000, 5)
    assert [kind.by_neighbours for kind in plan.kinds] == [False, True]
    assert not plan.cross_fitting


def test_a_recipe_and_a_depth_are_refused() -> None:
    with pytest.raises(ValueError, match="A recipe has its own depths"):
        check_settings(SSWIMRegressor(depth=1, recipe=Recipe()))


def test_targets_with_many_ties_are_not_warped() -> None:
    plan = make_fit_plan(SSWIMRegressor(), 1000, 5, tied=True)
    assert {kind.architecture.output_warp for kind in plan.kinds} == {"none"}
    asked = make_fit_plan(SSWIMRegressor(output_warp="tanh"), 1000, 5, tied=True)
    assert {kind.architecture.output_warp for kind in trained(asked)} == {"tanh"}


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
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"learning_rate": math.nan}, "learning_rate must be positive and finite.* Got nan"),
        ({"length_scale": -1.0}, "length_scale must be positive"),
        ({"length_scale": math.inf}, "length_scale must be positive and finite.* Got inf"),
        ({"device": "gpu"}, 'device must be "auto" or a device that this machine has'),
        ({"dtype": "float16"}, "dtype must be one of"),
        ({"warps": "tied"}, r"warps must be one of .*'joint'.* Got 'tied'"),
        ({"growing": "no"}, "growing must be True or False. Got 'no'"),
        ({"n_neighbors": 8}, 'Got n_neighbors=8 with depth="auto"'),
        ({"n_neighbors": 8, "depth": 1, "growing": True}, "Got n_neighbors as well"),
        ({"n_neighbors": -1}, "n_neighbors must be an integer of at least 0"),
    ],
)
def test_bad_settings_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        unchecked(SSWIMRegressor, **change).fit(*make_rows(20))
