"""The map of targets that all members share: standardised, then through one output warp.

The warp is the identity or a logarithmic map. Values that span orders of magnitude, such as losses
that blow up in a corner, are smooth on a logarithmic scale and not on their own. The evidence of y,
that of z plus Σ log dz/dy, says so. It chooses the map, by small models that see the targets
through each of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.record import Record
from sswim.ensemble.joint_posterior import mapped_moments
from sswim.members.exact_members import ExactRows
from sswim.members.exact_model import ExactKind, ExactModels
from sswim.members.exact_training import ExactTraining, MapParts
from sswim.warps.output_warp import OutputMap


@dataclass(frozen=True)
class TargetMap(Record):
    """The increasing map z = T((y − m)/s) of targets.

    All members share it. So the mixture of their Gaussian predictions of z has Gaussian moments,
    and draws of z become draws of y.
    """

    centre: Float64[Tensor, ""]
    """m, the mean of the targets."""
    spread: Float64[Tensor, ""]
    """s, their standard deviation."""
    warp: OutputMap
    """T, the output warp."""

    def forward(
        self, targets: Float64[Tensor, "*Y"]
    ) -> tuple[Float64[Tensor, "*Y"], Float64[Tensor, "*Y"]]:
        """Return z, and the slope dz/dy."""
        warped, log_slope = self.warp.forward(((targets - self.centre) / self.spread)[..., None])
        return warped[..., 0], (log_slope[..., 0]).exp() / self.spread

    def inverse(self, warped: Float64[Tensor, "*Z"]) -> Float64[Tensor, "*Z"]:
        """Return y, given z."""
        flat = self.warp.inverse(warped.reshape(-1, 1))
        return self.centre + self.spread * flat.reshape(warped.shape)

    def rescale(self, offset: Float64[Tensor, ""], scale: Float64[Tensor, ""]) -> TargetMap:
        """Return the map of targets in other units, offset + scale·y."""
        return replace(self, centre=offset + scale * self.centre, spread=scale * self.spread)

    def moments(
        self, mean: Float64[Tensor, "*B N"], covariance: Float64[Tensor, "*B N N"]
    ) -> tuple[Float64[Tensor, "*B N"], Float64[Tensor, "*B N N"]]:
        """Return mean and covariance of y, where z is jointly Gaussian."""
        if type(self.warp) is OutputMap:  # the identity
            return self.centre + self.spread * mean, self.spread.square() * covariance
        return mapped_moments(self.inverse, mean, covariance)


@dataclass(frozen=True)
class LogarithmicMap(OutputMap):
    """A map of targets that spreads values next to one end of them.

    With the distance w = ±(e − y) of a target from one end e of the targets,

        z = (∓ log(1 + b·w)/b − m)/s,    dz/dy = 1/(s·(1 + b·w)).

    Values near the end are stretched, and those far from it are squeezed. Outside the range of the
    targets that it was made for, a map is continued by its tangents: the exponential would grow too
    fast at one end, and has no value at all beyond the other.
    """

    direction: Float64[Tensor, ""]
    """±1: whether the upper or the lower end of the targets is stretched."""
    end: Float64[Tensor, ""]
    """e, the end that is stretched."""
    reach: Float64[Tensor, ""]
    """w of the other end."""
    strength: Float64[Tensor, ""]
    """b: the slope falls by the factor 1 + b over a distance of one."""
    centre: Float64[Tensor, ""]
    """m, which centres the mapped targets."""
    spread: Float64[Tensor, ""]
    """s, which gives them a variance of one."""

    @staticmethod
    def of(targets: Float64[Tensor, " N"], direction: float, strength: float) -> LogarithmicMap:
        """Return the map that standardises targets; they must not all be equal."""
        low, high = targets.min(), targets.max()
        zero = torch.zeros_like(low)
        plain = LogarithmicMap(
            zero + direction,
            high if direction > 0 else low,
            high - low,
            zero + strength,
            zero,
            zero + 1,
        )
        mapped = plain.forward(targets)[0]
        return replace(plain, centre=mapped.mean(), spread=mapped.std(correction=0))

    def forward(
        self, targets: Float64[Tensor, "*N"]
    ) -> tuple[Float64[Tensor, "*N"], Float64[Tensor, "*N"]]:
        """Return z and log dz/dy."""
        distance = self.direction * (self.end - targets)  # w
        within = torch.minimum(distance.clamp(min=0), self.reach)
        log_slope = -torch.log1p(self.strength * within)
        length = -log_slope / self.strength + (distance - within) * log_slope.exp()
        return (-self.direction * length - self.centre) / self.spread, log_slope - self.spread.log()

    def inverse(self, warped: Float64[Tensor, "*N"]) -> Float64[Tensor, "*N"]:
        """Return y, given z."""
        length = -self.direction * (self.spread * warped + self.centre)
        longest = torch.log1p(self.strength * self.reach) / self.strength
        within = torch.minimum(length.clamp(min=0), longest)
        exponent = self.strength * within
        distance = exponent.expm1() / self.strength + (length - within) * exponent.exp()
        return self.end - self.direction * distance


def standardise(targets: Float64[Tensor, " N"]) -> TargetMap:
    """Return the map that standardises targets and no more; constant ones are only centred."""
    centre = targets.mean()
    spread = (targets - centre).square().mean().sqrt()
    # Rounding of the mean makes equal targets differ from it.
    smallest = torch.finfo(targets.dtype).eps * (1e-300 + targets.abs().max())
    return TargetMap(centre, torch.where(spread > 4 * smallest, spread, 1.0), OutputMap())


STRENGTHS = (1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6)
"""b of the logarithmic maps, for standardised targets."""

PILOTS = (ExactKind("rbf", monotone=True), ExactKind("rbf", additive=True))
"""Kinds of the models that compare the maps."""

PRIOR = -3.0
"""Log prior probability of each logarithmic map, relative to that of none."""

LARGEST_BEND = 0.3
"""Largest relative change of a map's slope over the deviation of known noise."""

