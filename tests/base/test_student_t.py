from __future__ import annotations

import numpy as np
import pytest
import torch
from builders.models import normal
from scipy import stats
from torch import Tensor

from sswim.base import student_t


@pytest.fixture
def degrees(generator: torch.Generator) -> Tensor:
    """Degrees of freedom, of which rows share some."""
    degrees = 2.1 + 50 * torch.rand(30, 2, generator=generator, dtype=torch.float64)
    degrees[3] = degrees[4].flip(0)
    return degrees


def test_density_and_cdf_are_those_of_scipy(degrees: Tensor, generator: torch.Generator) -> None:
    values = 5 * normal(generator, 30, 2)
    density = student_t.log_density(values.square(), degrees)
    assert np.allclose(density, stats.t.logpdf(values, degrees), rtol=1e-12)
    cdf = student_t.cdf(values, degrees)
    assert np.allclose(cdf, stats.t.cdf(values, degrees), rtol=1e-10)
    leaves = values[:5].square().requires_grad_(), degrees[:5].requires_grad_()
    assert torch.autograd.gradcheck(student_t.log_density, leaves)


@pytest.mark.parametrize("value", [-30.0, -8.0, -1.3, -0.0, 0.0, 0.4, 8.0, 30.0])
def test_quantiles_have_the_probability_of_the_normal_value(value: float, degrees: Tensor) -> None:
    found = student_t.from_normal(torch.tensor([value], dtype=torch.float64), degrees)[0]
    # In the lower tail, where probabilities are not rounded.
    ours = stats.t.logcdf(-found.abs(), degrees)
    assert np.allclose(ours, stats.norm.logcdf(-abs(value)), rtol=1e-8)
    assert (found.sign() == np.sign(value)).all()
