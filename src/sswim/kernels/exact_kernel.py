"""Exact stationary kernels: functions of distance, where features only approximate them.

Points are in units of the length-scales, so that a kernel is an isotropic function k(r) of the
distance r, with k(0) = 1.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from scipy import special
from torch import Tensor
from torch.autograd.function import once_differentiable

from sswim.kernels.features import DEGREES_OF_FREEDOM, Kernel

N_SCALES = 12
"""Number of RBF kernels whose mixture stands for a Matérn kernel of uncertain points."""

_FAR = 1e6
"""Coordinates of a missing point, in length-scales."""

_TINY = 1e-30
"""Smallest squared distance whose root is taken."""


def correlation(
    kernel: Kernel, squared: Float[Tensor, "*shape"]
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """Return k(r) and its slope ∂k/∂(r²), given squared distances r²."""
    if kernel == "rbf":
        value = (-0.5 * squared).exp()
        return value, -0.5 * value
    # In place where autograd allows it: memory is slower than arithmetic.
    scaled = squared.clamp(min=_TINY).mul_(DEGREES_OF_FREEDOM[kernel]).sqrt_()  # √(2ν)·r
    decay = scaled.neg().exp_()
    if kernel == "matern12":
        # The slope has no bound at r = 0, where a kink of the kernel has no gradient.
        return decay, torch.where(squared > _TINY, -0.5 * decay / scaled, 0.0)
    if kernel == "matern32":
        return decay.addcmul(scaled, decay), -1.5 * decay
    slope = (-5 / 6) * decay.addcmul(scaled, decay)
    return decay * (1 + scaled + scaled.square() / 3), slope


def correlation_value(kernel: Kernel, squared: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Return k(r) alone, given squared distances r², which are overwritten."""
    if kernel == "rbf":
        return squared.mul_(-0.5).exp_()
    degrees = DEGREES_OF_FREEDOM[kernel]
    scaled = squared.mul_(degrees).sqrt_()
    decay = (-scaled).exp_()
    if kernel == "matern12":
        return decay
    if kernel == "matern32":
        return decay.addcmul_(scaled, decay)
    polynomial = scaled.square().div_(3).add_(scaled).add_(1)
    return decay.mul_(polynomial)


def squared_distances(
    first: Float[Tensor, "*B n D"], second: Float[Tensor, "*B m D"]
) -> Float[Tensor, "*B n m"]:
    """Return ‖a − b‖² of all pairs, from one product.

    Rounding grows with the distance from the origin: move the points near it first.
    """
    squares = first.square().sum(-1)[..., :, None] + second.square().sum(-1)[..., None, :]
    # In place: pairs of points are many, and memory is slower than arithmetic.
    return squares.sub_(first @ second.mT, alpha=2).clamp_(min=0)


def far_away(
    points: Float[Tensor, "*B n D"], present: Float[Tensor, "*B n"]
) -> Float[Tensor, "*B n D"]:
    """Put points whose ``present`` is zero where their kernel with all others is zero."""
    return torch.where(present[..., None] > 0, points, _FAR)


class _KernelMatrix(torch.autograd.Function):
    """k(‖u_i − u_j‖) of points with each other.

    With W = K̄ ⊙ ∂k/∂(r²), symmetric, the gradient of the points is 4(diag(W1) − W)u.
    """

    @staticmethod
    def forward(ctx: Any, points: Tensor, kernel: Kernel) -> Tensor:
        squared = squared_distances(points, points)
        squared.diagonal(dim1=-2, dim2=-1).zero_()
        value, slope = correlation(kernel, squared)
        ctx.save_for_backward(points, slope)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_value: Tensor) -> tuple[Tensor | None, None]:
        points, slope = ctx.saved_tensors
        weights = of_value * slope
        weights = weights + weights.mT
        return 2 * (weights.sum(-1, keepdim=True) * points - weights @ points), None


