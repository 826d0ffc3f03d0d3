"""A reference for the CRPS, an integral."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from sswim.ensemble.mixture import Mixture
from sswim.members.density import Density

Array = NDArray[np.float64]


def integrated_crps(
    cdf: Callable[[Array], Array], y: Array, low: float, high: float, n: int = 20_000
) -> Array:
    """Return ∫ (F(t) − 1{t ≥ y})² dt of every observation, by the midpoint rule.

    Args:
        cdf: Returns F at values, of which every observation has a row.
        y: The observations.
        low: The lower end of the integral.
        high: The upper end.
        n: Number of values on each side of an observation.
    """
    steps, middle = (np.arange(n) + 0.5) / n, y[:, None]
    below = np.square(cdf(low + (middle - low) * steps)).mean(1)
    above = np.square(1 - cdf(middle + (high - middle) * steps)).mean(1)
    crps: Array = (y - low) * below + (high - y) * above
    return crps


def cdf_of_rows(density: Density | Mixture) -> Callable[[Array], Array]:
    """Return the distribution functions of a density's rows, for ``integrated_crps``."""

    def cdf(values: Array) -> Array:
        columns = torch.as_tensor(values).split(1, dim=1)
        return torch.cat([density.cdf(column) for column in columns], 1).numpy()

    return cdf
