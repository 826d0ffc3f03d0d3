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

from sswim.model.exact_kernel import correlation
from sswim.model.spectrum import Kernel, draw_frequencies


class _AdditiveKernel(torch.autograd.Function):
    """The kernel of points with other points, in the notation above.

    With W = K̄ ⊙ K and f_d = 1 + a·k₁, the gradients are Σ W ⊙ Σ_d (k₁/f_d − 1/(1 + a)) of a, and
    that of coordinate d of the first points is diag(R1)x − Rx' with R = 2W ⊙ a·k₁'/f_d.
    """

    @staticmethod
    def forward(
        ctx: Any, first: Tensor, second: Tensor, strength: Tensor, kernel: Kernel
    ) -> Tensor:
        squared = (first.mT[..., :, None] - second.mT[..., None, :]).square_()
        value, slope = correlation(kernel, squared)  # k₁ and its slope, by input
        factor = torch.addcmul(torch.ones_like(value), strength[..., None, None, None], value)
        product = (factor / (1 + strength[..., None, None, None])).prod(-3)
        ctx.save_for_backward(first, second, strength, value, slope, factor, product)
        return product

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_value: Tensor) -> tuple[Tensor | None, ...]:
        first, second, strength, value, slope, factor, product = ctx.saved_tensors
        weights = of_value * product
        of_first = of_second = of_strength = None
        if ctx.needs_input_grad[0] or ctx.needs_input_grad[1]:
            pairs = slope / factor
            pairs.mul_(2 * strength[..., None, None, None]).mul_(weights[..., None, :, :])
            if ctx.needs_input_grad[0]:
                moved = (pairs @ second.mT[..., None])[..., 0]
                of_first = (pairs.sum(-1) * first.mT - moved).mT
            if ctx.needs_input_grad[1]:
                moved = (first.mT[..., None, :] @ pairs)[..., 0, :]
                of_second = (pairs.sum(-2) * second.mT - moved).mT
        if ctx.needs_input_grad[2]:
            n_inputs = first.shape[-1]
            sums = (value / factor).sum(-3)
            sums = sums - n_inputs / (1 + strength[..., None, None])
            of_strength = (weights * sums).sum((-2, -1))
        return of_first, of_second, of_strength, None


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
        draw_frequencies(kernel, n_frequencies, 1, generator, draw="iid") for _ in range(n_inputs)
    ]
    uniform = torch.rand(n_frequencies, n_inputs, generator=generator, dtype=torch.float64)
    return torch.cat(draws, dim=-1) * (uniform < strength / (1 + strength))
