"""What a method of regression must offer to be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float64


@runtime_checkable
class Predictive(Protocol):
    """Predictive densities of M observations, in the units of the target."""

    @property
    def mean(self) -> Float64[np.ndarray, " M"]:
        """Their means."""

    @property
    def variance(self) -> Float64[np.ndarray, " M"]:
        """Their variances."""

    def log_density(self, y: Float64[np.ndarray, " M"]) -> Float64[np.ndarray, " M"]:
        """log p(y) of each."""

    def interval(
        self, coverage: float
    ) -> tuple[Float64[np.ndarray, " M"], Float64[np.ndarray, " M"]]:
        """Ends of the central intervals with a nominal coverage."""


@runtime_checkable
class Fitted(Protocol):
    """A model that has seen its training rows."""

    def predict(self, x: Float64[np.ndarray, "M D"]) -> Predictive:
        """The densities of the targets of rows."""


@runtime_checkable
class Method(Protocol):
    """A way to fit a model to rows, with every setting fixed."""

    @property
    def libraries(self) -> tuple[str, ...]:
        """The distributions that do the work, whose versions are part of a result."""

    @property
    def max_rows(self) -> int | None:
        """The most training rows it is meant for."""

    def settings(self) -> Mapping[str, Any]:
        """What a reader needs to repeat it, as JSON can hold it."""

    def device(self, wanted: str) -> str:
        """The device it uses if this one is wanted."""

    def fit(
        self, x: Float64[np.ndarray, "N D"], y: Float64[np.ndarray, " N"], seed: int, device: str
    ) -> Fitted:
        """Learn from rows; the global random state is left alone."""


@runtime_checkable
class Tailored(Protocol):
    """A method whose settings were published for every data set."""

    def tailored(self, name: str) -> Method:
        """With the settings of a data set."""


@dataclass(frozen=True)
class Gaussian:
    """Gaussian predictive densities."""

    mean: Float64[np.ndarray, " M"]
    variance: Float64[np.ndarray, " M"]

    def log_density(self, y: Float64[np.ndarray, " M"]) -> Float64[np.ndarray, " M"]:
        """log p(y) of each."""
        error = np.square(y - self.mean) / self.variance
        return -0.5 * (error + np.log(2 * np.pi * self.variance))

    def interval(
        self, coverage: float
    ) -> tuple[Float64[np.ndarray, " M"], Float64[np.ndarray, " M"]]:
        """Ends of the central intervals with a nominal coverage."""
        half = NormalDist().inv_cdf(0.5 * (1 + coverage)) * np.sqrt(self.variance)
        return self.mean - half, self.mean + half
