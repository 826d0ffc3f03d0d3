from __future__ import annotations

import math
from typing import Any

import pytest
from builders.estimators import make_rows
from builders.models import unchecked

from sswim import NeighbourGPRegressor, Recipe, SSWIMRegressor, WarpedGPRegressor
from sswim.ensemble.plan import KINDS, choose_size, make_plan
from sswim.estimator import make_estimator
from sswim.members import WAYS
from sswim.members.kinds import Kind, Plan
from sswim.members.objective import MAP
from sswim.members.training import Adam
from sswim.rows import MemorySource, as_rows, summarise


def make_fit_plan(n_rows: int = 60, n_inputs: int = 5, **settings: Any) -> Plan:
    """Return the plan of the estimator of these settings."""
    rows = as_rows(*make_rows(n_rows, n_inputs))
    return make_estimator(**settings)._plan(summarise(MemorySource(rows)))


def test_the_default_is_the_recipe() -> None:
    plan = make_fit_plan()
    assert plan == make_plan(Recipe(), choose_size(60, 5))
    assert len(plan.kinds) == len(KINDS)
    names = ("screening", "cross_fitting", "stacking", "correction", "pruning")
    assert all(getattr(plan, name) for name in names)
    assert any(WAYS[kind.way].needs_rows for kind in plan.kinds)


def test_one_model_by_features_is_trained_on_all_rows() -> None:
    plan = make_fit_plan(depth=2)
    [kind] = plan.kinds
    architecture = kind.architecture
    sizes = (architecture.depth, architecture.n_frequencies, architecture.output_warp)
    assert sizes == (2, 256, "none")
    assert kind.objective == MAP
    assert kind.optimiser == Adam()
    assert plan.total_members == 1
    assert not plan.cross_fitting
    assert not plan.screening
    assert not any(WAYS[kind.way].needs_rows for kind in plan.kinds)


def trained(plan: Plan) -> list[Kind]:
    return [kind for kind in plan.kinds if kind.way != "mean"]


def by_features(plan: Plan) -> list[Kind]:
    return [kind for kind in trained(plan) if kind.way != "neighbours"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kernel", "matern12"),
        ("inputs", "standardised"),
        ("warps", "separate"),
        ("output_warp", "tanh"),
        ("n_output_terms", 3),
        ("noise", "constant"),
    ],
)
def test_a_setting_changes_its_part_of_every_kind_that_is_trained(name: str, value: object) -> None:
    settings: dict[str, Any] = {name: value}
    usual, plan = make_fit_plan(), make_fit_plan(**settings)
    assert {getattr(kind.architecture, name) for kind in trained(plan)} == {value}
    assert plan.kinds[0].way == "mean"
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
    usual, plan = make_fit_plan(), make_fit_plan(**settings)
    assert {getattr(kind.architecture, name) for kind in by_features(plan)} == {expected}
    for ours, theirs in zip(plan.kinds, usual.kinds, strict=True):
        assert ours.way != "neighbours" or ours == theirs


def test_training_can_be_changed() -> None:
    plan = make_fit_plan(500, n_members=5, max_iter=7, learning_rate=0.5, length_scale=2.0)
    assert [kind.n_members for kind in plan.kinds] == [1, 5, 5, 1, 1, 5]
    assert {kind.optimiser.steps for kind in trained(plan)} == {7}
    assert {kind.optimiser.learning_rate for kind in trained(plan)} == {0.5}
    assert plan.length_scale == 2.0
    assert not plan.screening
    assert {kind.n_members for kind in make_fit_plan(n_members=1).kinds} == {1}


def test_targets_with_many_ties_are_not_warped() -> None:
    plan = SSWIMRegressor()._plan_sizes(1000, 5, tied=True)
    assert {kind.architecture.output_warp for kind in plan.kinds} == {"none"}
    asked = SSWIMRegressor(output_warp="tanh")._plan_sizes(1000, 5, tied=True)
    assert {kind.architecture.output_warp for kind in trained(asked)} == {"tanh"}


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        (SSWIMRegressor, "depth", "belongs to WarpedGPRegressor and NeighbourGPRegressor"),
        (SSWIMRegressor, "max_iter", r"Recipe, .* as in SSWIMRegressor\(recipe=Recipe\(max_iter"),
        (SSWIMRegressor, "growing", "belongs to WarpedGPRegressor"),
        (WarpedGPRegressor, "n_neighbors", "belongs to NeighbourGPRegressor"),
        (WarpedGPRegressor, "recipe", "belongs to SSWIMRegressor"),
        (NeighbourGPRegressor, "depht", "unexpected keyword argument"),
    ],
)
def test_a_setting_of_another_estimator_says_where_it_belongs(
    kind: Any, name: str, message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        kind(**{name: 1})


BAD: dict[Any, list[tuple[dict[str, Any], str]]] = {
    WarpedGPRegressor: [
        ({"depth": -1}, "depth must be an integer of at least 0. Got -1"),
        ({"depth": 1.5}, "depth must be an integer"),
        ({"depth": True}, "depth must be an integer"),
        ({"objective": "aic"}, "objective must be one of"),
        ({"n_output_terms": 0}, "n_output_terms must be an integer of at least 1. Got 0"),
        ({"learning_rate": math.nan}, "learning_rate must be positive and finite.* Got nan"),
        ({"length_scale": math.inf}, "length_scale must be positive and finite.* Got inf"),
        ({"dtype": "float16"}, "dtype must be one of"),
        ({"warps": "tied"}, r"warps must be one of .*'joint'.* Got 'tied'"),
        ({"growing": "no"}, "growing must be True or False. Got 'no'"),
        ({"warp_dim": 0}, "warp_dim must be an integer of at least 1"),
        ({"warp_matrix": "dense"}, "warp_matrix must be one of"),
        ({"warp_dim": 2}, "A diagonal matrix keeps the dimension"),
        ({"warp_matrix": "full", "depth": 0}, "A matrix belongs to a warp.*depth=0"),
    ],
    NeighbourGPRegressor: [
        ({"n_neighbors": 0}, "n_neighbors must be an integer of at least 1"),
        ({"local_amplitude": 1}, "local_amplitude must be True or False"),
    ],
    SSWIMRegressor: [
        ({"kernel": "cosine"}, "kernel must be one of"),
        ({"output_warp": "log"}, r"output_warp must be one of .*'tanh'.* Got 'log'"),
        ({"noise": "none"}, r"noise must be one of .*'input-dependent'.* Got 'none'"),
        ({"device": "gpu"}, 'device must be "auto" or a device that this machine has'),
        ({"recipe": "quick"}, "recipe must be a Recipe, or None for the default"),
        ({"recipe": unchecked(Recipe, kinds=("features-9",))}, "kinds must be one of"),
        ({"recipe": unchecked(Recipe, max_iter=-1)}, "max_iter must be an integer of at least 0"),
        ({"recipe": unchecked(Recipe, stacking="no")}, "stacking must be True or False"),
    ],
}
"""Settings that are refused, by estimator."""


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [(kind, *case) for kind, cases in BAD.items() for case in cases],
)
def test_bad_settings_are_named(kind: Any, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        unchecked(kind, **change).fit(*make_rows(20))
