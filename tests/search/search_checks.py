"""Points, queries and the brute-force reference for tests of searches."""

from __future__ import annotations

import torch
from torch import Tensor

from sswim.search import Search


def tables() -> dict[str, tuple[Tensor, Tensor]]:
    """Return points and queries of many kinds, by name."""
    generator = torch.Generator().manual_seed(7)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=torch.float64, generator=generator)

    def split(rows: Tensor, n_queries: int = 100) -> tuple[Tensor, Tensor]:
        return rows[n_queries:], rows[:n_queries]

    clusters = 1e4 * draw(5, 4).repeat(260, 1) + draw(1300, 4)
    constant = draw(700, 3)
    constant[:, 1] = 4.0
    outlier = draw(900, 3)
    outlier[450] = 1e12
    return {
        "normal": split(draw(3000, 8)),
        "correlated": split(draw(3000, 2) @ draw(2, 12) + 1e-3 * draw(3000, 12)),
        "one dimension": split(draw(800, 1)),
        "far from zero": split(draw(800, 3) + 1e8),
        "clusters": split(clusters),
        "constant column": split(constant),
        "all equal": split(torch.ones(500, 2, dtype=torch.float64)),
        "few values": split(draw(2500, 5).round()),
        "outlier": split(outlier),
        "huge": split(draw(300, 3) * 1e30),
        "tiny": split(draw(300, 3) * 1e-30),
        "queries far away": (draw(1000, 4), 1e3 + draw(50, 4)),
        "queries are points": (points := draw(1000, 4), points[:200]),
        "one query": (draw(1000, 4), draw(1, 4)),
        "no query": (draw(100, 4), draw(0, 4)),
    }


TABLES = tables()


def brute_force(points: Tensor, queries: Tensor) -> Tensor:
    """Return all squared distances, by differences in float64."""
    return (queries[:, None].double() - points.double()).square().sum(-1)


def assert_nearest(search: Search, points: Tensor, queries: Tensor, k: int) -> None:
    """Check a search against all squared distances."""
    nearest = search.nearest(queries, k)
    squared = brute_force(points, queries)
    expected = squared.sort(dim=1).values[:, :k]
    assert nearest.indices.shape == nearest.squared.shape == (len(queries), k)
    assert nearest.squared.dtype == torch.float64
    assert bool((nearest.squared.diff(dim=1) >= 0).all())
    torch.testing.assert_close(nearest.squared, expected, rtol=1e-12, atol=0)
    # The points are those at these distances, and none comes twice.
    torch.testing.assert_close(squared.gather(1, nearest.indices), expected, rtol=1e-12, atol=0)
    assert all(len(row.unique()) == k for row in nearest.indices)
