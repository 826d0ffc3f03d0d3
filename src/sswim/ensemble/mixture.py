"""Mixtures: the predictive densities of several members, combined with weights.

Densities of members of one form are put into a batch once, when the mixture is made. Mean,
variance, quantiles and densities are read from the batches, in chunks of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from sswim.base.numerics import safeguarded_newton
from sswim.base.record import Record, map_chunks, stack_records
from sswim.ensemble.scores import mixture_crps
from sswim.members.density import Density, rows_together

_SCORE_ERROR = 1e-12
"""Error of a quantile's normal score below which it is exact enough."""

_SMALLEST_TAIL, _LARGEST_TAIL = 1e-300, 1 - 2.0**-53
"""Bounds on probabilities, so that their normal scores are finite."""

_SMALL_SPREAD = 1e-100
"""Spread of targets below which, or above the inverse of which, variances may not be numbers."""


@dataclass(frozen=True)
class Mixture(Record):
    """A weighted mixture of the members' predictive densities, for every row and target."""

    densities: tuple[Density, ...]
    """Batches of members of one form, with an axis of members in front."""
    weights: Float64[Tensor, " members"]
    """Weights of the members, batch after batch; they add up to one."""

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

    @property
    def noise_variance(self) -> Float64[Tensor, "N T"]:
        """Variance of the noise alone: the weighted mean of the members' noise variances."""
        return self._map_rows(
            lambda part, _: part._average([density.noise_variance for density in part.densities])
        )

    @property
    def target_spread(self) -> Float64[Tensor, " T"]:
        """Spread by which the targets were standardised."""
        return self.densities[0].scaling.target_spread

    def without_noise(self) -> Mixture:
        """Return the mixture of the members' densities of the function itself."""
        densities = tuple(density.without_noise() for density in self.densities)
        return Mixture(densities, self.weights)

    def log_density(self, targets: Float64[Tensor, "N T"]) -> Float64[Tensor, "N T"]:
        """Return log p(y) of observations y."""

        def log_density(part: Mixture, y: Tensor) -> Tensor:
            densities = torch.cat([density.log_density(y) for density in part.densities])
            return (densities + self.weights.log()[:, None, None]).logsumexp(0)

        return self._map_rows(log_density, targets)

    def cdf(self, targets: Float64[Tensor, "N T"]) -> Float64[Tensor, "N T"]:
        """Return the probability that an observation is at most y."""
        # Rounded weights may add up to a little more than one.
        return self._map_rows(
            lambda part, y: part._average([each.cdf(y) for each in part.densities]).clamp(0, 1),
            targets,
        )

    def quantile(self, probability: float) -> Float64[Tensor, "N T"]:
        """Return the value that an observation stays below with a probability."""
        return self.quantiles([probability])[..., 0]

    def quantiles(self, probabilities: Sequence[float]) -> Float64[Tensor, "N T Q"]:
        """Return the values that an observation stays below with given probabilities."""
        levels = torch.tensor(probabilities, dtype=torch.float64, device=self.weights.device)
        return self._map_rows(lambda part, _: part._quantiles(levels))

    def crps(self, targets: Float64[Tensor, "N 1"]) -> Float64[Tensor, " N"]:
        """Return the continuous ranked probability score of observations of one target."""

        def quantiles(level: float) -> Tensor:
            of_members = torch.cat([density.quantile(level) for density in self.densities])
            return of_members[..., 0].mT

        return mixture_crps(quantiles, self.weights, targets)

    @cached_property
    def _moments(self) -> Float64[Tensor, "N T 2"]:
        """Mean and variance of an observation; cached, because quadrature takes time."""

        def moments(part: Mixture, _: Tensor) -> Tensor:
            means = [density.mean for density in part.densities]
            mean = part._average(means)
            variances = [
                density.observation_variance + (own - mean).square()
                for density, own in zip(part.densities, means, strict=True)
            ]
            return torch.stack((mean, part._average(variances)), dim=-1)

        return self._map_rows(moments)

    def _quantiles(self, probabilities: Float64[Tensor, " Q"]) -> Float64[Tensor, "N T Q"]:
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

        def error_and_step(targets: Tensor) -> tuple[Tensor, Tensor]:
            tail, density = self._tail_and_density(targets, sign)
            score = sign * torch.special.ndtri(tail.clamp(_SMALLEST_TAIL, _LARGEST_TAIL))
            error = score - scores
            slope = density * math.sqrt(2 * math.pi) * (0.5 * score.square()).exp()
            return error, torch.where(error.abs() <= _SCORE_ERROR, 0.0, error / slope)

        quantiles = of_members[:, 0]
        if of_members.shape[1] > 1:
            quantiles = safeguarded_newton(
                error_and_step,
                torch.einsum("m,qmnt->qnt", self.weights, of_members),
                of_members.amin(1),
                of_members.amax(1),
                lambda targets: 4 * torch.finfo(torch.float64).eps * targets.abs(),
            )
        order = probabilities.argsort(stable=True)  # rounding may let quantiles fall
        increasing = quantiles[order].cummax(0).values[order.argsort()]
        return increasing.permute(1, 2, 0)

    def _tail_and_density(
        self, targets: Float64[Tensor, "Q N T"], sign: Float64[Tensor, "Q 1 1"]
    ) -> tuple[Float64[Tensor, "Q N T"], Float64[Tensor, "Q N T"]]:
        """Return the probability of at most y, or of more than y where the sign is −1, and p(y)."""
        parts = [d.tail_and_log_density(targets[:, None], sign[:, None]) for d in self.densities]
        tails, log_densities = (torch.cat(part, dim=1) for part in zip(*parts, strict=True))
        return (
            torch.einsum("m,qmnt->qnt", self.weights, tails),
            torch.einsum("m,qmnt->qnt", self.weights, log_densities.exp()),
        )

    def _average(self, values: Sequence[Float64[Tensor, "_ N T"]]) -> Float64[Tensor, "N T"]:
        """Return the weighted mean over all members, given the values of each batch."""
        return torch.einsum("m,mnt->nt", self.weights, torch.cat(list(values)))

    def _root(self, variance_of: Callable[[Mixture], Tensor]) -> Float64[Tensor, "N T"]:
        """Return the root of a variance, in units of the spread where that is very large or small.

        Args:
            variance_of: Returns the variance of a mixture.
        """
        spread = self.target_spread
        if bool(((spread > _SMALL_SPREAD) & (spread < 1 / _SMALL_SPREAD)).all()):
            return variance_of(self).sqrt()
        densities = tuple(
            replace(
                density,
                scaling=replace(
                    density.scaling,
                    target_mean=density.scaling.target_mean / spread,
                    target_spread=torch.ones_like(spread),
                ),
            )
            for density in self.densities
        )
        return variance_of(Mixture(densities, self.weights)).sqrt() * spread

    def _map_rows(
        self,
        function: Callable[[Mixture, Tensor], Tensor],
        targets: Float64[Tensor, "N T"] | None = None,
    ) -> Tensor:
        """Apply a function to the mixture and to targets, chunk by chunk of rows."""
        means = self.densities[0].warped.mean

        def apply(rows: Values) -> Values:
            begin, end = int(rows.values[0]), int(rows.values[-1]) + 1
            densities = tuple(
                replace(
                    density,
                    warped=density.warped.map(lambda values: values[:, begin:end].contiguous()),
                )
                for density in self.densities
            )
            part = self if end - begin == means.shape[1] else Mixture(densities, self.weights)
            return Values(function(part, means if targets is None else targets[begin:end]))

        size = max(1, rows_together(means[0]) // len(self.weights))
        in_threads = targets is None or not targets.requires_grad
        rows = Values(torch.arange(means.shape[1], device=means.device))
        return map_chunks(apply, rows, size, in_threads=in_threads).values


@dataclass(frozen=True)
class Values(Record):
    """Values that are computed for each row."""

    values: Float[Tensor, "N T *values"] | Int64[Tensor, " N"]


def mix(densities: Sequence[Density], weights: Float64[Tensor, " members"]) -> Mixture:
    """Put the densities of members into batches, by the form of output warps and predictions."""
    batches: dict[tuple[object, ...], list[int]] = {}
    for number, density in enumerate(densities):
        shapes = tuple(tensor.shape for tensor in density.output.tensors())
        form = type(density.output), shapes, density.warped.degrees is None
        batches.setdefault(form, []).append(number)
    return Mixture(
        tuple(
            Density(
                stack_records(densities[number].warped for number in numbers),
                stack_records(densities[number].output for number in numbers),
                densities[numbers[0]].scaling,
            )
            for numbers in batches.values()
        ),
        torch.cat([weights[numbers] for numbers in batches.values()]),
    )


def equal_weights(n_members: int) -> Float64[Tensor, " members"]:
    """Return equal weights for members, which add up to one."""
    return torch.full((n_members,), 1 / n_members, dtype=torch.float64)
