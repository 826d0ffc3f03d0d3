from __future__ import annotations

import pytest

from sswim.ensemble import Recipe, choose_size, make_plan
from sswim.ensemble.plan import KINDS
from sswim.members import Adam, Kind
from sswim.members.kinds import FEW_ROWS
from sswim.members.neighbour_training import MiniBatches


def kinds_of(recipe: Recipe, n_rows: int = 1000) -> dict[str, Kind]:
    plan = make_plan(recipe, choose_size(n_rows, 5))
    return dict(zip(recipe.kinds, plan.kinds, strict=True))


def test_kinds_are_what_their_names_say() -> None:
    kinds = kinds_of(Recipe())
    assert [kind.name for kind in kinds.values()] == list(KINDS)
    for name, kind in kinds.items():
        assert kind.way == name.split("-")[0]
        assert kind.architecture.depth == int(name.split("-")[1] if "-" in name else 0)
        assert isinstance(kind.optimiser, MiniBatches if kind.way == "neighbours" else Adam)
    kernels = [kind.architecture.kernel for kind in kinds.values() if kind.way != "mean"]
    assert kernels == ["rbf", "matern32", "rbf", "matern12", "matern32"]
    warped = {name for name, kind in kinds.items() if kind.architecture.output_warp != "none"}
    assert warped == {"features-1", "features-2", "neighbours-1"}
    scored = {name for name, kind in kinds.items() if kind.architecture.inputs == "normal-scores"}
    assert scored == {"neighbours-0-rough", "neighbours-1"}


@pytest.mark.parametrize(
    ("n_rows", "expected"), [(200, 3), (FEW_ROWS - 1, 3), (FEW_ROWS, 1), (7000, 1)]
)
def test_kinds_without_random_draws_have_one_member_unless_rows_are_few(
    n_rows: int, expected: int
) -> None:
    size = choose_size(n_rows, 5)
    plan = make_plan(Recipe(), size)
    for name, kind in kinds_of(Recipe(), n_rows).items():
        stationary = name.startswith("neighbours-0")
        if kind.way != "mean":
            assert kind.n_members == (expected if stationary else size.n_members)
    assert plan.n_folds == size.n_members
    assert plan.total_members == 1 + 3 * size.n_members + 2 * expected


@pytest.mark.parametrize(
    ("recipe", "name", "expected"),
    [
        (Recipe(kinds=("features-1",)), "depth", {1}),
        (Recipe(kinds=("features-1", "features-2")), "n_neighbors", {0}),
        (Recipe(normal_scores=False), "inputs", {"standardised"}),
        (Recipe(local_amplitude=False, kinds=("neighbours-1",)), "local_amplitude", {False}),
        (Recipe(warps="separate"), "warps", {"separate"}),
        (Recipe(output_warp="none"), "output_warp", {"none"}),
        (Recipe(noise="constant"), "noise", {"constant"}),
    ],
)
def test_an_ingredient_can_be_left_out(recipe: Recipe, name: str, expected: set[object]) -> None:
    plan = make_plan(recipe, choose_size(1000, 5))
    assert {getattr(kind.architecture, name) for kind in plan.kinds} == expected


def test_the_size_of_the_data_decides_how_much_is_trained() -> None:
    size = choose_size(1000, 5)
    for kind in make_plan(Recipe(), size).kinds:
        steps = {"mean": 0, "neighbours": size.neighbour_steps, "features": size.steps}
        assert kind.optimiser.steps == steps[kind.way]
        assert kind.n_more == (size.n_more if kind.way == "features" else 0)
        if kind.way == "features":
            assert kind.architecture.n_frequencies == size.n_frequencies
            assert kind.architecture.n_pseudo == size.n_pseudo
    sizes = [choose_size(n, 5) for n in (2, 100, 700, 1000, 3000, 10_000, 1_000_000)]
    frequencies = [size.n_frequencies for size in sizes]
    assert frequencies == sorted(frequencies)
    assert (frequencies[0], frequencies[-1]) == (32, 256)
    assert all(size.n_warp_frequencies <= size.n_frequencies for size in sizes)
    assert choose_size(1000, 1).n_more > choose_size(1000, 10).n_more


@pytest.mark.parametrize("n_rows", [FEW_ROWS - 1, FEW_ROWS, 5000, 5001, 20_000])
def test_members_by_neighbours_are_smaller_unless_rows_are_few(n_rows: int) -> None:
    size, few = choose_size(n_rows, 5), n_rows < FEW_ROWS
    assert size.steps == (80 if few else 60 if n_rows <= 10_000 else 110)
    for kind in make_plan(Recipe(), size).kinds:
        if kind.way == "neighbours":
            assert isinstance(kind.optimiser, MiniBatches)
            assert kind.optimiser.n_neighbors == (32 if few else 24)
            assert kind.architecture.n_frequencies == (128 if n_rows <= 5000 else 64)
            assert kind.architecture.n_pseudo == (64 if n_rows <= 5000 else 32)


def test_steps_after_and_before_training_can_be_left_out() -> None:
    size = choose_size(1000, 5)
    recipe = Recipe(screening=False, enrichment=False, cross_fitting=False, pruning=False)
    plan = make_plan(recipe, size)
    assert not any((plan.screening, plan.cross_fitting, plan.pruning))
    assert plan.precision == "float64"
    assert {kind.n_more for kind in plan.kinds} == {0}
    assert make_plan(Recipe(), size).precision == "by noise"
    assert make_plan(Recipe(), size).pruning
