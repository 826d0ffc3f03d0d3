"""The exact GP as a method."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from lab_builders.peers import rows
from sswim_lab.peers.dense_gp import (
    GP,
    FittedGP,
    SquaredExponential,
    maximise_evidence,
    minimise,
    negative_log_evidence,
)
from sswim_lab.peers.protocol import Fitted, Gaussian, Method, standardise
from torch import Tensor


def test_the_best_of_several_starts_goes_on() -> None:
    """The objective has a low minimum near 2 and a high one near −2."""

    def objective(point: Tensor) -> Tensor:
        return ((point.square() - 4).square() - point).sum()

    starts = [np.array([-2.5]), np.array([1.5]), np.array([-1.0])]
    device = torch.device("cpu")
    found = minimise(objective, starts, [(-5.0, 5.0)], device, 3, 50)
    assert found == pytest.approx([2.0307], abs=1e-3)
    assert minimise(objective, starts[1:2], [(0.5, 1.7)], device, 3, 50) == pytest.approx([1.7])
    assert minimise(objective, starts[:1], [(-5.0, 5.0)], device, 3, 50)[0] < 0


def test_the_evidence_has_no_better_point_nearby() -> None:
    training = standardise(*rows(40), "cpu")
    best = maximise_evidence(training, 10, 200)

    def value(point: np.ndarray) -> float:
        at = torch.as_tensor(point)
        return negative_log_evidence(
            SquaredExponential(at[:-2], at[-2]), at[-1], training.x, training.y
        ).item()

    lowest = value(best)
    for position in range(len(best)):
        for change in (-0.1, 0.1):
            moved = best.copy()
            moved[position] += change
            assert value(moved) >= lowest - 1e-6


def test_the_gp_as_a_method() -> None:
    method = GP()
    assert isinstance(method, Method)
    assert method.settings()["iterations"] == 100
    assert method.device("cpu") == "cpu"
    x, y = rows(60)
    test_x, test_y = rows(200, seed=1)
    fitted = method.fit(x, y, 0, "cpu")
    assert isinstance(fitted, Fitted)
    predictive = fitted.predict(test_x)
    assert isinstance(predictive, Gaussian)
    assert np.sqrt(np.mean((predictive.mean - test_y) ** 2)) < 0.4 * y.std()
    lower, upper = predictive.interval(0.9)
    assert 0.8 < np.mean((lower <= test_y) & (test_y <= upper)) < 0.98
    again = method.fit(x, y, 1, "cpu").predict(test_x)
    assert np.array_equal(again.mean, predictive.mean)


def test_units_of_target_and_inputs_do_not_matter() -> None:
    x, y = rows(40)
    point = maximise_evidence(standardise(x, y, "cpu"), 5, 20)
    one = FittedGP.from_point(standardise(x, y, "cpu"), point).predict(x)
    other = FittedGP.from_point(standardise(100 * x - 3, 7 + 1000 * y, "cpu"), point).predict(
        100 * x - 3
    )
    assert np.allclose(other.mean, 7 + 1000 * one.mean, rtol=1e-9)
    assert np.allclose(other.variance, 1e6 * one.variance, rtol=1e-7)


def test_a_target_that_never_varies() -> None:
    x, _ = rows(20)
    predictive = GP().fit(x, np.full(20, 3.0), 0, "cpu").predict(x)
    assert np.allclose(predictive.mean, 3)
    assert (predictive.variance > 0).all()


def test_rows_that_are_not_finite_raise() -> None:
    x, y = rows(20)
    fitted = GP(1, 1).fit(x, y, 0, "cpu")
    x[3, 1] = np.nan
    with pytest.raises(ValueError, match="x must be finite"):
        GP().fit(x, y, 0, "cpu")
    with pytest.raises(ValueError, match="x must be finite"):
        fitted.predict(x)
