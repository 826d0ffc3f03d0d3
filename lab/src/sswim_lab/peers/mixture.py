"""Predictive densities that are mixtures, read as those of the library."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.ensemble.mixture import Mixture
from sswim.ensemble.scores import mixture_crps
from sswim.members.density import Density
from sswim.members.linear_regression import Prediction
from sswim.rows import Scaling
from sswim.warps.output_warp import OutputMap


def gaussian_mixture(
    weights: Float64[Tensor, " Q"],
    means: Float64[Tensor, "Q M"],
    variances: Float64[Tensor, "Q M"],
    scaling: Scaling,
) -> Mixture:
    """Return mixtures of Gaussian densities of standardised targets, in the target's units."""
    columns = means[..., None], variances[..., None]
    warped = Prediction(columns[0], columns[1], columns[1])
    return Mixture((Density(warped, OutputMap(), scaling),), weights)


@dataclass(frozen=True)
class MixturePredictive:
    """Mixtures as predictive densities of a single target."""

    mixtures: Callable[[], Iterable[Mixture]]
    """Makes the mixtures of one chunk of rows after another.

    They are made anew for every use, because those of all rows may not fit into memory.
    """

    @cached_property
    def _moments(self) -> Float64[np.ndarray, "M 2"]:
        return self._gather(
            lambda mixture, _: torch.cat((mixture.mean, mixture.observation_variance), dim=1)
        )

    @property
    def mean(self) -> Float64[np.ndarray, " M"]:
        """Means of the densities."""
        return self._moments[:, 0]

    @property
    def variance(self) -> Float64[np.ndarray, " M"]:
        """Variances of the observations."""
        return self._moments[:, 1]

    def log_density(self, y: Float64[np.ndarray, " M"]) -> Float64[np.ndarray, " M"]:
        """Return log p(y) of every observation."""
        return self._gather(Mixture.log_density, y)[:, 0]

    def interval(
        self, coverage: float
    ) -> tuple[Float64[np.ndarray, " M"], Float64[np.ndarray, " M"]]:
        """Return the ends of the central intervals with a nominal coverage."""
        levels = (0.5 * (1 - coverage), 0.5 * (1 + coverage))
        low, high = self._gather(lambda mixture, _: mixture.quantiles(levels)[:, 0]).T
        return low, high

    def crps(self, y: Float64[np.ndarray, " M"]) -> Float64[np.ndarray, " M"]:
        """Return the continuous ranked probability score of every observation."""
        # By quantiles of the mixtures: there may be more components than levels.
        return self._gather(
            lambda mixture, targets: mixture_crps(mixture.quantile, targets.new_ones(1), targets), y
        )

    def _gather(
        self,
        function: Callable[[Mixture, Tensor], Tensor],
        y: Float64[np.ndarray, " M"] | None = None,
    ) -> Float64[np.ndarray, M * values]:
        """Apply a function to the mixtures of each chunk of rows, and to its observations."""
        parts, start = [], 0
        for mixture in self.mixtures():
            stop = start + mixture.densities[0].warped.mean.shape[1]
            targets = mixture.weights.new_tensor([] if y is None else y[start:stop])
            parts.append(function(mixture, targets[:, None]))
            start = stop
        return torch.cat(parts).cpu().numpy()
