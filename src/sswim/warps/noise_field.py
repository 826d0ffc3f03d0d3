"""Input-dependent noise: σ²(x) = σ²·exp η(x), with η(x) = c + ψ(x)ᵀu + xᵀr."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from sswim.base.minimise import minimise
from sswim.base.record import Record
from sswim.kernels.features import Spectrum, expected_features
from sswim.rows.rows import Measure

_LIMIT = 8.0
"""Bound on |η|, which keeps the linear part from taking the noise to zero or infinity far from the
rows."""

_PRIOR_VARIANCE = 0.1
"""Prior variance of ψ(x)ᵀu, and also of xᵀr at a typical input."""


@dataclass(frozen=True)
class NoiseFactors(Record):
    """The tensors that the noise of a row is computed from."""

    frequencies: Float[Tensor, "*B M D"]
    """Frequencies of ψ, Fourier features of the raw inputs."""
    coefficients: Float[Tensor, "*B F T"]
    """u, the coefficients of the features."""
    slopes: Float[Tensor, "*B D T"]
    """r, the coefficients of the raw inputs."""
    level: Float[Tensor, "*B T"]
    """c, the constant part of η."""
    temper: Float[Tensor, "*B T"]
    """τ, the exponent of the weights exp(−τη) of rows in the regression: with one the weights
    follow the noise, with zero all rows have the same weight."""


def log_noise_ratio(factors: NoiseFactors, inputs: Measure) -> Float64[Tensor, "*B N T"]:
    """Return η(x) = log σ²(x)/σ², bounded smoothly."""
    factors = factors.to(dtype=inputs.mean.dtype)
    features = expected_features(factors.frequencies, inputs)  # ψ
    varying = features @ factors.coefficients + inputs.mean @ factors.slopes
    ratio = (factors.level[..., None, :] + varying).to(torch.float64)
    return _LIMIT * (ratio / _LIMIT).tanh()


class NoiseField(nn.Module):
    """The parameters of η for every target; at zero the noise is constant.

    The prior on u and r keeps the noise nearly constant unless the data show otherwise.
    """

    temper: Tensor

    def __init__(
        self, n_inputs: int, n_frequencies: int, n_targets: int, batch: tuple[int, ...] = ()
    ) -> None:
        super().__init__()
        self.spectrum = Spectrum(n_frequencies, n_inputs, batch)
        # u and r, in units of their prior standard deviations.
        self.coefficients = nn.Parameter(
            torch.zeros(*batch, 2 * n_frequencies, n_targets, dtype=torch.float64)
        )
        self.slopes = nn.Parameter(torch.zeros(*batch, n_inputs, n_targets, dtype=torch.float64))
        self.level = nn.Parameter(torch.zeros(*batch, n_targets, dtype=torch.float64))
        self.register_buffer("temper", torch.ones(*batch, n_targets, dtype=torch.float64))

    def factors(self) -> tuple[NoiseFactors, Float64[Tensor, "*B"]]:
        """Return the factors of the noise, and the negative log prior of u and r.

        Both have the prior N(0, 1) in the units of the parameters.
        """
        standardised = torch.cat((self.coefficients, self.slopes), dim=-2)
        prior = 0.5 * (standardised.square() + math.log(2 * math.pi)).sum((-2, -1))
        deviation = math.sqrt(_PRIOR_VARIANCE)
        factors = NoiseFactors(
            self.spectrum.frequencies(),
            deviation * self.coefficients,
            deviation * self.slopes.shape[-2] ** -0.5 * self.slopes,
            self.level,
            self.temper,
        )
        return factors, prior


STEPS = 30
"""Largest number of L-BFGS steps."""


def fit_noise_field(field: NoiseField, add_gradients: Callable[[], Tensor]) -> None:
    """Minimise a loss of the field's parameters, in place.

    Args:
        field: The field.
        add_gradients: Returns the loss, and adds its gradient to those of the parameters.
    """
    minimise(list(field.parameters()), add_gradients, STEPS)
