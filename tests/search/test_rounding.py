from __future__ import annotations

import pytest
import torch

from sswim.search import largest_product, point_factors, query_factors


@pytest.mark.parametrize("n_inputs", [1, 10, 300])
@pytest.mark.parametrize("shift", [0.0, 100.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bounds_contain_products(n_inputs: int, shift: float, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    points, queries = torch.randn(2, 400, n_inputs, dtype=torch.float64, generator=generator)
    points, queries = points + shift, queries + shift
    centre = torch.zeros(n_inputs, dtype=torch.float64)
    products = query_factors(queries, dtype) @ point_factors(points, centre, dtype).mT
    squared = (queries[:, None] - points).square().sum(-1)
    squares = queries.square().sum(-1)
    rounding = 1e-14 * squared.max()  # of the reference
    for column in range(len(points)):
        true, product = squared[:, column], products[:, column]
        limit = largest_product(true, squares, n_inputs, dtype)
        assert bool((product.double() <= limit + rounding).all())
