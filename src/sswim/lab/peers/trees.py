"""Boosted trees of three libraries.

Each standardises the target and stops early on a random tenth of the training rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float64

from sswim.lab.peers.protocol import Fitted, Gaussian

MAX_TREES = 1000
PATIENCE = 50
"""Number of trees without a gain on the held-out rows after which training ends."""
HELD_OUT_VARIANCE = "Gaussian, its constant variance the mean square error on the held-out tenth"


@dataclass(frozen=True)
class HeldOutSplit:
    """Training rows and a held-out tenth, their targets standardised by the moments of both."""

    x: Float64[np.ndarray, "N D"]
    y: Float64[np.ndarray, " N"]
    held_out_x: Float64[np.ndarray, "H D"]
    held_out_y: Float64[np.ndarray, " H"]
    target_mean: float
    target_spread: float


def hold_out_tenth(
    x: Float64[np.ndarray, "N D"], y: Float64[np.ndarray, " N"], seed: int
) -> HeldOutSplit:
    """Hold out a random tenth of the rows, and standardise the target."""
    # Otherwise the libraries' absolute tolerances would stop the training on small targets at once.
    mean, spread = float(y.mean()), float(y.std()) or 1.0
    order = np.random.default_rng(seed).permutation(len(y))
    held_out, kept = np.split(order, [max(1, round(len(y) / 10))])
    standard = (y - mean) / spread
    return HeldOutSplit(x[kept], standard[kept], x[held_out], standard[held_out], mean, spread)


@dataclass(frozen=True)
class ConstantVariance:
    """A fitted mean of the standardised target, and a variance that all rows share."""

    model: Any
    variance: float
    target_mean: float
    target_spread: float

    @classmethod
    def from_held_out(cls, model: Any, rows: HeldOutSplit) -> ConstantVariance:
        """Take the mean square error on the held-out rows as the variance."""
        error = rows.held_out_y - np.asarray(model.predict(rows.held_out_x))
        return cls(model, float(np.mean(np.square(error))), rows.target_mean, rows.target_spread)

    def predict(self, x: Float64[np.ndarray, "M D"]) -> Gaussian:
        """Return the predictive densities at rows."""
        standard = np.asarray(self.model.predict(x), dtype=np.float64)
        mean = self.target_mean + self.target_spread * standard
        return Gaussian(mean, np.full(len(x), self.target_spread**2 * self.variance))


class _TreeMethod:
    """A method that runs on the CPU and has no limit of rows."""

    max_rows: ClassVar[int | None] = None

    def device(self, wanted: str) -> str:
        """Return the CPU, whatever is wanted."""
        return "cpu"


class LightGBM(_TreeMethod):
    """LightGBM."""

    libraries: ClassVar[tuple[str, ...]] = ("lightgbm",)

    def settings(self) -> Mapping[str, Any]:
        """Return the settings that differ from the library's defaults."""
        return {
            "n_estimators": MAX_TREES,
            "early_stopping": PATIENCE,
            "density": HELD_OUT_VARIANCE,
        }

    def fit(
        self, x: Float64[np.ndarray, "N D"], y: Float64[np.ndarray, " N"], seed: int, device: str
    ) -> Fitted:
        """Add trees until the held-out rows gain nothing."""
        import lightgbm  # noqa: PLC0415 (an optional dependency)

        rows = hold_out_tenth(x, y, seed)
        settings = {"seed": seed, "num_threads": torch.get_num_threads(), "verbosity": -1}
        train = lightgbm.Dataset(rows.x, rows.y)
        model = lightgbm.train(
            settings | {"objective": "regression"},
            train,
            num_boost_round=MAX_TREES,
            valid_sets=[lightgbm.Dataset(rows.held_out_x, rows.held_out_y, reference=train)],
            callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
        )
        return ConstantVariance.from_held_out(model, rows)


class HistGradientBoosting(_TreeMethod):
    """Histogram gradient boosting of scikit-learn."""

    libraries: ClassVar[tuple[str, ...]] = ("scikit-learn",)

    def settings(self) -> Mapping[str, Any]:
        """Return the settings that differ from the library's defaults."""
        return {"max_iter": MAX_TREES, "early_stopping": True, "density": HELD_OUT_VARIANCE}

    def fit(
        self, x: Float64[np.ndarray, "N D"], y: Float64[np.ndarray, " N"], seed: int, device: str
    ) -> Fitted:
        """Add trees until the held-out rows gain nothing."""
        from sklearn.ensemble import HistGradientBoostingRegressor  # noqa: PLC0415 (slow to import)

        rows = hold_out_tenth(x, y, seed)
        model = HistGradientBoostingRegressor(
            max_iter=MAX_TREES, early_stopping=True, random_state=seed
        )
        model.fit(rows.x, rows.y, X_val=rows.held_out_x, y_val=rows.held_out_y)
        return ConstantVariance.from_held_out(model, rows)


class CatBoost(_TreeMethod):
    """CatBoost, which learns the variance too."""

    libraries: ClassVar[tuple[str, ...]] = ("catboost",)

    def settings(self) -> Mapping[str, Any]:
        """Return the settings that differ from the library's defaults."""
        return {
            "iterations": MAX_TREES,
            "loss_function": "RMSEWithUncertainty",
            "early_stopping_rounds": PATIENCE,
        }

    def fit(
        self, x: Float64[np.ndarray, "N D"], y: Float64[np.ndarray, " N"], seed: int, device: str
    ) -> Fitted:
        """Add trees until the held-out rows gain nothing."""
        import catboost  # noqa: PLC0415 (an optional dependency)

        rows = hold_out_tenth(x, y, seed)
        model = catboost.CatBoostRegressor(
            **self.settings(),
            random_seed=seed,
            thread_count=torch.get_num_threads(),
            allow_writing_files=False,
            verbose=False,
        )
        model.fit(rows.x, rows.y, eval_set=(rows.held_out_x, rows.held_out_y))
        return LearntVariance(model, rows.target_mean, rows.target_spread)


@dataclass(frozen=True)
class LearntVariance:
    """A fitted CatBoost model of the mean and the variance of the standardised target."""

    model: Any
    target_mean: float
    target_spread: float

    def predict(self, x: Float64[np.ndarray, "M D"]) -> Gaussian:
        """Return the predictive densities at rows."""
        mean, variance = np.asarray(self.model.predict(x), dtype=np.float64).T
        return Gaussian(
            self.target_mean + self.target_spread * mean, self.target_spread**2 * variance
        )
