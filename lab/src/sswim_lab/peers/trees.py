"""Boosted trees of four libraries.

Each standardises the target and stops early on a random tenth of the training rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float64

from sswim_lab.peers.global_state import kept_random_state, silenced
from sswim_lab.peers.held_out_rows import (
    HELD_OUT_VARIANCE,
    ConstantVariance,
    LearntVariance,
    hold_out_tenth,
)
from sswim_lab.peers.protocol import Fitted

MAX_TREES = 1000
PATIENCE = 50
"""Number of trees without a gain on the held-out rows after which training ends."""
UNCERTAIN = "RMSEWithUncertainty"
"""CatBoost's loss of a mean and a variance."""


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


@dataclass(frozen=True)
class CatBoost(_TreeMethod):
    """CatBoost, which learns the variance too unless its loss is ``"RMSE"``."""

    libraries: ClassVar[tuple[str, ...]] = ("catboost",)
    loss: str = UNCERTAIN

    def settings(self) -> Mapping[str, Any]:
        """Return the settings that differ from the library's defaults."""
        density = {} if self.loss == UNCERTAIN else {"density": HELD_OUT_VARIANCE}
        return {**self._arguments(), **density}

    def fit(
        self, x: Float64[np.ndarray, "N D"], y: Float64[np.ndarray, " N"], seed: int, device: str
    ) -> Fitted:
        """Add trees until the held-out rows gain nothing."""
        import catboost  # noqa: PLC0415 (an optional dependency)

        rows = hold_out_tenth(x, y, seed)
        model = catboost.CatBoostRegressor(
            **self._arguments(),
            random_seed=seed,
            thread_count=torch.get_num_threads(),
            allow_writing_files=False,
            verbose=False,
        )
        model.fit(rows.x, rows.y, eval_set=(rows.held_out_x, rows.held_out_y))
        if self.loss != UNCERTAIN:
            return ConstantVariance.from_held_out(model, rows)
        return LearntVariance(lambda x: model.predict(x).T, rows.target_mean, rows.target_spread)

    def _arguments(self) -> dict[str, Any]:
        return {
            "iterations": MAX_TREES,
            "loss_function": self.loss,
            "early_stopping_rounds": PATIENCE,
        }


class NGBoost(_TreeMethod):
    """NGBoost, whose trees learn the mean and the variance by natural gradients."""

    libraries: ClassVar[tuple[str, ...]] = ("ngboost",)
    learning_rate: ClassVar[float] = 0.05
    """Five times the library's default, at which 1000 trees are too few for some data sets."""

    def settings(self) -> Mapping[str, Any]:
        """Return the settings that differ from the library's defaults."""
        return {
            "n_estimators": MAX_TREES,
            "learning_rate": self.learning_rate,
            "early_stopping_rounds": PATIENCE,
        }

    def fit(
        self, x: Float64[np.ndarray, "N D"], y: Float64[np.ndarray, " N"], seed: int, device: str
    ) -> Fitted:
        """Add trees until the density of the held-out rows gains nothing."""
        import ngboost  # noqa: PLC0415 (an optional dependency)

        rows = hold_out_tenth(x, y, seed)
        model = ngboost.NGBRegressor(**self.settings(), random_state=seed, verbose=False)
        with kept_random_state(seed), silenced():  # its trees draw from the global generator
            model.fit(rows.x, rows.y, X_val=rows.held_out_x, Y_val=rows.held_out_y)
        n_trees = model.best_val_loss_itr + 1

        def moments(x: Float64[np.ndarray, "M D"]) -> tuple[Any, Any]:
            density = model.pred_dist(x, max_iter=n_trees)
            return density.loc, np.square(density.scale)

        return LearntVariance(moments, rows.target_mean, rows.target_spread)
