"""Dense GPs and their algebra."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from builders.models import normal
from lab_builders.peers import rows, scalar
from scipy import stats
from scipy.spatial.distance import cdist
from sswim_lab.peers.dense_gp import (
    GP,
    SolvedSystem,
    SquaredExponential,
    condition,
    minimise,
    negative_log_evidence,
    plus_diagonal,
    solve_system,
)
from torch import Tensor

from sswim.base.cholesky import FactorisationError


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


def test_rows_that_are_not_finite_raise() -> None:
    x, y = rows(20)
    fitted = GP(1, 1).fit(x, y, 0, "cpu")
    x[3, 1] = np.nan
    with pytest.raises(ValueError, match="x must be finite"):
        GP().fit(x, y, 0, "cpu")
    with pytest.raises(ValueError, match="x must be finite"):
        fitted.predict(x)


def random_kernel(generator: torch.Generator, n_inputs: int) -> SquaredExponential:
    return SquaredExponential(0.3 * normal(generator, n_inputs), scalar(0.4))


def covariance(kernel: SquaredExponential, x: Tensor, others: Tensor) -> np.ndarray:
    lengths = kernel.log_lengths.exp().numpy()
    squared = cdist(x.numpy() / lengths, others.numpy() / lengths, "sqeuclidean")
    return np.exp(2 * kernel.log_signal.item() - 0.5 * squared)


def test_the_evidence_against_dense_algebra(generator: torch.Generator) -> None:
    x, y = normal(generator, 30, 3), normal(generator, 30)
    kernel, log_noise = random_kernel(generator, 3), scalar(-0.5)
    matrix = covariance(kernel, x, x) + np.exp(-1.0) * np.eye(30)
    expected = -stats.multivariate_normal(np.zeros(30), matrix).logpdf(y.numpy())
    value = negative_log_evidence(kernel, log_noise, x, y).item()
    assert value == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("one_for_each", [False, True])
def test_predictions_against_dense_algebra(
    one_for_each: bool, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sswim_lab.peers.dense_gp._CHUNK_ROWS", 4)
    x, y, new = normal(generator, 30, 3), normal(generator, 30), normal(generator, 9, 3)
    noise = normal(generator, 30).square() if one_for_each else scalar(0.3)
    kernel = random_kernel(generator, 3)
    mean, variance = condition(kernel, x, noise, y).predict(new)
    matrix = covariance(kernel, x, x) + noise.numpy() * np.eye(30)
    cross = covariance(kernel, new, x)
    assert np.allclose(mean.numpy(), cross @ np.linalg.solve(matrix, y.numpy()), rtol=1e-8)
    posterior = covariance(kernel, new, new) - cross @ np.linalg.solve(matrix, cross.T)
    assert np.allclose(variance.numpy(), posterior.diagonal(), rtol=1e-8)


def test_gradients(generator: torch.Generator) -> None:
    """Gradients of the solution, of the inverse's diagonal, of the determinant, and of all."""
    x = normal(generator, 8, 2)

    def everything(
        log_lengths: Tensor, log_signal: Tensor, noise: Tensor, vector: Tensor
    ) -> tuple[Tensor, ...]:
        matrix = SquaredExponential(log_lengths, log_signal).matrix(x)
        found = solve_system(plus_diagonal(matrix, noise.exp()), vector)
        return found.solution, found.inverse_diagonal, found.log_determinant

    def evidence(log_lengths: Tensor, log_signal: Tensor, noise: Tensor, y: Tensor) -> Tensor:
        return negative_log_evidence(SquaredExponential(log_lengths, log_signal), noise[0], x, y)

    shapes = ((2,), (), (8,), (8,))
    leaves = tuple((0.3 * normal(generator, *shape)).requires_grad_() for shape in shapes)
    torch.autograd.gradcheck(everything, leaves)
    torch.autograd.gradcheck(evidence, leaves)


def test_a_solved_system(generator: torch.Generator) -> None:
    root, vector = normal(generator, 6, 6), normal(generator, 6)
    matrix = root @ root.mT + torch.eye(6).to(root)
    found = solve_system(matrix, vector)
    expected = SolvedSystem(
        torch.linalg.solve(matrix, vector), matrix.inverse().diagonal(), matrix.logdet()
    )
    for value, reference in zip(found.tensors(), expected.tensors(), strict=True):
        assert torch.allclose(value, reference, rtol=1e-10)


def test_an_indefinite_covariance_raises(generator: torch.Generator) -> None:
    x, y = normal(generator, 5, 2), normal(generator, 5)
    with pytest.raises(FactorisationError, match="covariance of the rows must be positive"):
        condition(random_kernel(generator, 2), x, -10 * torch.ones_like(y), y)


def test_equal_rows_need_little_noise(generator: torch.Generator) -> None:
    x = normal(generator, 5, 2).repeat(4, 1)
    mean, variance = condition(random_kernel(generator, 2), x, scalar(0.0), x[:, 0]).predict(x)
    assert torch.allclose(mean, x[:, 0], atol=1e-6)
    assert (variance >= 0).all()
