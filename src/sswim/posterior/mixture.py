"""Mixtures: the predictive densities of several members, combined with weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.record import Record, map_chunks
from sswim.posterior.density import Density, rows_together
from sswim.posterior.density_batches import DensityBatches, batch_densities
from sswim.posterior.prediction import Prediction

_SMALL_SPREAD = 1e-100
"""Spread of targets below which, or above the inverse of which, variances may not be numbers."""


@dataclass(frozen=True)
class _MixtureRows(Record):
    """Tensors of a mixture with one entry for each row."""

    predictions: tuple[Prediction, ...]
    targets: Float64[Tensor, "N T"] | None


@dataclass(frozen=True)
class _Values(Record):
    """Values that are computed for each row."""

    values: Float64[Tensor, "N T *values"]


@dataclass(frozen=True)
class Mixture(Record):
    """A weighted mixture of the members' predictive densities, for every row and target."""

    members: tuple[Density, ...]
    """Predictive density of each member."""
    weights: Float64[Tensor, " members"]
    """Weights of the members; they add up to one."""

    @property
    def mean(self) -> Float64[Tensor, "N T"]:
        """Mean of an observation: the weighted mean of the members' means."""
        return self._moments[..., 0]

    @property
    def observation_variance(self) -> Float64[Tensor, "N T"]:
        """Variance of a new observation: within the members, and between their means."""
        return self._moments[..., 1]

    @property
    def standard_deviation(self) -> Float64[Tensor, "N T"]:
        """Standard deviation of a new observation, also where the variance over- or underflows."""
        return self._root(lambda mixture: mixture.observation_variance)

    @property
    def noise_deviation(self) -> Float64[Tensor, "N T"]:
        """Standard deviation of the noise alone, also where its variance over- or underflows."""
        return self._root(lambda mixture: mixture.noise_variance)

    def without_noise(self) -> Mixture:
        """Return the mixture of the members' densities of the function itself."""
        return Mixture(tuple(member.without_noise() for member in self.members), self.weights)

    @property
    def noise_variance(self) -> Float64[Tensor, "N T"]:
        """Variance of the noise alone: the weighted mean of the members' noise variances."""
        return self._map_rows(lambda batches, _: batches.noise_variance())

    def log_density(self, targets: Float64[Tensor, "N T"]) -> Float64[Tensor, "N T"]:
        """Return log p(y) of observations y."""
        return self._map_rows(lambda batches, y: batches.log_density(y), targets)

    def cdf(self, targets: Float64[Tensor, "N T"]) -> Float64[Tensor, "N T"]:
        """Return the probability that an observation is at most y."""
        return self._map_rows(lambda batches, y: batches.cdf(y), targets)

    def quantile(self, probability: float) -> Float64[Tensor, "N T"]:
        """Return the value that an observation stays below with a probability."""
        return self.quantiles([probability])[..., 0]

    def quantiles(self, probabilities: Sequence[float]) -> Float64[Tensor, "N T Q"]:
        """Return the values that an observation stays below with given probabilities."""
        levels = torch.tensor(probabilities, dtype=torch.float64, device=self.weights.device)
        return self._map_rows(lambda batches, _: batches.quantiles(levels))

    @cached_property
    def _moments(self) -> Float64[Tensor, "N T 2"]:
        """Mean and variance of an observation; cached, because quadrature takes time."""
        return self._map_rows(lambda batches, _: batches.moments())

    def _root(self, variance_of: Callable[[Mixture], Tensor]) -> Float64[Tensor, "N T"]:
        """Return the root of a variance, in units of the spread where that is very large or small.

        Args:
            variance_of: Returns the variance of a mixture.
        """
        spread = self.members[0].scaling.target_spread
        if bool(((spread > _SMALL_SPREAD) & (spread < 1 / _SMALL_SPREAD)).all()):
            return variance_of(self).sqrt()
        members = tuple(
            replace(
                member,
                scaling=replace(
                    member.scaling,
                    target_mean=member.scaling.target_mean / spread,
                    target_spread=torch.ones_like(spread),
                ),
            )
            for member in self.members
        )
        return variance_of(Mixture(members, self.weights)).sqrt() * spread

    def _map_rows(
        self,
        function: Callable[[DensityBatches, Any], Tensor],
        targets: Float64[Tensor, "N T"] | None = None,
    ) -> Tensor:
        """Apply a function to the members' densities in batches, and to targets, chunk by chunk."""

        def apply(rows: _MixtureRows) -> _Values:
            pairs = zip(self.members, rows.predictions, strict=True)
            densities = [replace(member, warped=prediction) for member, prediction in pairs]
            return _Values(function(batch_densities(densities, self.weights), rows.targets))

        rows = _MixtureRows(tuple(member.warped for member in self.members), targets)
        size = max(1, rows_together(self.members[0].warped.mean) // len(self.members))
        in_threads = targets is None or not targets.requires_grad
        return map_chunks(apply, rows, size, in_threads=in_threads).values


def equal_weights(n_members: int) -> Float64[Tensor, " members"]:
    """Return equal weights for members, which add up to one."""
    return torch.full((n_members,), 1 / n_members, dtype=torch.float64)
