from __future__ import annotations

import json
from dataclasses import asdict

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


def test_more_rows_allow_for_more() -> None:
    sizes = [choose_size(n, 5) for n in (2, 100, 700, 1000, 3000, 10_000, 1_000_000)]
    frequencies = [size.n_frequencies for size in sizes]
    assert frequencies == sorted(frequencies)
    assert frequencies[0] == 32
    assert frequencies[-1] == 256
    assert all(size.n_warp_frequencies <= size.n_frequencies for size in sizes)
    assert choose_size(1000, 1).n_more > choose_size(1000, 10).n_more


def test_a_recipe_survives_json() -> None:
    recipe = Recipe(depths=(0, 2), kernels=("rbf",), normal_scores=False)
    assert Recipe.from_dict(json.loads(json.dumps(asdict(recipe)))) == recipe
