"""Three kinds of boosted trees.

Each standardises the target and stops early on a random tenth of the training rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64

from sswim.lab.peers.protocol import Fitted, Gaussian

TREES = 1000
PATIENCE = 50
"""Trees without a gain on the held-out tenth that end the training."""
HELD_OUT_VARIANCE = "Gaussian, its constant variance the mean square error on the held-out tenth"


@dataclass(frozen=True)
class HeldOut:
    """Rows with a random tenth held out, and the target standardised by all of them."""

    x: Float64[np.ndarray, "N D"]
    y: Float64[np.ndarray, " N"]
    held_x: Float64[np.ndarray, "H D"]
    held_y: Float64[np.ndarray, " H"]
    centre: float
    scale: float

    @classmethod
    def of(cls, x: Float64[np.ndarray, "N D"], y: Float64[np.ndarray, " N"], seed: int) -> HeldOut:
        """Draw the tenth."""
        # Without this the absolute tolerances of the libraries would stop on small targets at once.
        centre, scale = float(y.mean()), float(y.std()) or 1.0
        order = np.random.default_rng(seed).permutation(len(y))
        held, kept = np.split(order, [max(1, round(len(y) / 10))])
        standard = (y - centre) / scale
        return cls(x[kept], standard[kept], x[held], standard[held], centre, scale)


@dataclass(frozen=True)
class ConstantVariance:
    """A fitted mean of the standardised target, with the variance that held-out rows show."""

    model: Any
    variance: float
    centre: float
    scale: float

    @classmethod
    def of(cls, model: Any, rows: HeldOut) -> ConstantVariance:
        """Measure the variance on the held-out rows."""
        error = rows.held_y - np.asarray(model.predict(rows.held_x))
        return cls(model, float(np.mean(np.square(error))), rows.centre, rows.scale)

    def predict(self, x: Float64[np.ndarray, "M D"]) -> Gaussian:
        """The densities of the targets of rows."""
        mean = self.centre + self.scale * np.asarray(self.model.predict(x), dtype=np.float64)
        return Gaussian(mean, np.full(len(x), self.scale**2 * self.variance))


class _Trees:
    """What the boosted trees have in common."""

    max_rows: int | None = None

    def device(self, wanted: str) -> str:
        """Always the CPU."""
        return "cpu"


class LightGBM(_Trees):
    """LightGBM."""

    libraries = ("lightgbm",)

    def settings(self) -> Mapping[str, Any]:
        """Where it differs from the defaults of the library."""
        return {"n_estimators": TREES, "early_stopping": PATIENCE, "density": HELD_OUT_VARIANCE}

    def fit(
        self, x: Float64[np.ndarray, "N D"], y: Float64[np.ndarray, " N"], seed: int, device: str
    ) -> Fitted:
        """Boost until the held-out rows gain nothing."""
        import lightgbm  # noqa: PLC0415 (an optional dependency)

        rows = HeldOut.of(x, y, seed)
        settings = {"seed": seed, "num_threads": torch.get_num_threads(), "verbosity": -1}
        train = lightgbm.Dataset(rows.x, rows.y)
        model = lightgbm.train(
            settings | {"objective": "regression"},
            train,
            num_boost_round=TREES,
            valid_sets=[lightgbm.Dataset(rows.held_x, rows.held_y, reference=train)],
            callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
        )
        return ConstantVariance.of(model, rows)


class HistGradientBoosting(_Trees):
    """The histogram gradient boosting of scikit-learn."""

    libraries = ("scikit-learn",)

    def settings(self) -> Mapping[str, Any]:
        """Where it differs from the defaults of the library."""
        return {"max_iter": TREES, "early_stopping": True, "density": HELD_OUT_VARIANCE}

    def fit(
        self, x: Float64[np.ndarray, "N D"], y: Float64[np.ndarray, " N"], seed: int, device: str
    ) -> Fitted:
        """Boost until the held-out rows gain nothing."""
        from sklearn.ensemble import HistGradientBoostingRegressor  # noqa: PLC0415 (slow to import)

        rows = HeldOut.of(x, y, seed)
        model = HistGradientBoostingRegressor(
            max_iter=TREES, early_stopping=True, random_state=seed
        )
        model.fit(rows.x, rows.y, X_val=rows.held_x, y_val=rows.held_y)
        return ConstantVariance.of(model, rows)


class CatBoost(_Trees):
    """CatBoost, which learns the variance too."""

    libraries = ("catboost",)

    def settings(self) -> Mapping[str, Any]:
        """Where it differs from the defaults of the library."""
        return {
            "iterations": TREES,
            "loss_function": "RMSEWithUncertainty",
            "early_stopping_rounds": PATIENCE,
        }

    def fit(
        self, x: Float64[np.ndarray, "N D"], y: Float64[np.ndarray, " N"], seed: int, device: str
    ) -> Fitted:
        """Boost until the held-out rows gain nothing."""
        import catboost  # noqa: PLC0415 (an optional dependency)

        rows = HeldOut.of(x, y, seed)
        model = catboost.CatBoostRegressor(
            **self.settings(),
            random_seed=seed,
            thread_count=torch.get_num_threads(),
            allow_writing_files=False,
            verbose=False,
        )
        model.fit(rows.x, rows.y, eval_set=(rows.held_x, rows.held_y))
        return LearntVariance(model, rows.centre, rows.scale)


@dataclass(frozen=True)
class LearntVariance:
    """A fitted CatBoost model of mean and variance of the standardised target."""

    model: Any
    centre: float
    scale: float

    def predict(self, x: Float64[np.ndarray, "M D"]) -> Gaussian:
        """The densities of the targets of rows."""
        mean, variance = np.asarray(self.model.predict(x), dtype=np.float64).T
        return Gaussian(self.centre + self.scale * mean, self.scale**2 * variance)
