from __future__ import annotations

import pytest
import torch
from search_checks import TABLES, assert_nearest

from sswim.neighbours.block_search import BlockSearch
from sswim.neighbours.search import Method, make_search
from sswim.neighbours.tree_search import TreeSearch


@pytest.mark.parametrize("method", ["auto", "tree", "blocks", "faiss"])
def test_every_method_finds_the_same(method: Method) -> None:
    if method == "faiss":
        pytest.importorskip("faiss")
    points, queries = TABLES["normal"]
    assert_nearest(make_search(points, method), points, queries, 5)


@pytest.mark.parametrize(
    ("n_inputs", "kind"), [(1, TreeSearch), (3, TreeSearch), (20, BlockSearch)]
)
def test_few_dimensions_get_a_tree(n_inputs: int, kind: type) -> None:
    assert isinstance(make_search(torch.zeros(10_000, n_inputs)), kind)
