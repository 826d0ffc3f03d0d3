"""Standardised training rows, which every GP is fitted to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sswim.base.record import Record
from sswim.rows.rows import as_measure, as_rows
from sswim.rows.scaling import Scaling, learn_scaling
from sswim_lab.peers.protocol import Gaussian


@dataclass(frozen=True)
class StandardisedRows(Record):
    """Training rows with zero mean and unit spread, on the device that computes."""

    x: Float[Tensor, "N D"]
    y: Float[Tensor, " N"]
    scaling: Scaling
    """Means and spreads of the original rows, in float64."""

    def inputs(self, x: Float64[np.ndarray, "M D"]) -> Float[Tensor, "M D"]:
        """Standardise the inputs of other rows, and move them to the device."""
        measure = as_measure(x).to(device=self.x.device)
        return self.scaling.inputs(measure).mean.to(self.x.dtype)

    def gaussian(self, mean: Float[Tensor, " M"], variance: Float[Tensor, " M"]) -> Gaussian:
        """Return Gaussian densities in the units of the target, from standardised moments."""
        mean, variance = mean.to(torch.float64), variance.to(torch.float64)
        original = self.scaling.original_targets(mean[:, None])[:, 0]
        variance = variance * self.scaling.target_spread.square()
        return Gaussian(original.cpu().numpy(), variance.cpu().numpy())


def standardise(
    x: Float64[np.ndarray, "N D"],
    y: Float64[np.ndarray, " N"],
    device: str,
    dtype: torch.dtype = torch.float64,
) -> StandardisedRows:
    """Standardise training rows; a constant column becomes zeros."""
    rows = as_rows(x, y)
    scaling = learn_scaling(rows)
    rows, place = scaling.rows(rows), torch.device(device)
    return StandardisedRows(
        rows.inputs.mean.to(place, dtype),
        rows.targets[:, 0].to(place, dtype),
        scaling.to(device=place),
    )
