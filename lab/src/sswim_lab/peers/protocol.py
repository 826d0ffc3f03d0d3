"""The protocol of the methods that are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float64

from sswim.ensemble.scores import gaussian_crps


@runtime_checkable
class Predictive(Protocol):
    """Predictive densities of M observations, in the units of the target."""

    @property
    def mean(self) -> Float64[np.ndarray, " M"]:
        """Means of the densities."""

    @property
    def variance(self) -> Float64[np.ndarray, " M"]:
        """Variances of the densities."""

    def log_density(self, y: Float64[np.ndarray, " M"]) -> Float64[np.ndarray, " M"]:
        """Return log p(y) of every observation."""

    def interval(
        self, coverage: float
    ) -> tuple[Float64[np.ndarray, " M"], Float64[np.ndarray, " M"]]:
        """Return the ends of the central intervals with a nominal coverage."""

    def crps(self, y: Float64[np.ndarray, " M"]) -> Float64[np.ndarray, " M"]:
        """Return the continuous ranked probability score of every observation."""


@runtime_checkable
class Fitted(Protocol):
    """A fitted model."""

    def predict(self, x: Float64[np.ndarray, "M D"]) -> Predictive:
        """Return the predictive densities at rows."""


@runtime_checkable
class Method(Protocol):
    """A way to fit a model to rows, with every setting fixed."""

    @property
    def libraries(self) -> tuple[str, ...]:
        """Distributions that do the work, whose versions are stored with a result."""

    @property
    def max_rows(self) -> int | None:
        """Largest number of training rows that the method is meant for; None without a limit."""

    def settings(self) -> Mapping[str, Any]:
        """Return the settings that a reader needs to repeat a fit, in types that JSON has."""

    def device(self, wanted: str) -> str:
        """Return the name of the device that is used if this one is wanted."""

    def fit(
        self, x: Float64[np.ndarray, "N D"], y: Float64[np.ndarray, " N"], seed: int, device: str
    ) -> Fitted:
        """Fit a model to rows, without changing the global random state."""


@runtime_checkable
class TunedPerDataSet(Protocol):
    """A method whose settings were published for every data set."""

    def for_data_set(self, name: str) -> Method:
        """Return the method with the settings of a data set."""


@dataclass(frozen=True)
class Gaussian:
    """Gaussian predictive densities."""

    mean: Float64[np.ndarray, " M"]
    variance: Float64[np.ndarray, " M"]

    def log_density(self, y: Float64[np.ndarray, " M"]) -> Float64[np.ndarray, " M"]:
        """Return log p(y) of every observation."""
        error = np.square(y - self.mean) / self.variance
        return -0.5 * (error + np.log(2 * np.pi * self.variance))

    def interval(
        self, coverage: float
    ) -> tuple[Float64[np.ndarray, " M"], Float64[np.ndarray, " M"]]:
        """Return the ends of the central intervals with a nominal coverage."""
        half = NormalDist().inv_cdf(0.5 * (1 + coverage)) * np.sqrt(self.variance)
        return self.mean - half, self.mean + half

    def crps(self, y: Float64[np.ndarray, " M"]) -> Float64[np.ndarray, " M"]:
        """Return the continuous ranked probability score of every observation."""
        return gaussian_crps(self.mean, self.variance, y)
