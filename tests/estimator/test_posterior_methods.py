from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from builders.estimators import make_rows, skewed_rows, small
from builders.models import unchecked
from sklearn.exceptions import NotFittedError
from torch import Tensor

from sswim.base.validation import UserError
from sswim.estimator import BaseRegressor

KINDS: dict[str, dict[str, Any]] = {
    "features": {},
    "stationary": {"depth": 0},
    "neighbours": {"n_neighbors": 8},
    "normal scores": {"inputs": "normal-scores"},
    "members": {"n_members": 2},
    "noise": {"noise": "input-dependent"},
    "single precision": {"dtype": "float32"},
}


def make_points(*shape: int) -> Tensor:
    random = np.random.default_rng(1)
    return torch.from_numpy(random.uniform(-2, 2, size=(*shape, 2)))


def quick(**changes: Any) -> BaseRegressor:
    return small(**{"max_iter": 2, "n_components": 16, **changes})


@pytest.fixture(scope="module")
def fitted() -> BaseRegressor:
    return quick(depth=0).fit(*make_rows())


@pytest.mark.parametrize("include_noise", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_it_agrees_with_predictions(kind: str, include_noise: bool) -> None:
    model = quick(**KINDS[kind]).fit(*make_rows())
    points = make_points(2, 3)
    found = model.posterior(points, include_noise=include_noise)
    assert found.mean.shape == (2, 3)
    assert found.covariance.shape == (2, 3, 3)
    assert not found.mean.requires_grad
    tolerance = 1e-5 if kind == "single precision" else 1e-9
    for number, some in enumerate(points):
        mean, std = model.predict(some, return_std=True, include_noise=include_noise)
        covariance = model.predict(some, return_cov=True, include_noise=include_noise)[1]
        assert np.allclose(found.mean[number], mean, rtol=tolerance)
        assert np.allclose(found.standard_deviation[number], std, rtol=10 * tolerance)
        assert np.allclose(found.covariance[number], covariance, rtol=1e-4, atol=10 * tolerance)


def test_several_targets_have_an_axis_and_output_warps_agree_up_to_quadrature() -> None:
    x, y = skewed_rows(60, n_targets=2)
    model = quick(output_warp="sinh-arcsinh").fit(x, y)
    points = make_points(4)
    found = model.posterior(points)
    assert found.mean.shape == found.variance.shape == (4, 2)
    assert found.covariance.shape == (2, 4, 4)
    for include_noise in (False, True):
        found = model.posterior(points, include_noise=include_noise)
        distribution = model.predict_distribution(points, include_noise=include_noise)
        assert torch.allclose(found.mean, distribution.mean, rtol=1e-9)
        assert torch.allclose(found.variance, distribution.observation_variance, rtol=1e-7)
    draws = model.sample_paths(3)(points[None])
    assert draws.shape == (3, 1, 4, 2)
    expected = model.sample_y(points, 3)
    assert np.allclose(draws[:, 0].permute(1, 2, 0), expected, rtol=1e-12)


@pytest.mark.parametrize("kind", ["features", "neighbours", "normal scores"])
def test_gradients_in_the_units_of_the_data(kind: str) -> None:
    x, y = make_rows(30)
    changes = {"n_neighbors": 30} if kind == "neighbours" else KINDS[kind]
    model = quick(**changes).fit(100 * x - 7, 1e3 * y)
    points = (100 * make_points(2) - 7).requires_grad_()
    paths = model.sample_paths(2)

    def values(X: Tensor) -> tuple[Tensor, ...]:
        found = model.posterior(X)
        return found.mean, found.standard_deviation, paths(X)

    assert torch.autograd.gradcheck(values, points, eps=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(1,), (5,), (2, 1), (2, 3, 4), (0, 2), (2, 0), (0,)])
def test_shapes(fitted: BaseRegressor, shape: tuple[int, ...]) -> None:
    *batch, q = shape
    points = make_points(*shape).requires_grad_()
    found = fitted.posterior(points)
    assert found.mean.shape == found.variance.shape == found.standard_deviation.shape == shape
    assert found.covariance.shape == (*batch, q, q)
    draws = fitted.sample_paths(3)(points)
    assert draws.shape == (3, *shape)
    (draws.sum() + found.mean.sum()).backward()
    assert points.grad is not None
    assert points.grad.isfinite().all()


