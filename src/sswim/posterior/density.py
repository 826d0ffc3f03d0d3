"""Predictive densities in the units of the target."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.quadrature import hermite_nodes
from sswim.base.record import Record
from sswim.model.output_warp import OutputMap
from sswim.posterior.prediction import Prediction
from sswim.rows.scaling import Scaling


@dataclass(frozen=True)
class Density(Record):
    """One member's predictive density of y, for every row and target.

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
    def mean(self) -> Float64[Tensor, "N T"]:
        """E y, by quadrature unless T is the identity."""
        return self._observation_moments[0]

    @property
    def observation_variance(self) -> Float64[Tensor, "N T"]:
        """Variance of a new observation."""
        return self._observation_moments[1]

    def without_noise(self) -> Density:
        """Return the density of the function itself.

        The function is T⁻¹ of the latent function of z: the median of observations.
        """
        latent = self.warped.latent_variance
        return replace(self, warped=replace(self.warped, observation_variance=latent))

    @property
    def noise_variance(self) -> Float64[Tensor, "N T"]:
        """Variance of an observation if the latent function equals its mean."""
        warped = self.warped
        return self._moments(warped.observation_variance - warped.latent_variance)[1]

    def log_density(self, targets: Float64[Tensor, "N T"]) -> Float64[Tensor, "N T"]:
        """Return log p(y) = log p(z) + log T'(·) − log spread of observations y."""
        warped, log_slope = self.output.forward(self.scaling.targets(targets))
        return self.warped.log_density(warped) + log_slope - self.scaling.target_spread.log()

    def cdf(self, targets: Float64[Tensor, "N T"]) -> Float64[Tensor, "N T"]:
        """Return the probability that an observation is at most y."""
        warped, _ = self.output.forward(self.scaling.targets(targets))
        return self.warped.cdf(warped)

    def quantile(self, probability: float) -> Float64[Tensor, "N T"]:
        """Return the value that an observation stays below with a probability."""
        level = torch.special.ndtri(torch.tensor(probability, dtype=torch.float64)).item()
        deviation = self.warped.observation_variance.sqrt()
        return self.unwarp(self.warped.mean + self.warped.stretch(level) * deviation)

    def unwarp(self, warped: Float64[Tensor, "*N T"]) -> Float64[Tensor, "*N T"]:
        """Return y, in the units of the data, given z."""
        return self.scaling.original_targets(self.output.inverse(warped))

    def covariance(self, warped: Float64[Tensor, "T N N"]) -> Float64[Tensor, "T N N"]:
        """Return the joint covariance of values of y, given the joint covariance of their z.

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

    def _expansion(self, deviation: Float64[Tensor, "N T"]) -> Float64[Tensor, "orders N T"]:
        """Return the coefficients a_k of y for k ≥ 1; their squares add up to its variance."""
        if self._is_affine:
            return (deviation * self.scaling.target_spread)[None]
        nodes = hermite_nodes().to(device=deviation.device)
        stretched = [self.warped.stretch(point) * deviation for point in nodes.points.tolist()]
        values = self.unwarp(self.warped.mean + torch.stack(stretched))
        return torch.einsum("kq,qnt->knt", nodes.polynomials[1:] * nodes.weights, values)

    @cached_property
    def _observation_moments(self) -> tuple[Tensor, Tensor]:
        """Mean and variance of an observation; cached, because quadrature takes time."""
        return self._moments(self.warped.observation_variance)

    def _moments(self, variance: Float64[Tensor, "N T"]) -> tuple[Tensor, Tensor]:
        """Return the mean and variance of y, given the variance of z."""
        spread = self.scaling.target_spread
        centre = self.output.inverse(self.warped.mean)
        first, second = torch.zeros_like(centre), torch.zeros_like(centre)  # around the centre
        if self._is_affine:
            second = variance
        else:
            deviation = variance.sqrt()
            nodes = hermite_nodes()
            for point, weight in zip(nodes.points.tolist(), nodes.weights.tolist(), strict=True):
                # One node at a time, so that memory does not grow with the number of nodes.
                value = self.output.inverse(
                    self.warped.mean + self.warped.stretch(point) * deviation
                )
                value = value - centre
                first += weight * value
                second += weight * value.square()
        mean = self.scaling.original_targets(centre + first)
        return mean, (second - first.square()).clamp(min=0) * spread.square()

    @property
    def _is_affine(self) -> bool:
        """Whether T is the identity, so that y is an affine function of z."""
        return type(self.output) is OutputMap
