"""The map of targets that all members share: standardised, then through one output warp.

Logarithmic maps of targets, for functions whose values span several orders of magnitude.

With the distance w = ±(e − y) of a target from one end e of the targets,

    z = (∓ log(1 + b·w)/b − m)/s,    dz/dy = 1/(s·(1 + b·w)).

Values near the end are stretched, and those far from it are squeezed. Outside the range of the
targets that it was made for, a map is continued by its tangents: the exponential would grow too
fast at one end, and has no value at all beyond the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.record import Record
from sswim.ensemble.joint_posterior import mapped_moments
from sswim.warps.output_warp import OutputMap


@dataclass(frozen=True)
class LogarithmicMap(OutputMap):
    """The map above, in its notation."""

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
        within = self._clamped(distance, self.reach)
        log_slope = -torch.log1p(self.strength * within)
        length = -log_slope / self.strength + (distance - within) * log_slope.exp()
        return (-self.direction * length - self.centre) / self.spread, log_slope - self.spread.log()

    def inverse(self, warped: Float64[Tensor, "*N"]) -> Float64[Tensor, "*N"]:
        """Return y, given z."""
        length = -self.direction * (self.spread * warped + self.centre)
        within = self._clamped(length, torch.log1p(self.strength * self.reach) / self.strength)
        exponent = self.strength * within
        distance = exponent.expm1() / self.strength + (length - within) * exponent.exp()
        return self.end - self.direction * distance

    @staticmethod
    def _clamped(values: Tensor, largest: Tensor) -> Tensor:
        return torch.minimum(values.clamp(min=0), largest)


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


def standardise(targets: Float64[Tensor, " N"]) -> TargetMap:
    """Return the map that standardises targets and no more; constant ones are only centred."""
    centre = targets.mean()
    spread = (targets - centre).square().mean().sqrt()
    # Rounding of the mean makes equal targets differ from it.
    smallest = torch.finfo(targets.dtype).eps * (1e-300 + targets.abs().max())
    return TargetMap(centre, torch.where(spread > 4 * smallest, spread, 1.0), OutputMap())
