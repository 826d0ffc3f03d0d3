"""The estimator of this package behind the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float64

from sswim.base.devices import resolve_device
from sswim.estimator.regressor import SSWIMRegressor
from sswim.lab.peers.protocol import Fitted
from sswim.recipe.recipe import Recipe


@dataclass(frozen=True)
class SSWIM:
    """The estimator of this package."""

    changes: Mapping[str, Any] = field(default_factory=dict)
    """Settings that are not the default ones."""
    libraries: tuple[str, ...] = ("torch",)
    max_rows: int | None = None

    def settings(self) -> Mapping[str, Any]:
        """What differs from the defaults."""
        changes = dict(self.changes)
        recipe = changes.pop("recipe", None)
        if recipe is not None:
            default, given = asdict(Recipe()), asdict(recipe)
            changes |= {name: given[name] for name in given if given[name] != default[name]}
        return changes

    def device(self, wanted: str) -> str:
        """Any that PyTorch has."""
        return str(resolve_device(wanted))

    def fit(
        self, x: Float64[np.ndarray, "N D"], y: Float64[np.ndarray, " N"], seed: int, device: str
    ) -> Fitted:
        """Fit the estimator."""
        regressor = SSWIMRegressor(**{"random_state": seed, "device": device, **self.changes})
        return FittedSSWIM(regressor.fit(x, y))


@dataclass(frozen=True)
class FittedSSWIM:
    """A fitted estimator."""

    regressor: SSWIMRegressor

    def predict(self, x: Float64[np.ndarray, "M D"]) -> SSWIMPredictive:
        """The densities of the targets of rows."""
        mean, std = self.regressor.predict(x, return_std=True)
        return SSWIMPredictive(self.regressor, x, mean, std)


@dataclass(frozen=True)
class SSWIMPredictive:
    """The densities of an estimator at rows; they need not be Gaussian."""

    regressor: SSWIMRegressor
    x: Float64[np.ndarray, "M D"]
    mean: Float64[np.ndarray, " M"]
    std: Float64[np.ndarray, " M"]

    @property
    def variance(self) -> Float64[np.ndarray, " M"]:
        """Of an observation."""
        return np.square(self.std)

    def log_density(self, y: Float64[np.ndarray, " M"]) -> Float64[np.ndarray, " M"]:
        """log p(y) of each."""
        return self.regressor.log_density(self.x, y)

    def interval(
        self, coverage: float
    ) -> tuple[Float64[np.ndarray, " M"], Float64[np.ndarray, " M"]]:
        """Ends of the central intervals with a nominal coverage."""
        return self.regressor.predict_interval(self.x, coverage)
