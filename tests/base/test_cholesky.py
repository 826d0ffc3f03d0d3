from __future__ import annotations

import pytest
import torch
from builders.models import normal, relative_error

from sswim.base.cholesky import (
    FactorisationError,
    cholesky,
    deferred_failures,
    solve_and_invert,
    triangular_inverse,
)


def test_a_singular_matrix_gets_little_jitter_and_its_neighbour_none(
    generator: torch.Generator,
) -> None:
    root = normal(generator, 2, 6, 6)
    root[1, :, 3:] = 0  # rank three
    root[1] *= 1e5  # jitter must be relative
    matrix = root @ root.mT
    factor = cholesky(matrix, "matrix")
    assert torch.equal(factor[0], torch.linalg.cholesky(matrix[0]))
    error = (factor[1] @ factor[1].mT - matrix[1]).abs().max()
    assert error < 1e-9 * matrix[1].abs().max()


def test_gradients_pass_through_the_jitter(generator: torch.Generator) -> None:
    root = normal(generator, 5, 2)
    matrix = (root @ root.mT).requires_grad_()
    factor = cholesky(matrix, "matrix")
    factor.diagonal().log().sum().backward()
    assert matrix.grad is not None
    # ∂(½ log|A|)/∂A = ½A⁻¹, for the matrix with its jitter.
    expected = 0.5 * torch.cholesky_inverse(factor.detach())
    assert relative_error(0.5 * (matrix.grad + matrix.grad.mT), expected) < 1e-6


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (-0.1, ("3 × 3 matrix A", "positive definite", "Likely cause", "Use float64 rows")),
        (float("nan"), ("must be finite",)),
        (float("inf"), ("must be finite",)),
    ],
)
def test_other_matrices_are_refused_with_cause_and_cure(
    value: float, words: tuple[str, ...]
) -> None:
    matrix = torch.eye(3, dtype=torch.float64)
    matrix[2, 2] = value
    if value == float("inf"):
        matrix[2, 1] = matrix[1, 2] = value
    with pytest.raises(FactorisationError) as caught:
        cholesky(matrix, "matrix A")
    assert all(word in str(caught.value) for word in words)


def test_deferred_failures_are_collected_and_not_repaired(generator: torch.Generator) -> None:
    root = normal(generator, 4, 4)
    good, bad = root @ root.mT + torch.eye(4), -torch.eye(4, dtype=torch.float64)
    with deferred_failures() as failures:
        assert torch.equal(cholesky(good, "matrix"), torch.linalg.cholesky(good))
        cholesky(bad, "matrix")
    assert [failed.item() for failed in failures] == [False, True]
    with pytest.raises(FactorisationError):
        cholesky(bad, "matrix")


@pytest.mark.parametrize("size", [5, 64, 65, 200])
def test_inverses(size: int, generator: torch.Generator) -> None:
    root = normal(generator, 2, size, 2 * size)
    matrix, vector = root @ root.mT, root[..., 0]
    factor = torch.linalg.cholesky(matrix)
    identity = torch.eye(size, dtype=torch.float64).expand_as(factor)
    assert torch.allclose(triangular_inverse(factor) @ factor, identity, atol=1e-9)
    solution, inverse = solve_and_invert(factor, vector)
    assert torch.allclose(inverse @ matrix, identity, atol=1e-8)
    assert torch.allclose(torch.einsum("bij,bj->bi", matrix, solution), vector, atol=1e-8)
