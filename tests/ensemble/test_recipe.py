from __future__ import annotations

import json

from sswim.ensemble import Recipe, choose_size
from sswim.files.records import from_json, to_json
from sswim.members.kinds import FEW_ROWS


def test_more_rows_allow_for_more() -> None:
    sizes = [choose_size(n, 5) for n in (2, 100, 700, 1000, 3000, 10_000, 1_000_000)]
    frequencies = [size.n_frequencies for size in sizes]
    assert frequencies == sorted(frequencies)
    assert frequencies[0] == 32
    assert frequencies[-1] == 256
    assert all(size.n_warp_frequencies <= size.n_frequencies for size in sizes)
    assert choose_size(1000, 1).n_more > choose_size(1000, 10).n_more


def test_stationary_kinds_have_several_members_for_few_rows_alone() -> None:
    few, more = (choose_size(n, 5) for n in (FEW_ROWS - 1, FEW_ROWS))
    assert few.n_stationary == few.n_members > 1
    assert more.n_stationary == 1


def test_a_recipe_survives_json() -> None:
    recipe = Recipe(kinds=("features-1", "neighbours-0-rough"), normal_scores=False, pruning=False)
    assert from_json(Recipe, json.loads(json.dumps(to_json(recipe))), "it") == recipe
