"""The map of targets that all members share: standardised, then through one output warp."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.record import Record
from sswim.model.output_warp import OutputMap
from sswim.posterior.mapped_moments import mapped_moments


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
