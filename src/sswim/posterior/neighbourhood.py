"""Neighbourhoods: rows with their neighbours, and the density of each row given its neighbours.

The notation is that of :mod:`sswim.posterior.local_solve`. The targets of a neighbourhood have a
constant mean b, which is estimated, and an amplitude s² of its own with the inverse-gamma prior of
ν degrees of freedom around the global s²:

    b = zᵀK_N⁻¹1 / 1ᵀK_N⁻¹1,    q = (z − b)ᵀK_N⁻¹(z − b),    ŝ² = (νs² + q)/(ν + m − 1).

Given its neighbours, z(x) is Student-t with ν + m − 1 degrees of freedom, and in units of l it
deviates from its mean by a − b·o, with the squared scale ŝ²(1 + o²/1ᵀK_N⁻¹1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sswim.base.record import Record
from sswim.base.student_t import log_density
from sswim.model.exact_kernel import far_away, kernel_matrix
from sswim.model.spectrum import Kernel
from sswim.posterior.local_solve import local_numbers


@dataclass(frozen=True)
class Neighbourhoods(Record):
    """Rows, each after its m neighbours."""

    points: Float[Tensor, "B n D"]
    """Warped inputs in units of the length-scales, relative to the row's."""
    variance: Float[Tensor, "B n D"] | None
    """Variances of these; None where they are known exactly."""
    targets: Float64[Tensor, "B n T"]
    """z, the warped targets."""
    ridge: Float64[Tensor, "B n T"]
    """λ, the noise variance over s²."""
    present: Float64[Tensor, "B n"]
    """One for every row that is there, zero for the place of a missing neighbour."""

    def covariance(self, kernel: Kernel) -> Float[Tensor, "B T n n"]:
        """Return K of every target; a missing neighbour is independent of all others."""
        points = far_away(self.points, self.present)
        matrix = kernel_matrix(points, self.variance, kernel)
        return matrix[:, None] + self.ridge.mT.diag_embed()


def neighbour_log_density(
    rows: Neighbourhoods,
    kernel: Kernel,
    signal: Float64[Tensor, " T"],
    degrees: Float64[Tensor, " T"] | None,
    rounding: Float64[Tensor, "B T"] | Float64[Tensor, " T"],
) -> Float64[Tensor, "B T"]:
    """Return log p(z(x) | neighbours) of every row, differentiable; zero for one without any.

    Args:
        rows: The neighbourhoods.
        kernel: The kernel.
        signal: s².
        degrees: ν; None for the same amplitude everywhere.
        rounding: Variance of the rounding of targets. It bounds the density of rows whose
            neighbours all have equal targets.
    """
    present = rows.present[:, None, :].expand(-1, rows.targets.shape[-1], -1)
    targets = (rows.targets * rows.present[..., None]).mT
    numbers = local_numbers(rows.covariance(kernel), targets, present)
    count = rows.present[:, :-1].sum(-1, keepdim=True)
    mass = torch.where(count > 0, numbers.mass, 1.0)
    mean = numbers.product / mass  # b
    unit = (2 * numbers.log_deviation).exp()  # l²
    squared = (numbers.residual - mean * numbers.constant).square() * unit
    widened = unit * (1 + numbers.constant.square() / mass)
    if degrees is None:
        variance = signal * widened + rounding
        density = -0.5 * (squared / variance + (2 * math.pi * variance).log())
    else:
        q = (numbers.square - numbers.product * mean).clamp(min=0)
        total = degrees + count - 1
        variance = (degrees * signal + q) / total * widened + rounding
        density = log_density(squared / variance, total) - 0.5 * variance.log()
    return torch.where(count > 0, density, 0.0)
