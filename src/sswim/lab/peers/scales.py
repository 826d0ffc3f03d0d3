"""The scales of training rows, which most methods standardise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor


@dataclass(frozen=True)
class Scales:
    """Means and spreads of training rows, and where and how precisely a process computes."""

    centre: Float64[np.ndarray, " D"]
    spread: Float64[np.ndarray, " D"]
    target_centre: float
    target_spread: float
    device: str
    dtype: torch.dtype

    @classmethod
    def of(
        cls,
        x: Float64[np.ndarray, "N D"],
        y: Float64[np.ndarray, " N"],
        device: str,
        dtype: torch.dtype,
    ) -> Scales:
        """Those of rows; a constant column keeps its unit."""
        spread = x.std(axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        return cls(x.mean(axis=0), spread, float(y.mean()), float(y.std()) or 1.0, device, dtype)

    def inputs(self, x: Float64[np.ndarray, "N D"]) -> Float[Tensor, "N D"]:
        """To zero mean and unit spread."""
        return self._tensor((x - self.centre) / self.spread)

    def targets(self, y: Float64[np.ndarray, " N"]) -> Float[Tensor, " N"]:
        """To zero mean and unit spread."""
        return self._tensor((y - self.target_centre) / self.target_spread)

    def original(
        self, mean: Float[Tensor, "*samples M"], variance: Float[Tensor, "*samples M"]
    ) -> tuple[Float64[np.ndarray, "*samples M"], Float64[np.ndarray, "*samples M"]]:
        """Means and variances in the units of the target."""
        standard_mean, standard_variance = (
            moment.cpu().numpy().astype(np.float64) for moment in (mean, variance)
        )
        return (
            self.target_centre + self.target_spread * standard_mean,
            self.target_spread**2 * standard_variance,
        )

    def _tensor(self, values: Float64[np.ndarray, "*shape"]) -> Float[Tensor, "*shape"]:
        return torch.as_tensor(values, device=self.device, dtype=self.dtype)
