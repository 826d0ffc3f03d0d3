"""Input-dependent noise: σ²(x) = σ²·exp η(x), with η(x) = c + ψ(x)ᵀu + xᵀr."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from sswim.base.record import Record
from sswim.model.features import expected_features
from sswim.model.spectrum import Spectrum
from sswim.rows.measure import Measure

_LIMIT = 8.0
"""Of |η|, so that the linear part cannot take the noise to zero or infinity far from the rows."""

_PRIOR_VARIANCE = 0.1
"""Of η, from ψ(x)ᵀu and from xᵀr at a typical input each."""


@dataclass(frozen=True)
class NoiseFactors(Record):
    """All that rows need of the noise."""

    frequencies: Float[Tensor, "*B M D"]
    """Those of ψ, features of the raw inputs."""
    coefficients: Float[Tensor, "*B F T"]
    """u"""
    slopes: Float[Tensor, "*B D T"]
    """r"""
    level: Float[Tensor, "*B T"]
    """c"""
    temper: Float[Tensor, "*B T"]
    """τ: the regression weighs rows by exp(−τη), fully for one and not at all for zero."""


def log_noise_ratio(factors: NoiseFactors, inputs: Measure) -> Float64[Tensor, "*B N T"]:
    """η(x) = log σ²(x)/σ², kept within its limit."""
    factors = factors.to(dtype=inputs.mean.dtype)
    features = expected_features(factors.frequencies, inputs)  # ψ
    varying = features @ factors.coefficients + inputs.mean @ factors.slopes
    ratio = (factors.level[..., None, :] + varying).to(torch.float64)
    return _LIMIT * (ratio / _LIMIT).tanh()


class NoiseField(nn.Module):
    """The parameters of η, for every target; zero is constant noise.

    The prior of u and r keeps the noise constant unless the data ask for more.
    """

    temper: Tensor

    def __init__(
        self, n_inputs: int, n_frequencies: int, n_targets: int, batch: tuple[int, ...] = ()
    ) -> None:
        super().__init__()
        self.spectrum = Spectrum(n_frequencies, n_inputs, batch)
        # In units of their prior's standard deviation.
        self.coefficients = nn.Parameter(
            torch.zeros(*batch, 2 * n_frequencies, n_targets, dtype=torch.float64)
        )
        self.slopes = nn.Parameter(torch.zeros(*batch, n_inputs, n_targets, dtype=torch.float64))
        self.level = nn.Parameter(torch.zeros(*batch, n_targets, dtype=torch.float64))
        self.register_buffer("temper", torch.ones(*batch, n_targets, dtype=torch.float64))

    def condition(self) -> tuple[NoiseFactors, Float64[Tensor, "*B"]]:
        """The factors that rows need, and the negative log prior of u and r, N(0, 1) both here."""
        standard = torch.cat((self.coefficients, self.slopes), dim=-2)
        prior = 0.5 * (standard.square() + math.log(2 * math.pi)).sum((-2, -1))
        deviation = math.sqrt(_PRIOR_VARIANCE)
        factors = NoiseFactors(
            self.spectrum.frequencies(),
            deviation * self.coefficients,
            deviation * self.slopes.shape[-2] ** -0.5 * self.slopes,
            self.level,
            self.temper,
        )
        return factors, prior
