"""Predictive densities in the units of the target, and predictions of rows that were left out.

A member leaves a fold of rows out while its hyper-parameters are learnt. Conditioned on the rows
outside the fold, its predictions of the fold are honest. Leave-one-out predictions are not: they
refit the weights of the features, but not the warps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.numerics import N_NODES, hermite_nodes, student_t_log_density
from sswim.base.record import Record, chunks
from sswim.members.linear_regression import Prediction
from sswim.rows.rows import Rows
from sswim.rows.scaling import Scaling, no_scaling
from sswim.warps.output_warp import OutputMap

NODE_VALUES = {"cpu": 2**17, "cuda": 2**24}
"""Number of values at all nodes of the quadrature that are computed together; it limits the memory,
and on a CPU keeps them in the cache."""

_FARTHEST = 1e300
"""Largest standardised target; a large target over a small spread would be infinite."""


@dataclass(frozen=True)
class Density(Record):
    """Predictive densities of y, for every row and target: of one member, or of a batch of them.

    z = T((y − mean)/spread) is Gaussian or Student-t, with the output warp T and the mean and
    spread of the scaling.
    """

    warped: Prediction
    """Prediction of z, Gaussian or Student-t."""
    output: OutputMap
    """T, the output warp."""
    scaling: Scaling
    """Means and spreads that standardise the data."""

    @property
    def mean(self) -> Float64[Tensor, "*B N T"]:
        """E y, by quadrature unless T is the identity."""
        return self._observation_moments[0]

    @property
    def observation_variance(self) -> Float64[Tensor, "*B N T"]:
        """Variance of a new observation."""
        return self._observation_moments[1]

    def without_noise(self) -> Density:
        """Return the density of the function itself.

        The function is T⁻¹ of the latent function of z: the median of observations.
        """
        latent = self.warped.latent_variance
        return replace(self, warped=replace(self.warped, observation_variance=latent))

    def without_function(self) -> Density:
        """Return the density of an observation if the latent function equals its mean."""
        noise = self.warped.observation_variance - self.warped.latent_variance
        return replace(self, warped=replace(self.warped, observation_variance=noise))

    @property
    def noise_variance(self) -> Float64[Tensor, "*B N T"]:
        """Variance of an observation if the latent function equals its mean."""
        return self.without_function().observation_variance

    def log_density(self, targets: Float64[Tensor, "*#B N T"]) -> Float64[Tensor, "*B N T"]:
        """Return log p(y) = log p(z) + log T'(·) − log spread of observations y."""
        warped, log_slope = self._warp(targets)
        return self.warped.log_density(warped) + log_slope

    def cdf(self, targets: Float64[Tensor, "*#B N T"]) -> Float64[Tensor, "*B N T"]:
        """Return the probability that an observation is at most y."""
        return self.warped.cdf(self._warp(targets)[0])

    def tail_and_log_density(
        self, targets: Float64[Tensor, "*#B N T"], sign: Float64[Tensor, "*#B 1 1"]
    ) -> tuple[Float64[Tensor, "*B N T"], Float64[Tensor, "*B N T"]]:
        """Return the probability of at most y, or of more if the sign is −1, and log p(y)."""
        warped, log_slope = self._warp(targets)
        return self.warped.cdf(warped, sign), self.warped.log_density(warped) + log_slope

    def quantile(self, probability: float) -> Float64[Tensor, "*B N T"]:
        """Return the value that an observation stays below with a probability."""
        level = torch.special.ndtri(torch.tensor([probability], dtype=torch.float64))
        return self.at_normal(level.to(self.warped.mean.device))[0]

    def at_normal(self, normal: Float64[Tensor, " Q"]) -> Float64[Tensor, "Q *B N T"]:
        """Return the values of y that are as probable as normal ones."""
        return self.scaling.original_targets(self._standardised_at_normal(normal))

    def covariance(self, warped: Float64[Tensor, "T N N"]) -> Float64[Tensor, "T N N"]:
        """Return the joint covariance of values of y of one member, given that of their z.

        With z = m + dξ and y = E y + Σ_{k≥1} a_k He_k(ξ)/√k!, where m is the mean of z, two
        values whose ξ have the correlation ρ have the covariance Σ_k a_k a'_k ρᵏ (Mehler's
        formula). If T is the identity, only a_1 = d·spread is not zero.

        Args:
            warped: Joint covariance of z, for every target.
        """
        deviation = warped.diagonal(dim1=-2, dim2=-1).clamp(min=0).sqrt()  # (T, N)
        scale = torch.where(deviation > 0, deviation, 1.0)
        correlation = warped / (scale[:, :, None] * scale[:, None, :])
        power, total = torch.ones_like(warped), torch.zeros_like(warped)
        for coefficients in self._expansion(deviation.mT).transpose(-2, -1):  # (T, N)
            power = power * correlation
            total = total + coefficients[:, :, None] * coefficients[:, None, :] * power
        return total

    def _warp(self, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return z, and the log slope of z as a function of y."""
        standard = self.scaling.targets(targets).clamp(-_FARTHEST, _FARTHEST)
        warped, log_slope = self.output.forward(standard)
        return warped, log_slope - self.scaling.target_spread.log()

    def _standardised_at_normal(self, normal: Float64[Tensor, " Q"]) -> Float64[Tensor, "Q *B N T"]:
        """Return the standardised values of y that are as probable as normal ones."""
        warped = self.warped
        deviation = warped.stretch(normal) * warped.observation_variance.sqrt()
        return self.output.inverse(warped.mean + deviation)

    def _expansion(self, deviation: Float64[Tensor, "N T"]) -> Float64[Tensor, "orders N T"]:
        """Return the coefficients a_k of y for k ≥ 1; their squares add up to its variance."""
        spread = self.scaling.target_spread
        if self._is_affine:
            return (deviation * spread)[None]
        nodes = hermite_nodes().to(device=deviation.device)
        warped = replace(self.warped, observation_variance=deviation.square())
        values = replace(self, warped=warped)._standardised_at_normal(nodes.points)
        return spread * torch.tensordot(nodes.polynomials[1:] * nodes.weights, values, dims=1)

    @cached_property
    def _observation_moments(self) -> tuple[Tensor, Tensor]:
        """Mean and variance of an observation; cached, because quadrature takes time."""
        warped, spread = self.warped, self.scaling.target_spread
        mean, variance = warped.mean, warped.observation_variance
        if not self._is_affine:
            parts = chunks(warped, rows_together(mean), axis=mean.ndim - 2)
            moments = [replace(self, warped=part)._quadrature() for part in parts]
            mean, variance = (torch.cat(part, dim=-2) for part in zip(*moments, strict=True))
        return self.scaling.original_targets(mean), variance.clamp(min=0) * spread.square()

    def _quadrature(self) -> tuple[Tensor, Tensor]:
        """Return the standardised moments of a limited number of rows, at all nodes together."""
        nodes = hermite_nodes().to(device=self.warped.mean.device)
        values = self._standardised_at_normal(nodes.points)
        centre = values[N_NODES // 2]  # where the node is zero: deviations from it are small
        around = values - centre
        first = torch.tensordot(nodes.weights, around, dims=1)
        second = torch.tensordot(nodes.weights, around.square(), dims=1)
        return centre + first, second - first.square()

    @property
    def _is_affine(self) -> bool:
        """Whether T is the identity, so that y is an affine function of z."""
        return type(self.output) is OutputMap


def rows_together(values: Float64[Tensor, "*B N T"]) -> int:
    """Return the number of rows whose values at all nodes are computed together."""
    per_row = N_NODES * values[..., :1, :].numel()
    return max(1, NODE_VALUES[values.device.type] // max(1, per_row))


@dataclass(frozen=True)
class Correction(Record):
    """Corrections of a kind's predictions, for every target."""

    noise: Float64[Tensor, " T"]
    """c: the noise variance is multiplied by e^c."""
    latent: Float64[Tensor, " T"]
    """a: the variance of the function is multiplied by e^a."""


@dataclass(frozen=True)
class OutOfFold(Record):
    """A kind's predictions of z = T(y) for rows that its hyper-parameters did not see."""

    residual: Float64[Tensor, "N T"]
    """z − μ, the residuals."""
    latent_variance: Float64[Tensor, "N T"]
    """v, the variance of the function."""
    noise: Float64[Tensor, "N T"]
    """σ², the variance of the noise."""
    log_slope: Float64[Tensor, "N T"]
    """log T'(y)"""
    error: Float64[Tensor, "N T"]
    """E y − y, the errors of the means of standardised targets."""
    rounding: Float64[Tensor, "N T"] | None = None
    """Variance of the rounding of targets, which is not corrected; None for none."""
    degrees: Float64[Tensor, "N T"] | None = None
    """Degrees of freedom of Student-t predictions; None for Gaussian ones."""

    @property
    def is_finite(self) -> bool:
        """Whether every prediction is finite."""
        return all(bool(tensor.isfinite().all()) for tensor in self.tensors())

    def log_density(
        self,
        correction: Correction,
        log_noise_ratio: Float64[Tensor, "N T"] | None = None,
    ) -> Float64[Tensor, "N T"]:
        """Return log p(y) with corrected variances, and with noise that varies by a given ratio."""
        noise = self.noise * correction.noise.exp()
        if log_noise_ratio is not None:
            noise = noise * log_noise_ratio.exp()
        variance = self.latent_variance * correction.latent.exp() + noise
        if self.rounding is not None:
            variance = variance + self.rounding
        if self.degrees is None:
            squared = self.residual.square() / variance
            return -0.5 * (squared + (2 * math.pi * variance).log()) + self.log_slope
        scale = variance * (1 - 2 / self.degrees)
        density = student_t_log_density(self.residual.square() / scale, self.degrees)
        return density - 0.5 * scale.log() + self.log_slope


def out_of_fold(
    prediction: Prediction,
    output: OutputMap,
    rows: Rows,
    rounding: Float64[Tensor, "N T"] | None = None,
) -> OutOfFold:
    """Compare a member's predictions of z = T(y) with the targets of rows.

    Args:
        prediction: Predictions of z, given rows outside the fold.
        output: T, the member's output warp.
        rows: Rows of the fold.
        rounding: The part of the predicted variance that comes from rounded targets.
    """
    targets, log_slope = output.forward(rows.targets)
    noise = prediction.observation_variance - prediction.latent_variance
    if rounding is not None:
        noise = (noise - rounding).clamp(min=torch.finfo(torch.float64).tiny)
    scaling = no_scaling(rows).to(device=rows.targets.device)
    return OutOfFold(
        residual=targets - prediction.mean,
        latent_variance=prediction.latent_variance,
        noise=noise,
        log_slope=log_slope,
        error=Density(prediction, output, scaling).mean - rows.targets,
        rounding=rounding,
        degrees=prediction.degrees,
    )