@pytest.mark.parametrize("kind", ["features", "neighbours"])
def test_paths_are_functions_and_those_of_sample_y(kind: str) -> None:
    model = quick(**KINDS[kind]).fit(*make_rows())
    points = make_points(3, 4)
    paths = model.sample_paths(5, random_state=3)
    values = paths(points)
    assert torch.allclose(paths(points[1, 2:]), values[:, 1, 2:], rtol=1e-9, atol=1e-12)
    expected = model.sample_y(points.flatten(0, 1), 5, random_state=3)
    assert np.allclose(values.flatten(1).mT, expected, rtol=1e-10)
    assert torch.equal(model.sample_paths(5, random_state=3)(points), values)
    assert not torch.allclose(model.sample_paths(5, random_state=4)(points), values)


def test_tensors_of_other_precisions(fitted: BaseRegressor) -> None:
    points = make_points(3)
    exact = fitted.posterior(points)
    for dtype in (torch.float32, torch.bfloat16):
        leaf = points.to(dtype).requires_grad_()
        found = fitted.posterior(leaf)
        assert found.mean.dtype == torch.float64
        found.mean.sum().backward()
        assert leaf.grad is not None
        assert leaf.grad.dtype == dtype
    assert torch.allclose(fitted.posterior(points.float()).mean, exact.mean, atol=1e-5)
    whole = torch.tensor([[1, 0], [0, 1]])
    assert torch.equal(fitted.posterior(whole).mean, fitted.posterior(whole.double()).mean)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((3, 2)), r"X must be a torch tensor here\. Got ndarray"),
        (pd.DataFrame({"a": [1.0], "b": [2.0]}), r"Got DataFrame; use torch\.as_tensor"),
        (None, "Got NoneType"),
        (torch.zeros(3, 3), r"D = 2 inputs of fit along its last axis\. Got X\.shape=\(3, 3\)"),
        (torch.zeros(2), r"\(…, q, D\).*Got X\.shape=\(2,\)"),
        (torch.tensor([[0.0, torch.nan]]), "X must be finite"),
        (torch.tensor([[0.0, torch.inf]]), "X must be finite"),
        (torch.zeros(3, 2).to_sparse(), "to_dense"),
        (torch.zeros(3, 2, device="meta"), "meta device"),
        (torch.zeros(3, 2, dtype=torch.complex128), r"X must hold real numbers"),
    ],
)
def test_bad_inputs(fitted: BaseRegressor, X: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        unchecked(type(fitted).posterior, self=fitted, X=X)
    with pytest.raises(UserError, match=message):
        unchecked(fitted.sample_paths(2), X=X)


def test_targets_whose_squares_overflow() -> None:
    x, y = make_rows()
    model = small(depth=0, max_iter=1).fit(x, 1e200 * y)
    with pytest.raises(UserError, match="divide y by a constant"):
        model.posterior(make_points(2))
    assert model.sample_paths(2)(make_points(2)).isfinite().all()


def test_bad_settings(fitted: BaseRegressor) -> None:
    with pytest.raises(UserError, match="include_noise"):
        unchecked(type(fitted).posterior, self=fitted, X=make_points(2), include_noise=1)
    for n in (0, 1.5, True):
        with pytest.raises(UserError, match="n_samples must be"):
            unchecked(type(fitted).sample_paths, self=fitted, n_samples=n)
    for call in (lambda: small().posterior(make_points(2)), lambda: small().sample_paths(2)):
        with pytest.raises(NotFittedError):
            call()


def test_frames_of_numbers_take_tensors_and_others_say_why_not() -> None:
    x, y = make_rows()
    frame, points = pd.DataFrame(x, columns=["a", "b"]), make_points(3)
    model, named = quick(depth=0).fit(frame, y), pd.DataFrame(points.numpy(), columns=["a", "b"])
    assert np.allclose(model.posterior(points).mean, model.predict(named), rtol=1e-9)
    others = frame.assign(colour=np.where(x[:, 0] > 0, "red", "blue"))
    others["when"] = pd.date_range("2020-01-01", periods=len(frame))
    holes = frame.mask(np.arange(60)[:, None] < [21, 0])
    for columns, coordinates, message in (
        (others, None, r"'colour' \(category\), 'when' \(time\)\. Fit it to an"),
        (frame, ("a", "b"), r"'a' and its latitude \(sphere\)"),
        (holes, None, r"'a' \(number, missing values\)"),
    ):
        model = quick(depth=0, coordinates=coordinates).fit(columns, y)
        for call in (model.posterior, model.sample_paths(2)):
            with pytest.raises(UserError, match=message):
                call(torch.zeros(2, columns.shape[1]))
