"""The projection P of a general warp: a learnt linear map from D inputs to Q coordinates."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from sswim.kernels.features import multiply
from sswim.rows.rows import Measure, full_covariance

SPREAD = 0.05
"""τ, the typical length of a row's deviation from its start, a priori; rows have length one or so.
"""


def project(projection: Float[Tensor, "*B Q D"], inputs: Measure) -> Measure:
    """Return the measure of Px for raw inputs x, which only the rows make uncertain; exact."""
    assert inputs.variance is None
    mean = multiply(inputs.mean, projection.mT)
    if inputs.input_variance is None:
        return Measure(mean)
    rows = projection[..., None, :, :]  # the same for every row
    covariance = rows @ full_covariance(inputs.mean, inputs.input_variance) @ rows.mT
    return Measure(mean, input_variance=covariance)


class Projection(nn.Module):
    """The parameters of P = (P₀ + τD^{-1/2}W) diag(e^a).

    P₀ is where training starts. W has the prior N(0, 1): P has as many entries as there are inputs
    and coordinates, and would overfit without it. The scales e^a of the inputs are for P what
    separate length-scales are for a model without it, and like these they are free: an input that
    does not matter is found by one number, not by Q.
    """

    directions: Tensor

    def __init__(self, n_inputs: int, n_outputs: int, batch: tuple[int, ...] = ()) -> None:
        super().__init__()
        shape = (*batch, n_outputs, n_inputs)
        self.register_buffer("directions", torch.zeros(shape, dtype=torch.float64))  # P₀
        self.deviations = nn.Parameter(torch.zeros(shape, dtype=torch.float64))  # W
        self.log_scales = nn.Parameter(torch.zeros(*batch, n_inputs, dtype=torch.float64))  # a

    @property
    def n_outputs(self) -> int:
        """Q, the number of coordinates."""
        return self.directions.shape[-2]

    def start(self, directions: Float64[Tensor, "Q D"]) -> None:
        """Set P₀ of a single member."""
        self.directions.copy_(directions)

    def factors(self) -> tuple[Float64[Tensor, "*B Q D"], Float64[Tensor, "*B"]]:
        """Return P, and the negative log prior of W."""
        step = SPREAD * self.directions.shape[-1] ** -0.5
        matrix = (self.directions + step * self.deviations) * self.log_scales.exp()[..., None, :]
        prior = 0.5 * (self.deviations.square() + math.log(2 * math.pi)).sum((-2, -1))
        return matrix, prior


def principal_directions(
    sample: Float64[Tensor, "S D"], n_directions: int, generator: torch.Generator
) -> Float64[Tensor, "Q D"]:
    """Return the unit directions in which a sample varies most, and random ones beyond D."""
    centred = sample - sample.mean(0)
    _, vectors = torch.linalg.eigh(centred.mT @ centred)
    return with_random_directions(vectors.mT.flip(0), n_directions, generator)


def with_random_directions(
    directions: Float64[Tensor, "E D"], n_directions: int, generator: torch.Generator
) -> Float64[Tensor, "Q D"]:
    """Return the first directions, and random ones of a typical length if they are too few."""
    n_found, n_inputs = directions.shape
    n_more = max(0, n_directions - n_found)
    drawn = torch.randn(n_more, n_inputs, generator=generator, dtype=torch.float64)
    size = directions.square().sum(-1).mean().sqrt()
    return torch.cat((directions, size * nn.functional.normalize(drawn, dim=-1)))[:n_directions]
