"""The tests check the shapes in the types, in the first calls of every function."""

from __future__ import annotations

from typing import Any

import jaxtyping
import pytest
import torch
from beartype import beartype
from jaxtyping import Float
from torch import Tensor

from conftest import CHECKED_CALLS
from sswim.rows import full_covariance

MEAN, VARIANCE = torch.zeros(3, 2), torch.ones(4, 5, 6)


@pytest.mark.parametrize("first", [True, False])
def test_every_test_checks_the_first_calls(first: bool) -> None:
    with pytest.raises(jaxtyping.TypeCheckError):
        full_covariance(MEAN, VARIANCE)
    for _ in range(CHECKED_CALLS - 1):
        assert full_covariance(MEAN, torch.ones(3, 2)).shape == (3, 2, 2)
    assert full_covariance(MEAN, VARIANCE) is VARIANCE


def test_an_inner_function_is_checked_whenever_it_is_made() -> None:
    def make(scale: float) -> Any:
        @jaxtyping.jaxtyped(typechecker=beartype)
        def scaled(a: Float[Tensor, " n"], b: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
            """Return a product."""
            return scale * a * b

        return scaled

    first, second = make(1.0), make(2.0)
    assert first.__name__ == second.__name__ == "scaled"
    assert first(torch.ones(2), torch.ones(2)).tolist() == [1.0, 1.0]
    assert second(torch.ones(3), b=torch.ones(3)).tolist() == [2.0, 2.0, 2.0]
    for function in (first, second):
        with pytest.raises(jaxtyping.TypeCheckError, match="scaled"):
            function(torch.ones(2), torch.ones(3))
