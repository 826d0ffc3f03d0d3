"""Cholesky factorisation with bounded, escalating jitter and an error that helps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from jaxtyping import Float
from torch import Tensor

JITTERS = (1e-12, 1e-10, 1e-8, 1e-6)
"""Tried in turn, each relative to the mean of the matrix's diagonal."""


class FactorisationError(ArithmeticError):
    """A matrix that has to be positive definite is not, even with the largest jitter."""


_noted: ContextVar[list[Tensor] | None] = ContextVar("noted", default=None)


@contextmanager
def deferred_failures() -> Iterator[list[Tensor]]:
    """Within, no factorisation is looked at, nor repaired: which failed is noted in the list.

    To look would be to wait for the device.
    """
    failures: list[Tensor] = []
    token = _noted.set(failures)
    try:
        yield failures
    finally:
        _noted.reset(token)


def cholesky(matrix: Float[Tensor, "*batch F F"], name: str) -> Float[Tensor, "*batch F F"]:
    """Lower Cholesky factor of a symmetric positive definite matrix, or of a batch of them.

    A matrix that fails gets a growing multiple of the identity, at most ``JITTERS[-1]`` of its
    mean diagonal; those that succeed are not touched.

    Args:
        matrix: Only the lower triangle is read.
        name: What the matrix is, for the error message.

    Raises:
        FactorisationError: The matrix is not finite, or indefinite beyond rounding.
    """
    factor, info = torch.linalg.cholesky_ex(matrix)
    failed = info > 0
    noted = _noted.get()
    if noted is not None:
        noted.append(failed)
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
    scale = matrix.detach().diagonal(dim1=-2, dim2=-1).mean(-1)
    identity = torch.eye(size, dtype=matrix.dtype, device=matrix.device)
    for jitter in JITTERS:
        lift = torch.where(failed, jitter * scale, 0.0)
        factor, info = torch.linalg.cholesky_ex(matrix + lift[..., None, None] * identity)
        failed = failed | (info > 0)
        if not (info > 0).any():
            return factor
    raise FactorisationError(
        f"The {size} × {size} {name} must be positive definite; it is not, even with "
        f"{JITTERS[-1]:g} of its mean diagonal ({scale.mean().item():.3g}) added. "
        "Likely cause: a noise variance far below what the precision of the features resolves. "
        "Use float64 rows, raise the noise variance, or lower the learning rate."
    )


_LEAF = 64
"""The size of triangular matrices that a GPU inverts at once."""


def solve(
    factor: Float[Tensor, "*batch F F"], vector: Float[Tensor, "*batch F"]
) -> Float[Tensor, "*batch F"]:
    """A⁻¹b of A = LLᵀ, differentiable."""
    if not factor.is_cuda:
        return torch.cholesky_solve(vector[..., None], factor)[..., 0]
    whitened = torch.linalg.solve_triangular(factor, vector[..., None], upper=False)
    return torch.linalg.solve_triangular(factor.mT, whitened, upper=True)[..., 0]


def solve_and_invert(
    factor: Float[Tensor, "*batch F F"], vector: Float[Tensor, "*batch F"]
) -> tuple[Float[Tensor, "*batch F"], Float[Tensor, "*batch F F"]]:
    """A⁻¹b and A⁻¹ of A = LLᵀ."""
    if not factor.is_cuda:
        return solve(factor, vector), torch.cholesky_inverse(factor)
    # The libraries' batched routines take several times as long, and some cannot be recorded.
    root = triangular_inverse(factor)  # L⁻¹
    solution = (root.mT @ (root @ vector[..., None]))[..., 0]
    return solution, root.mT @ root


def triangular_inverse(factor: Float[Tensor, "*batch F F"]) -> Float[Tensor, "*batch F F"]:
    """L⁻¹ by halves: [[A, 0], [B, C]]⁻¹ = [[A⁻¹, 0], [−C⁻¹BA⁻¹, C⁻¹]]."""
    size = factor.shape[-1]
    if size <= _LEAF:
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
