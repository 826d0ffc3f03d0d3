"""Points that diverged: every search still finds points, and none that do not exist."""

from __future__ import annotations

import pytest
import torch

from sswim.search.search import Method, make_search


@pytest.mark.parametrize("method", ["tree", "blocks"])
@pytest.mark.parametrize("value", [1e300, torch.inf, torch.nan])
def test_points_at_infinite_distances_are_found(
    method: Method, value: float, generator: torch.Generator
) -> None:
    points = torch.randn(40, 2, dtype=torch.float64, generator=generator)
    queries = torch.cat((points[:3], torch.full((1, 2), value, dtype=torch.float64)))
    for each in (points, value * points):
        found = make_search(each, method).nearest(queries, 5).indices
        assert ((found >= 0) & (found < 40)).all()
