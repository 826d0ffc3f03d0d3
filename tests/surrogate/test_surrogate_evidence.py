"""The evidence of members, against dense Gaussian densities."""

from __future__ import annotations

import math

import torch
from builders.models import normal
from builders.surrogates import small_gp, uniform
from torch import Tensor

from sswim.members.exact_members import LEFT_OUT, negative_log_evidence
from sswim.members.exact_model import kernel_within


def problem(generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Return kernel matrices, noise and residuals of all members."""
    gp = small_gp(generator)
    kernel = kernel_within(gp.kinds, gp.factors, gp.points)
    noise = 0.01 + uniform(generator, *kernel.shape[:2])
    return kernel, noise, normal(generator, *kernel.shape[:2])


def test_evidence_is_a_gaussian_density(generator: torch.Generator) -> None:
    kernel, noise, residual = problem(generator)
    zero = torch.zeros_like(residual)
    density = torch.distributions.MultivariateNormal(zero, kernel + noise.diag_embed())
    constant = 0.5 * residual.shape[-1] * math.log(2 * math.pi)
    found = negative_log_evidence(kernel, noise, residual) + constant
    assert torch.allclose(found, -density.log_prob(residual))


def test_gradients_of_the_evidence(generator: torch.Generator) -> None:
    kernel, noise, residual = problem(generator)

    def symmetric(kernel: Tensor, noise: Tensor, residual: Tensor) -> Tensor:
        return negative_log_evidence(0.5 * (kernel + kernel.mT), noise, residual)

    inputs = tuple(each.requires_grad_() for each in (kernel, noise, residual))
    assert torch.autograd.gradcheck(symmetric, inputs)


def test_noise_beyond_measure_leaves_rows_out(generator: torch.Generator) -> None:
    kernel, noise, residual = problem(generator)
    found = negative_log_evidence(kernel, noise + LEFT_OUT * torch.eye(9)[0], residual)
    kept = negative_log_evidence(kernel[:, 1:, 1:], noise[:, 1:], residual[:, 1:])
    assert torch.allclose(found, kept + 0.5 * math.log(LEFT_OUT), atol=1e-4)
