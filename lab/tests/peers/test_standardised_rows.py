"""Standardised training rows: to zero mean and unit spread, and back."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from lab_builders.peers import rows
from sswim_lab.peers.protocol import standardise


@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_standardising_and_its_inverse(dtype: torch.dtype, close: float) -> None:
    x, y = rows(100)
    training = standardise(x, y, "cpu", dtype)
    assert training.x.dtype == training.y.dtype == dtype
    assert torch.allclose(training.x.mean(0), torch.zeros(3, dtype=dtype), atol=close)
    spread = training.x.std(0, correction=0)
    assert torch.allclose(spread, torch.tensor([1.0, 1.0, 0.0], dtype=dtype), atol=close)
    assert torch.equal(training.inputs(x), training.x)
    gaussian = training.gaussian(training.y, torch.ones(100, dtype=dtype))
    assert np.allclose(gaussian.mean, y, atol=close * y.std())
    assert np.allclose(gaussian.variance, y.var())
    assert gaussian.mean.dtype == gaussian.variance.dtype == np.float64


def test_the_scaling_is_in_float64() -> None:
    x, y = rows(100)
    one, other = (standardise(x, y, "cpu", dtype) for dtype in (torch.float32, torch.float64))
    for value, reference in zip(one.scaling.tensors(), other.scaling.tensors(), strict=True):
        assert torch.equal(value, reference)