def kernel_matrix(
    points: Float[Tensor, "*B n D"],
    variance: Float[Tensor, "*B n D"] | None,
    kernel: Kernel,
) -> Float[Tensor, "*B n n"]:
    """Return the kernel of points with each other; of uncertain points, its expectation.

    Args:
        points: Points, near the origin (see :func:`squared_distances`).
        variance: Variances of the points' coordinates; None where they are known exactly.
        kernel: The kernel.
    """
    if variance is None:
        return _KernelMatrix.apply(points, kernel)
    matrix = expected_cross_kernel(points, variance, points, variance, kernel)
    # A point is where it is: its kernel with itself is one.
    same = torch.eye(points.shape[-2], dtype=torch.bool, device=points.device)
    return torch.where(same, 1.0, matrix)


def cross_kernel(
    first: Float[Tensor, "*B n D"], second: Float[Tensor, "*B m D"], kernel: Kernel
) -> Float[Tensor, "*B n m"]:
    """Return the kernel of points with other points; differentiable in both.

    Points should be near the origin; see :func:`squared_distances`.
    """
    if torch.is_grad_enabled() and (first.requires_grad or second.requires_grad):
        return _CrossKernel.apply(first, second, kernel)
    return correlation_value(kernel, squared_distances(first, second))


class _CrossKernel(torch.autograd.Function):
    """k(‖a_i − b_j‖) of points with other points.

    With W = 2K̄ ⊙ ∂k/∂(r²), the gradient of a is diag(W1)a − Wb, and that of b likewise.
    """

    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor, kernel: Kernel) -> Tensor:
        value, slope = correlation(kernel, squared_distances(first, second))
        ctx.save_for_backward(first, second, slope)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_value: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        first, second, slope = ctx.saved_tensors
        weights = 2 * of_value * slope
        of_first = of_second = None
        if ctx.needs_input_grad[0]:
            of_first = weights.sum(-1)[..., None] * first - weights @ second
        if ctx.needs_input_grad[1]:
            of_second = weights.sum(-2)[..., None] * second - weights.mT @ first
        return of_first, of_second, None


def expected_cross_kernel(
    first: Float[Tensor, "*B n D"],
    first_variance: Float[Tensor, "*B n D"],
    second: Float[Tensor, "*B m D"],
    second_variance: Float[Tensor, "*B m D"],
    kernel: Kernel,
) -> Float[Tensor, "*B n m"]:
    """Return E k(‖a − b‖) of independent Gaussian points with given means and variances.

    A Matérn kernel is a mixture of RBF kernels exp(−½τr²), with τ = 2ν/χ²_{2ν}, and each has

        E exp(−½τr²) = Π_d (1 + τv_d)^{-1/2} exp(−½τ(a_d − b_d)²/(1 + τv_d)),    v = v_a + v_b.

    The mixture has N_SCALES terms at the mid-quantiles of τ. It is multiplied by the ratio of k and
    the mixture for known points at the distance ρ, ρ² = Σ_d (a_d − b_d)²/(1 + v_d), so that points
    without variances have k(r) exactly. The error is below 0.01.
    """
    squared = (first[..., :, None, :] - second[..., None, :, :]).square()
    variance = first_variance[..., :, None, :] + second_variance[..., None, :, :]
    near = (squared / (1 + variance)).sum(-1)  # ρ²
    if kernel == "rbf":
        return (-0.5 * (near + variance.log1p().sum(-1))).exp()
    expected = known = torch.zeros_like(near)
    for scale in mixture_scales(kernel):
        spread = 1 + scale * variance
        exponent = (scale * squared / spread + spread.log()).sum(-1)
        expected = expected + (-0.5 * exponent).exp()
        known = known + (-0.5 * scale * near).exp()
    return correlation(kernel, near)[0] * expected / known.clamp(min=_TINY)


def mixture_scales(kernel: Kernel) -> list[float]:
    """Return N_SCALES equally likely values of τ = 2ν/χ²_{2ν}."""
    degrees = DEGREES_OF_FREEDOM[kernel]
    levels = [(number + 0.5) / N_SCALES for number in range(N_SCALES)]
    return [degrees / (2 * float(special.gammaincinv(degrees / 2, level))) for level in levels]
