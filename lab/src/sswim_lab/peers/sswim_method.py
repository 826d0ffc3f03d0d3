"""SSWIM as one of the compared methods, with this package's defaults or the paper's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float64

from sswim.base.validation import require_choice, require_integer
from sswim.ensemble.plan import Recipe
from sswim.estimator import BaseRegressor, make_estimator
from sswim.estimator.settings import Auto
from sswim_lab.peers.protocol import Fitted, Method, TorchMethod
from sswim_lab.peers.published_sswim import PublishedSSWIM

Preset = Literal["default", "paper"]

SCORED_ROWS = 4096
"""Number of rows whose quantiles are in memory at once."""


def sswim(depth: int | Auto = "auto", preset: str = "default") -> Method:
    """Return SSWIM as a method, at a given depth.

    Args:
        depth: Number of warps; ``"auto"`` is the ensemble, which only this package has.
        preset: ``"default"`` is ``SSWIMRegressor``; ``"paper"`` is the published method, whose
            ``for_data_set`` chooses the settings published for a data set.
    """
    require_choice("preset", preset, Preset)
    if depth != "auto":
        require_integer("depth", depth, 0)
    if preset == "default":
        return SSWIM({} if depth == "auto" else {"depth": depth})
    if depth == "auto":
        raise ValueError(
            'preset="paper" needs a depth, because the paper has no ensemble. Got depth="auto"; '
            "choose a number of warps."
        )
    return PublishedSSWIM(depth)


@dataclass(frozen=True)
class SSWIM(TorchMethod):
    """The estimator of this package."""

    changes: Mapping[str, Any] = field(default_factory=dict)
    """Settings that differ from the defaults; a depth or neighbours choose the estimator."""

    def settings(self) -> Mapping[str, Any]:
        """Return what differs from the defaults, the recipe's fields one by one."""
        changes = dict(self.changes)
        recipe = changes.pop("recipe", None)
        if recipe is not None:
            default, given = asdict(Recipe()), asdict(recipe)
            changes |= {name: given[name] for name in given if given[name] != default[name]}
        return changes

    def fit(
        self, x: Float64[np.ndarray, "N D"], y: Float64[np.ndarray, " N"], seed: int, device: str
    ) -> Fitted:
        """Fit the estimator."""
        regressor = make_estimator(**{"random_state": seed, "device": device, **self.changes})
        return FittedSSWIM(regressor.fit(x, y))


@dataclass(frozen=True)
class FittedSSWIM:
    """A fitted estimator."""

    regressor: BaseRegressor

    def predict(self, x: Float64[np.ndarray, "M D"]) -> SSWIMPredictive:
        """Return the predictive densities at rows."""
        mean, std = self.regressor.predict(x, return_std=True)
        return SSWIMPredictive(self.regressor, x, mean, std)


@dataclass(frozen=True)
class SSWIMPredictive:
    """Predictive densities of a fitted estimator at rows; they need not be Gaussian."""

    regressor: BaseRegressor
    x: Float64[np.ndarray, "M D"]
    mean: Float64[np.ndarray, " M"]
    std: Float64[np.ndarray, " M"]

    @property
    def variance(self) -> Float64[np.ndarray, " M"]:
        """Variances of the observations."""
        return np.square(self.std)

    def log_density(self, y: Float64[np.ndarray, " M"]) -> Float64[np.ndarray, " M"]:
        """Return log p(y) of every observation."""
        return self.regressor.log_density(self.x, y)

    def interval(
        self, coverage: float
    ) -> tuple[Float64[np.ndarray, " M"], Float64[np.ndarray, " M"]]:
        """Return the ends of the central intervals with a nominal coverage."""
        return self.regressor.predict_interval(self.x, coverage)

    def crps(self, y: Float64[np.ndarray, " M"]) -> Float64[np.ndarray, " M"]:
        """Return the continuous ranked probability score of every observation."""
        parts = []
        for start in range(0, len(y), SCORED_ROWS):
            chunk = slice(start, start + SCORED_ROWS)
            mixture = self.regressor.predict_distribution(self.x[chunk])
            targets = torch.as_tensor(y[chunk, None], device=mixture.weights.device)
            parts.append(mixture.crps(targets).cpu().numpy())
        return np.concatenate(parts)
