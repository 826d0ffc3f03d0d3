"""Suggestions that repeat a point are replaced by places far from all points."""

from __future__ import annotations

import pytest
import torch
from botorch.models import SingleTaskGP
from botorch.models.deterministic import GenericDeterministicModel
from torch import Tensor

from sswim.base.validation import UserError
from sswim.integrations.botorch import FAR, NEAR, avoid_repeats

BOUNDS = torch.tensor([[-1.0, 10.0], [1.0, 30.0]], dtype=torch.float64)


def scaled(points: Tensor) -> Tensor:
    """Map points of the unit square to the bounds."""
    return BOUNDS[0] + (BOUNDS[1] - BOUNDS[0]) * points


def cornered() -> Tensor:
    """Return evaluated points in the lower left quarter of the bounds."""
    axis = torch.linspace(0, 0.5, 4, dtype=torch.float64)
    return scaled(torch.cartesian_prod(axis, axis))


def rising(n_outputs: int = 1) -> GenericDeterministicModel:
    """Return a model whose mean is the first input."""

    def mean(X: Tensor) -> Tensor:
        return X[..., :1].expand(*X.shape[:-1], n_outputs)

    return GenericDeterministicModel(mean, n_outputs)


def distances(points: Tensor, others: Tensor) -> Tensor:
    width = BOUNDS[1] - BOUNDS[0]
    return torch.cdist(points / width, others / width).amin(-1)


def test_new_points_are_kept() -> None:
    X = cornered()
    candidates = torch.stack([X[3] + 2 * NEAR * (BOUNDS[1] - BOUNDS[0]), X.mean(0)])
    assert torch.equal(avoid_repeats(candidates, rising(), X, BOUNDS), candidates)


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_a_repeat_goes_far_from_all_points(n_outputs: int) -> None:
    X = cornered()
    (points,) = avoid_repeats(X[5:6], rising(n_outputs), X, BOUNDS)
    assert ((points >= BOUNDS[0]) & (points <= BOUNDS[1])).all()
    farthest = 0.5**0.5  # the upper right corner
    assert distances(points[None], X) > (FAR if n_outputs == 1 else 0.9) * farthest - 0.05
    if n_outputs == 1:
        assert points[0] > 0.9  # where the mean is large
    state = torch.get_rng_state()
    one, same, other = (avoid_repeats(X[:1], rising(), X, BOUNDS, seed) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), state)


def test_repeats_within_a_batch_are_replaced_one_by_one() -> None:
    X = cornered()
    same = torch.tensor([[0.2, 27.0]], dtype=torch.float64).repeat(3, 1)
    points = avoid_repeats(same, rising(), X, BOUNDS)
    assert torch.equal(points[0], same[0])
    for number in (1, 2):
        known = torch.cat((X, points[:number]))
        assert distances(points[number, None], known) > 0.1
    alone = avoid_repeats(same[:2], rising(), X[:0], BOUNDS)  # without evaluated points
    assert torch.equal(alone[0], same[0])
    assert distances(alone[1:], alone[:1]) > 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_any_model_of_botorch_will_do(dtype: torch.dtype) -> None:
    X = ((cornered() - BOUNDS[0]) / (BOUNDS[1] - BOUNDS[0])).to(dtype)
    unit_square = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=dtype)
    model = rising() if dtype == torch.float32 else SingleTaskGP(X, X.sum(-1, keepdim=True))
    points = avoid_repeats(X[:2], model, X, unit_square)
    assert points.dtype == dtype
    assert (torch.cdist(points, X) > 0.1).all()


def test_an_input_may_be_fixed() -> None:
    bounds, X = BOUNDS.clone(), cornered()
    bounds[:, 1] = X[:, 1] = 20.0
    points = avoid_repeats(X[:1], rising(), X, bounds)
    assert points[0, 0] > 0.5
    assert points[0, 1] == 20


def test_bad_points_are_refused() -> None:
    X, nan = cornered(), torch.nan
    for candidates, points, bounds, message in (
        (X[:1, :1], X, BOUNDS, "as many inputs as each other"),
        (X[:1], X[:, :1], BOUNDS, "as many inputs as each other"),
        (X[:1], X, BOUNDS[:1], "as many inputs as each other"),
        (nan * X[:1], X, BOUNDS, "must be finite"),
        (X[:1], nan * X, BOUNDS, "must be finite"),
        (X[:1], X, nan * BOUNDS, "must be finite"),
        (X[:1], X, BOUNDS.flip(0), "lowest values"),
    ):
        with pytest.raises(UserError, match=message):
            avoid_repeats(candidates, rising(), points, bounds)
