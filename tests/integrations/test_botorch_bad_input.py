"""Rows that a model of BoTorch can hardly be fitted to, and rows that it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("botorch", reason="needs the extra botorch")

from botorch.models.transforms.outcome import Log
from builders.botorch_models import hill, quick_hill, quick_model, quick_pair, rows
from builders.models import normal
from builders.surrogates import uniform

from sswim.base.validation import UserError
from sswim.integrations.botorch import SSWIMModel, check_training_rows


def assert_finite(model: SSWIMModel, X: Tensor) -> None:
    """Assert that moments, samples, functions and their gradients are finite."""
    X = X.detach().clone().requires_grad_()
    posterior = model.posterior(X)
    base = torch.ones(2, *posterior.base_sample_shape, dtype=X.dtype)
    samples = posterior.rsample_from_base_samples(torch.Size([2]), base)
    paths = model.draw_paths(2, torch.Generator().manual_seed(0))(X)
    values = (posterior.mean, posterior.variance, samples, paths)
    assert all(value.isfinite().all() for value in values)
    assert (posterior.variance >= 0).all()
    torch.stack([value.sum() for value in values]).sum().backward()
    assert X.grad is not None
    assert X.grad.isfinite().all()


@pytest.mark.parametrize("distance", [2.0, 1e3, 1e8])
def test_points_outside_the_rows(distance: float) -> None:
    near, far = quick_hill().posterior(rows()), torch.full((2, 2), distance).double()
    for X in (far, -far):
        assert_finite(quick_hill(), X)
        assert (quick_hill().posterior(X).variance > near.variance.max()).all()


@pytest.mark.parametrize("value", [0.0, -1e9, 1e100])
def test_constant_targets(value: float, generator: torch.Generator) -> None:
    model = quick_model(rows(), torch.full((len(rows()), 1), value, dtype=torch.float64))
    X = uniform(generator, 4, 2)
    assert_finite(model, X)
    expected = torch.full((4, 1), value, dtype=torch.float64)
    assert torch.allclose(model.posterior(X).mean, expected, atol=1e-6)


@pytest.mark.parametrize(("n", "known"), [(1, False), (1, True), (2, False), (7, True), (8, False)])
def test_few_rows(n: int, known: bool, generator: torch.Generator) -> None:
    X, Y = uniform(generator, n, 3), normal(generator, n, 1)
    model = quick_model(X, Y, torch.full_like(Y, 1e-6) if known else None)
    assert_finite(model, uniform(generator, 4, 3))
    assert torch.allclose(model.posterior(X).mean, Y, atol=0.3)


def test_equal_rows_with_different_targets(generator: torch.Generator) -> None:
    X = uniform(generator, 5, 2).repeat(4, 1)
    Y = normal(generator, 20, 1)
    for model in (quick_model(X, Y), quick_model(X, Y, torch.zeros_like(Y))):
        assert_finite(model, uniform(generator, 4, 2))
        assert torch.allclose(model.posterior(X[:5]).mean, Y.reshape(4, 5, 1).mean(0), atol=0.3)


@pytest.mark.parametrize("name", ["constant input", "outlier", "huge noise"])
def test_awkward_rows(name: str, generator: torch.Generator) -> None:
    X, Y, variance = rows(), hill(rows()), None
    if name == "constant input":
        X = torch.cat((X, torch.full((len(X), 1), 0.7).double()), dim=1)
    elif name == "outlier":
        Y[3] = -1e6  # a failed trial
    else:
        variance = torch.full_like(Y, 1e12)
        variance[::2] = 1e-12
    assert_finite(quick_model(X, Y, variance), uniform(generator, 4, X.shape[1]))


@pytest.mark.parametrize(("units", "scale"), [(1e-6, 1e-150), (1e6, 1e150)])
def test_extreme_units(units: float, scale: float, generator: torch.Generator) -> None:
    model = quick_model(units * (rows() - 0.3), hill(rows()))  # not in the unit cube
    assert torch.allclose(model.posterior(units * (rows() - 0.3)).mean, hill(rows()), atol=0.1)
    X = uniform(generator, 4, 2)
    assert_finite(model, units * X)
    model = quick_model(rows(), scale * hill(rows()))
    assert_finite(model, X)
    expected = quick_hill().posterior(X).mean
    assert torch.allclose(model.posterior(X).mean / scale, expected, atol=1e-4)


def bad(tensor: Tensor, value: float) -> Tensor:
    tensor = tensor.clone()
    tensor[2, 0] = value
    return tensor


X, Y = rows(), hill(rows())
REFUSED: dict[str, tuple[tuple[Any, ...], str]] = {
    "nan in X": ((bad(X, torch.nan), Y), "X must be finite. Got 1 values"),
    "nan in Y": ((X, bad(Y, torch.nan)), "Y must be finite.*rows of failed trials"),
    "nan in Yvar": ((X, Y, bad(Y, torch.nan)), "variance of Y must be finite"),
    "integers in X": ((X.long(), Y), "X must have floating-point numbers. Got torch.int64"),
    "batched X": ((X.expand(2, -1, -1), Y), "train_X must have two axes.*one model for each"),
    "flat Y": ((X, Y[:, 0]), "train_Y must have two axes"),
    "too few targets": ((X, Y[:-1]), "the same rows, at least one. Got 14 and 13"),
    "no inputs": ((X[:, :0], Y), "at least one column. Got 0 and 1"),
    "negative Yvar": ((X, Y, bad(Y, -1.0)), "must not be negative. Got -1"),
    "other Yvar": ((X, Y, Y[:, 0]), r"the shape of train_Y, \(14, 1\). Got \(14,\)"),
    "large Y": ((X, 1e200 * Y), "at most 1e\\+154.*Multiply Y by a constant"),
    "small Y": ((X, 1e-200 * Y), "differ by at least 1e-154.*Multiply Y by a constant"),
    "large Y in single precision": ((X.float(), 1e25 * Y.float()), "at most 2e\\+19"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_rows_are_refused(name: str) -> None:
    arguments, message = REFUSED[name]
    with pytest.raises(UserError, match=message):
        SSWIMModel(*arguments)


def test_bad_points_and_observations_are_refused() -> None:
    with pytest.raises(UserError, match="Y must be finite"):  # after a transform
        SSWIMModel(X, Y - 0.5, outcome_transform=Log())
    model = quick_hill()
    for points in (X[:, :1], X[0]):
        with pytest.raises(UserError, match=r"the last of 2 inputs as train_X has. Got the shape"):
            model.posterior(points)
        with pytest.raises(UserError, match="the last of 2 inputs"):
            model.condition_on_observations(points, Y)
        with pytest.raises(UserError, match="the last of 2 inputs"):
            model.draw_paths(1, torch.Generator())(points)
    with pytest.raises(UserError, match=r"axes \(14, 2\).*Got the shape \(14, 1\)"):
        quick_pair().condition_on_observations(X, Y)
    with pytest.raises(UserError, match="must not be negative"):
        model.condition_on_observations(X, Y, noise=bad(Y, -1.0))
    with pytest.raises(UserError, match=r"tensor of PyTorch\. Got ndarray"):
        check_training_rows(X.numpy(), Y, None)
