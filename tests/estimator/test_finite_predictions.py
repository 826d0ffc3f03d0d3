from __future__ import annotations

import pytest
import torch

from sswim.base.cholesky import FactorisationError, cholesky
from sswim.base.validation import UserError
from sswim.estimator.inputs import finite, finite_algebra


def test_finite_predictions_are_returned() -> None:
    values = torch.zeros(2, 1, dtype=torch.float64)
    with finite_algebra():
        assert finite(values) is values


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_others_are_an_error_of_the_user(value: float) -> None:
    with pytest.raises(UserError, match=r"Predictions must be finite.*Fit it again"):
        finite(torch.tensor([[0.0], [value]], dtype=torch.float64))


def test_so_is_a_matrix_that_cannot_be_factorised() -> None:
    with pytest.raises(UserError, match=r"must be finite.*covariance") as raised, finite_algebra():
        cholesky(torch.full((2, 2), torch.nan, dtype=torch.float64), "covariance")
    assert isinstance(raised.value.__cause__, FactorisationError)