N_BENT, LARGEST_STRETCH = 2, 10.0
"""A map's slope falls by no more than about this factor over the range of so many rows next to the
end, and a tenth of all rows."""

SMALLEST_COMPARED = 8
"""With fewer rows targets are only standardised."""


@torch.no_grad()
def choose_map(rows: ExactRows, n_steps: int, map_parts: MapParts = map) -> TargetMap:
    """Return the map of targets whose posterior probability is largest.

    Args:
        rows: Rows as members see them, with the targets y.
        n_steps: Number of training steps of the models that compare the maps.
        map_parts: Computes parts of the evidence, perhaps several at once.
    """
    standard = standardise(rows.targets)
    standardised = standard.forward(rows.targets)[0]
    constant = standardised.square().mean() < 0.5  # but for rounding
    if len(rows.targets) < SMALLEST_COMPARED or constant:
        return standard
    noise = 0.0 if rows.variance is None else rows.variance.max().sqrt() / standard.spread
    maps = [replace(standard, warp=warp) for warp in _warps(standardised, float(noise))]
    mapped = (target_map.forward(rows.targets) for target_map in maps)
    targets, slopes = (
        torch.stack(values).repeat(len(PILOTS), 1) for values in zip(*mapped, strict=True)
    )
    variance = None if rows.variance is None else rows.variance * slopes.square()
    kinds = [kind for kind in PILOTS for _ in maps]
    # Kinds without warps draw no random numbers.
    models = ExactModels(kinds, rows.inputs.cpu(), variance is not None, torch.Generator())
    training = ExactTraining(
        models.to(rows.inputs.device),
        rows.inputs,
        targets,
        variance,
        torch.zeros_like(targets, dtype=torch.bool),
        map_parts,
    )
    training.run(n_steps)
    log_densities = slopes.log().sum(-1) - training.negative_log_posteriors()
    by_map = log_densities.reshape(len(PILOTS), len(maps)).logsumexp(0)
    by_map[1:] += PRIOR
    return maps[int(by_map.nan_to_num(nan=-torch.inf).argmax())]


def _warps(standardised: Tensor, noise: float) -> Iterator[OutputMap]:
    """Yield the identity, and logarithmic maps of either direction.

    Maps are nearly straight over the deviation of known noise; else Gaussian noise would not stay
    Gaussian. Nor do they bend before there are some rows: a map that sets the last row apart gives
    it a large density, and says nothing about the others.
    """
    yield OutputMap()
    some = 1 + N_BENT + len(standardised) // 10
    for direction in (1.0, -1.0):
        distances = (direction * standardised).sort(descending=True).values
        nearest = float(distances[0] - distances[min(some, len(distances)) - 1])
        for strength in STRENGTHS:
            if strength * noise <= LARGEST_BEND and strength * nearest <= LARGEST_STRETCH:
                yield LogarithmicMap.of(standardised, direction, strength)
