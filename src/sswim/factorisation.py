"""Cholesky factorisation with bounded, escalating jitter and an error that helps."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

JITTERS = (1e-12, 1e-10, 1e-8, 1e-6)
"""Tried in turn, each relative to the mean of the matrix's diagonal."""


class FactorisationError(ArithmeticError):
    """A matrix that has to be positive definite is not, even with the largest jitter."""


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
