from __future__ import annotations

import pytest

from sswim.recipe.plan import make_plan
from sswim.recipe.recipe import Recipe, choose_size


def test_every_depth_has_two_kinds_that_differ() -> None:
    plan = make_plan(Recipe(), choose_size(1000, 5))
    assert [kind.architecture.depth for kind in plan.kinds] == [0, 0, 1, 1, 2, 2]
    for first, second in zip(plan.kinds[::2], plan.kinds[1::2], strict=True):
        ours, theirs = first.architecture, second.architecture
        assert ours.kernel != theirs.kernel
        assert ours.inputs != theirs.inputs
        assert ours.pseudo_prior != theirs.pseudo_prior
    assert plan.total_members == 6 * plan.n_members


def test_a_prior_that_is_whitened_counts_more() -> None:
    for kind in make_plan(Recipe(), choose_size(1000, 5)).kinds:
        whitened = kind.architecture.pseudo_prior == "whitened"
        assert (kind.objective.prior_weight > 1) == whitened


@pytest.mark.parametrize(
    ("recipe", "name", "expected"),
    [
        (Recipe(depths=(1,)), "depth", {1}),
        (Recipe(kernels=("rbf",)), "kernel", {"rbf"}),
        (Recipe(normal_scores=False), "inputs", {"standardised"}),
        (Recipe(whitening=False), "pseudo_prior", {"evidence"}),
        (Recipe(linear=False), "linear", {False}),
        (Recipe(output_warp="none"), "output_warp", {"none"}),
    ],
)
def test_an_ingredient_can_be_left_out(recipe: Recipe, name: str, expected: set[object]) -> None:
    plan = make_plan(recipe, choose_size(1000, 5))
    assert {getattr(kind.architecture, name) for kind in plan.kinds} == expected


def test_the_size_of_the_data_decides_how_much_is_trained() -> None:
    size = choose_size(1000, 5)
    plan = make_plan(Recipe(), size)
    assert plan.n_members == size.n_members
    assert plan.optimiser.steps == size.steps
    assert plan.n_more == size.n_more
    assert {kind.architecture.n_frequencies for kind in plan.kinds} == {size.n_frequencies}
    assert {kind.architecture.n_pseudo for kind in plan.kinds} == {size.n_pseudo}


def test_steps_after_and_before_training_can_be_left_out() -> None:
    recipe = Recipe(screening=False, enrichment=False, cross_fitting=False)
    plan = make_plan(recipe, choose_size(1000, 5))
    assert not plan.screening
    assert plan.precision == "float64"
    assert plan.n_more == 0
    assert not plan.cross_fitting
    assert make_plan(Recipe(), choose_size(1000, 5)).precision == "by noise"
