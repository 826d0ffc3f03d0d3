"""Cholesky factorisation with bounded, escalating jitter, and solutions from the factor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from jaxtyping import Float
from torch import Tensor

JITTERS = (1e-12, 1e-10, 1e-8, 1e-6)
"""Jitters that are tried in turn, as fractions of the mean of the matrix's diagonal."""


class FactorisationError(ArithmeticError):
    """Raised where a matrix is not positive definite, even with the largest jitter."""


def cholesky(
    matrix: Float[Tensor, "*batch F F"], name: str, scale: float | None = None
) -> Float[Tensor, "*batch F F"]:
    """Return the lower Cholesky factor of a symmetric positive definite matrix.

    A matrix that cannot be factorised gets jitter: a growing multiple of the identity, at most
    ``JITTERS[-1]`` of its scale. Other matrices of the same batch are left as they are.

    Args:
        matrix: One matrix or a batch of them; only the lower triangle is read.
        name: Name of the matrix in the error message.
        scale: Size of the numbers whose differences the matrix is made of; by default the mean of
            its diagonal.

    Raises:
        FactorisationError: The matrix is not finite, or indefinite beyond rounding.
    """
    factor, info = torch.linalg.cholesky_ex(matrix)
    failed = info > 0
    deferred = _deferred.get()
    if deferred is not None:
        deferred.append(failed)
        return factor
    if not failed.any():
        return factor
    size = matrix.shape[-1]
    if not matrix.isfinite().all():
        raise FactorisationError(
            f"The {size} × {size} {name} must be finite; it has NaN or infinite entries. "
            "Likely cause: NaN or huge values among the rows, or parameters that diverged. "
            "Check the rows, standardise inputs and targets, or lower the learning rate."
        )
    diagonal = matrix.detach().diagonal(dim1=-2, dim2=-1).mean(-1)
    size_of_jitter = diagonal if scale is None else torch.full_like(diagonal, scale)
    identity = torch.eye(size, dtype=matrix.dtype, device=matrix.device)
    for jitter in JITTERS:
        added = torch.where(failed, jitter * size_of_jitter, 0.0)
        factor, info = torch.linalg.cholesky_ex(matrix + added[..., None, None] * identity)
        failed = failed | (info > 0)
        if not (info > 0).any():
            return factor
    raise FactorisationError(
        f"The {size} × {size} {name} must be positive definite; it is not, even with "
        f"{JITTERS[-1]:g} of its scale ({size_of_jitter.mean().item():.3g}) added. "
        "Likely cause: a noise variance far below what the precision of the features resolves. "
        "Use float64 rows, raise the noise variance, or lower the learning rate."
    )


_deferred: ContextVar[list[Tensor] | None] = ContextVar("deferred", default=None)
"""The list that collects failures while they are deferred; None while they are handled at once."""


@contextmanager
def deferred_failures() -> Iterator[list[Tensor]]:
    """Collect failures of factorisations in a list, instead of repairing them.

    Within this context :func:`cholesky` adds no jitter and raises nothing. The caller reads the
    list afterwards: reading a failure at once would make the CPU wait for the GPU.
    """
    failures: list[Tensor] = []
    token = _deferred.set(failures)
    try:
        yield failures
    finally:
        _deferred.reset(token)


def solve(
    factor: Float[Tensor, "*batch F F"], vector: Float[Tensor, "*batch F"]
) -> Float[Tensor, "*batch F"]:
    """Return A⁻¹b, given the factor L of A = LLᵀ; differentiable."""
    if not factor.is_cuda:
        return torch.cholesky_solve(vector[..., None], factor)[..., 0]
    whitened = torch.linalg.solve_triangular(factor, vector[..., None], upper=False)
    return torch.linalg.solve_triangular(factor.mT, whitened, upper=True)[..., 0]


def solve_and_invert(
    factor: Float[Tensor, "*batch F F"], vector: Float[Tensor, "*batch F"]
) -> tuple[Float[Tensor, "*batch F"], Float[Tensor, "*batch F F"]]:
    """Return A⁻¹b and A⁻¹, given the factor L of A = LLᵀ."""
    if not factor.is_cuda:
        return solve(factor, vector), torch.cholesky_inverse(factor)
    # The batched routines of the libraries take several times as long, and some cannot be recorded
    # in a CUDA graph.
    inverse_factor = triangular_inverse(factor)  # L⁻¹
    solution = (inverse_factor.mT @ (inverse_factor @ vector[..., None]))[..., 0]
    return solution, inverse_factor.mT @ inverse_factor


_LEAF_SIZE = 64
"""Largest triangular matrix that a GPU inverts in one step, without halving it."""


def triangular_inverse(factor: Float[Tensor, "*batch F F"]) -> Float[Tensor, "*batch F F"]:
    """Return L⁻¹ by recursion: [[A, 0], [B, C]]⁻¹ = [[A⁻¹, 0], [−C⁻¹BA⁻¹, C⁻¹]]."""
    size = factor.shape[-1]
    if size <= _LEAF_SIZE:
        identity = torch.eye(size, dtype=factor.dtype, device=factor.device)
        return torch.linalg.solve_triangular(factor, identity.expand_as(factor), upper=False)
    half = size // 2
    inverse = torch.zeros_like(factor)
    first = triangular_inverse(factor[..., :half, :half])
    second = triangular_inverse(factor[..., half:, half:])
    inverse[..., :half, :half] = first
    inverse[..., half:, half:] = second
    inverse[..., half:, :half] = -second @ (factor[..., half:, :half] @ first)
    return inverse
