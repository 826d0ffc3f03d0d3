"""A function to minimise over a box."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from sswim_lab.optimisation.optima import OPTIMA, Optimum

Bounds = tuple[tuple[float, float], ...]
"""The lower and upper end of every input."""


@dataclass(frozen=True)
class Problem:
    """A deterministic function to minimise, whose inputs are mapped from the unit cube."""

    name: str
    bounds: Bounds
    function: Callable[[Float64[np.ndarray, " D"]], float]
    """The function of inputs between the bounds."""
    nonstationary: bool
    """Whether the smoothness of the function changes across its inputs."""
    libraries: tuple[str, ...] = ()
    """Optional distributions that the function needs."""
    fresh: bool = False
    """Whether the settings of this package's model were fixed before it was tried here."""

    @property
    def dimension(self) -> int:
        """Number of inputs."""
        return len(self.bounds)

    @property
    def optimum(self) -> Optimum:
        """The least value that a long search found, and where."""
        return OPTIMA[self.name]

    def scale(self, point: Float64[np.ndarray, " D"]) -> Float64[np.ndarray, " D"]:
        """Map a point of the unit cube to the box."""
        lower, upper = np.array(self.bounds).T
        # Rounding puts some points at the border outside.
        return np.clip(lower + (upper - lower) * point, lower, upper)

    def __call__(self, point: Float64[np.ndarray, " D"]) -> float:
        """Return the value at a point of the unit cube."""
        return float(self.function(self.scale(point)))
