"""A kernel of sums: functions of single inputs, of pairs of them, of three, and so on.

    k(x, x') = Π_d (1 + a·k₁(x_d − x'_d)) / (1 + a)

The product expands into the sum of kernels over all sets of inputs. A set of n inputs has a part of
the variance that is proportional to aⁿ: with small a the function is nearly a sum of functions of
single inputs, which few rows can tell even if inputs are many; with large a it is anything.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor
from torch.autograd.function import once_differentiable

from sswim.kernels.exact_kernel import correlation
from sswim.kernels.features import Kernel, draw_independent_frequencies


def additive_kernel(
    first: Float[Tensor, "*B n D"],
    second: Float[Tensor, "*B m D"],
    strength: Float[Tensor, "*B"],
    kernel: Kernel,
) -> Float[Tensor, "*B n m"]:
    """Return the kernel of points with other points; differentiable.

    Args:
        first: Points, in units of the length-scales.
        second: Other points.
        strength: a, how strongly inputs interact.
        kernel: k₁, the kernel of one input.
    """
    return _AdditiveKernel.apply(first, second, strength, kernel)


class _AdditiveKernel(torch.autograd.Function):
    """The kernel of points with other points, in the notation above.

    With W = K̄ ⊙ K and f_d = 1 + a·k₁, the gradient of a is ΣW ⊙ Σ_d (k₁/f_d − 1/(1 + a)), and that
    of coordinate d of the first points is diag(R1)x − Rx' with R = 2W ⊙ a·k₁'/f_d.
    """

    @staticmethod
    def forward(
        ctx: Any, first: Tensor, second: Tensor, strength: Tensor, kernel: Kernel
    ) -> Tensor:
        a = strength[..., None, None]
        product: Tensor | None = None
        sums: Tensor | None = None  # Σ_d k₁/f_d
        slopes = []  # 2a·k₁'/f_d
        # One input at a time and in place: matrices of few members then stay in the cache.
        for own, other in zip(first.unbind(-1), second.unbind(-1), strict=True):
            value, slope = correlation(kernel, (own[..., :, None] - other[..., None, :]).square_())
            factor = (value * a).add_(1)
            slopes.append(slope.mul_(2 * a).div_(factor))
            value.div_(factor)
            sums = value if sums is None else sums.add_(value)
            product = factor if product is None else product.mul_(factor)
        assert product is not None
        assert sums is not None
        n_inputs = first.shape[-1]
        product.mul_((1 + a).pow(-n_inputs))
        ctx.save_for_backward(first, second, sums.sub_(n_inputs / (1 + a)), product, *slopes)
        return product

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_value: Tensor) -> tuple[Tensor | None, ...]:
        first, second, sums, product, *slopes = ctx.saved_tensors
        weights = of_value * product
        of_first, of_second = [], []
        for d, slope in enumerate(slopes):
            pairs = slope * weights
            if ctx.needs_input_grad[0]:
                moved = (pairs @ second[..., d, None])[..., 0]
                of_first.append(pairs.sum(-1) * first[..., d] - moved)
            if ctx.needs_input_grad[1]:
                moved = (first[..., None, :, d] @ pairs)[..., 0, :]
                of_second.append(pairs.sum(-2) * second[..., d] - moved)
        return (
            torch.stack(of_first, dim=-1) if of_first else None,
            torch.stack(of_second, dim=-1) if of_second else None,
            (weights * sums).sum((-2, -1)) if ctx.needs_input_grad[2] else None,
            None,
        )


def draw_additive_frequencies(
    kernel: Kernel,
    strength: float,
    n_frequencies: int,
    n_inputs: int,
    generator: torch.Generator,
) -> Float64[Tensor, "M D"]:
    """Draw frequencies from the kernel's spectral density, at unit length-scales.

    Coordinates of a frequency are independent: zero with the probability 1/(1 + a), else drawn from
    the spectral density of k₁.
    """
    draws = [
        draw_independent_frequencies(kernel, n_frequencies, 1, generator) for _ in range(n_inputs)
    ]
    uniform = torch.rand(n_frequencies, n_inputs, generator=generator, dtype=torch.float64)
    return torch.cat(draws, dim=-1) * (uniform < strength / (1 + strength))
