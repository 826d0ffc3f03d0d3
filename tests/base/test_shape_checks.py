"""The tests check the shapes in the types, in the first calls of every function."""

from __future__ import annotations

import jaxtyping
import pytest
import torch
from conftest import CHECKED_CALLS

from sswim.rows.measure import full_covariance

MEAN, VARIANCE = torch.zeros(3, 2), torch.ones(4, 5, 6)


def test_a_wrong_shape_is_an_error() -> None:
    with pytest.raises(jaxtyping.TypeCheckError):
        full_covariance(MEAN, VARIANCE)


@pytest.mark.parametrize("first", [True, False])
def test_every_test_checks_the_first_calls(first: bool) -> None:
    for _ in range(CHECKED_CALLS):
        assert full_covariance(MEAN, torch.ones(3, 2)).shape == (3, 2, 2)
    assert full_covariance(MEAN, VARIANCE) is VARIANCE
