from __future__ import annotations

import sys

import pytest
import torch
from search_checks import TABLES, assert_nearest

from sswim.base.validation import UserError
from sswim.search.search import FaissSearch


@pytest.mark.parametrize("k", [1, 40])
@pytest.mark.parametrize("name", TABLES)
def test_nearest_points_are_those_of_brute_force(name: str, k: int) -> None:
    pytest.importorskip("faiss")
    points, queries = TABLES[name]
    assert_nearest(FaissSearch(points), points, queries, k)


def test_neighbours_must_be_no_more_than_points() -> None:
    pytest.importorskip("faiss")
    search = FaissSearch(torch.zeros(3, 2))
    assert search.n_points == 3
    with pytest.raises(ValueError, match="Got k=4 and 3 points"):
        search.nearest(torch.zeros(1, 2), 4)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(UserError, match="needs the package faiss-cpu"):
        FaissSearch(torch.zeros(3, 2))
