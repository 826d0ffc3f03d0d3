from __future__ import annotations

import pytest
import torch

from sswim.conformal.scoring import NEAREST, input_distance
from sswim.rows.rows import Rows, as_rows


def draw(n: int, n_inputs: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, n_inputs, generator=generator, dtype=torch.float64)


def seen_rows(x: torch.Tensor) -> Rows:
    return as_rows(x, torch.zeros(len(x)))


@pytest.mark.parametrize("n_inputs", [1, 3, 20])
def test_the_distance_is_the_mean_of_the_nearest(n_inputs: int) -> None:
    x, seen = draw(40, n_inputs, 0), draw(300, n_inputs, 1)
    expected = torch.cdist(x, seen).topk(NEAREST, largest=False).values.mean(1) / n_inputs**0.5
    torch.testing.assert_close(input_distance(x, seen_rows(seen)), expected)
    found = input_distance(x.float(), seen_rows(seen))
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


def test_few_rows_are_all_nearest() -> None:
    x, seen = draw(4, 2, 0), draw(2, 2, 1)
    expected = torch.cdist(x, seen).mean(1) / 2**0.5
    torch.testing.assert_close(input_distance(x, seen_rows(seen)), expected)


def test_without_rows_it_is_the_distance_from_the_centre() -> None:
    x = torch.tensor([[3.0, -3.0], [0.0, 0.0]], dtype=torch.float64)
    assert input_distance(x, None).tolist() == [3.0, 0.0]


@pytest.mark.parametrize("n_inputs", [2, 20])
def test_wild_inputs_have_finite_distances_that_are_large(n_inputs: int) -> None:
    x = draw(3, n_inputs, 0)
    x[0, 0], x[1, 1] = 1e300, -1e9
    for seen in (None, seen_rows(draw(100, n_inputs, 1))):
        wild, far, usual = input_distance(x, seen).tolist()
        assert usual < 3
        assert 1e8 < far < wild < 1e101
