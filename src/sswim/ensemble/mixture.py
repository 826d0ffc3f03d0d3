"""Mixtures: the predictive densities of several members, combined with weights.

Densities of several members, computed together: one batch for members of the same form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.numerics import safeguarded_newton
from sswim.base.record import Record, map_chunks, stack_records
from sswim.members.density import Density, rows_together
from sswim.members.linear_regression import Prediction

_SCORE_ERROR = 1e-12
"""Error of a quantile's normal score below which it counts as found."""

_SMALLEST_TAIL, _LARGEST_TAIL = 1e-300, 1 - 2.0**-53
"""Bounds on probabilities, so that their normal scores are finite."""


@dataclass(frozen=True)
class DensityBatches(Record):
    """Densities of the members of a mixture in batches, with an axis of members in front."""

    densities: tuple[Density, ...]
    """Batches of members whose output warps and predictions have the same form."""
    weights: tuple[Float64[Tensor, " _"], ...]
    """Weights of the members of each batch; over all batches they add up to one."""

    def moments(self) -> Float64[Tensor, "N T 2"]:
        """Return the mean and the variance of a new observation."""
        means = [density.mean for density in self.densities]
        mean = self._average(means)
        within = [density.observation_variance for density in self.densities]
        between = [(each - mean).square() for each in means]
        variance = self._average([a + b for a, b in zip(within, between, strict=True)])
        return torch.stack((mean, variance), dim=-1)

    def noise_variance(self) -> Float64[Tensor, "N T"]:
        """Return the weighted mean of the members' noise variances."""
        return self._average([density.noise_variance for density in self.densities])

    def log_density(self, targets: Float64[Tensor, "N T"]) -> Float64[Tensor, "N T"]:
        """Return log p(y) of observations y."""
        densities = torch.cat([density.log_density(targets) for density in self.densities])
        return (densities + torch.cat(self.weights).log()[:, None, None]).logsumexp(0)

    def cdf(self, targets: Float64[Tensor, "N T"]) -> Float64[Tensor, "N T"]:
        """Return the probability that an observation is at most y."""
        # Rounded weights may add up to a little more than one.
        return self._average([density.cdf(targets) for density in self.densities]).clamp(0, 1)

    def quantiles(self, probabilities: Float64[Tensor, " Q"]) -> Float64[Tensor, "N T Q"]:
        """Return the values that an observation stays below with given probabilities.

        A single member has them in closed form. For several they lie between the quantiles of the
        members, and are found by Newton steps for the normal score of the probability: as a
        function of y it is a straight line for one Gaussian, and nearly so for most mixtures.
        """
        # The smaller tail, because probabilities near one are rounded.
        is_upper = probabilities > 0.5
        sign = 1 - 2 * is_upper.to(torch.float64)[:, None, None]
        tails = torch.where(is_upper, 1 - probabilities, probabilities)
        scores = sign * torch.special.ndtri(tails)[:, None, None]
        of_members = torch.cat(
            [density.at_normal(scores[:, 0, 0]) for density in self.densities], dim=1
        )  # (Q, members, N, T)
        if of_members.shape[1] == 1:
            return _ordered(of_members[:, 0], probabilities).permute(1, 2, 0)

        def error_and_step(targets: Tensor) -> tuple[Tensor, Tensor]:
            tail, density = self._tail_and_density(targets, sign)
            score = sign * torch.special.ndtri(tail.clamp(_SMALLEST_TAIL, _LARGEST_TAIL))
            error = score - scores
            slope = density * math.sqrt(2 * math.pi) * (0.5 * score.square()).exp()
            return error, torch.where(error.abs() <= _SCORE_ERROR, 0.0, error / slope)

        found = safeguarded_newton(
            error_and_step,
            torch.einsum("m,qmnt->qnt", torch.cat(self.weights), of_members),
            of_members.amin(1),
            of_members.amax(1),
            lambda targets: 4 * torch.finfo(torch.float64).eps * targets.abs(),
        )
        return _ordered(found, probabilities).permute(1, 2, 0)

    def _tail_and_density(
        self, targets: Float64[Tensor, "Q N T"], sign: Float64[Tensor, "Q 1 1"]
    ) -> tuple[Float64[Tensor, "Q N T"], Float64[Tensor, "Q N T"]]:
        """Return the probability of at most y, or of more than y where the sign is −1, and p(y)."""
        parts = [d.tail_and_log_density(targets[:, None], sign[:, None]) for d in self.densities]
        tails, log_densities = (torch.cat(each, dim=1) for each in zip(*parts, strict=True))
        weights = torch.cat(self.weights)
        return (
            torch.einsum("m,qmnt->qnt", weights, tails),
            torch.einsum("m,qmnt->qnt", weights, log_densities.exp()),
        )

    def _average(self, values: Sequence[Float64[Tensor, "_ N T"]]) -> Float64[Tensor, "N T"]:
        """Return the weighted mean over all members, given the values of each batch."""
        return torch.einsum("m,mnt->nt", torch.cat(self.weights), torch.cat(list(values)))


def batch_densities(
    densities: Sequence[Density], weights: Float64[Tensor, " members"]
) -> DensityBatches:
    """Put the densities of members into batches."""
    batches: dict[tuple[object, ...], list[int]] = {}
    for number, density in enumerate(densities):
        batches.setdefault(_form(density), []).append(number)
    return DensityBatches(
        tuple(
            Density(
                stack_records(densities[number].warped for number in numbers),
                stack_records(densities[number].output for number in numbers),
                densities[numbers[0]].scaling,
            )
            for numbers in batches.values()
        ),
        tuple(weights[numbers] for numbers in batches.values()),
    )


def _ordered(
    quantiles: Float64[Tensor, "Q N T"], probabilities: Float64[Tensor, " Q"]
) -> Float64[Tensor, "Q N T"]:
    """Return quantiles that do not fall with the probability, as rounding may let them."""
    order = probabilities.argsort(stable=True)
    return quantiles[order].cummax(0).values[order.argsort()]


def _form(density: Density) -> tuple[object, ...]:
    """Return what the densities of a batch have in common."""
    shapes = tuple(tensor.shape for tensor in density.output.tensors())
    return type(density.output), shapes, density.warped.degrees is None


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
