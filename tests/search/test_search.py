from __future__ import annotations

import pytest
import torch
from search_checks import TABLES, assert_nearest

from sswim.search.nearest import TreeSearch
from sswim.search.search import BlockSearch, Method, make_search


@pytest.mark.parametrize("method", ["auto", "tree", "blocks"])
def test_every_method_finds_the_same(method: Method) -> None:
    points, queries = TABLES["normal"]
    assert_nearest(make_search(points, method), points, queries, 5)


@pytest.mark.parametrize(
    ("n_points", "n_inputs", "kind"),
    [
        (10_000, 1, TreeSearch),
        (10_000, 8, TreeSearch),
        (10_000, 9, BlockSearch),
        (1_000, 12, TreeSearch),
        (1_000, 13, BlockSearch),
    ],
)
def test_few_dimensions_get_a_tree(n_points: int, n_inputs: int, kind: type) -> None:
    assert isinstance(make_search(torch.zeros(n_points, n_inputs)), kind)
