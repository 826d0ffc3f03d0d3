"""Boosted trees of five libraries, and the networks of pytabkit.

Each standardises the target and stops early on a random tenth of the training rows, which also
gives those without a density of their own their variance. Pytabkit has tuned defaults
(Holzmüller, Grinsztajn and Steinwart, NeurIPS 2024, and later). Fits import the libraries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float64

from sswim.distributed.processes import resolve_device
from sswim_lab.peers.protocol import Fitted, Gaussian, kept_random_state, silenced

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


@dataclass(frozen=True)
class Pytabkit:
    """A regressor of pytabkit with its defaults; it selects its best epoch on a held-out tenth."""

    max_rows: ClassVar[int | None] = None
    estimator: str
    """Name of the class."""
    libraries: tuple[str, ...] = ("pytabkit", "torch")
    runs_on_gpu: bool = True
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that differ from the library's defaults."""

    def settings(self) -> Mapping[str, Any]:
        """Return the name of the class, and what differs from its defaults."""
        return {"estimator": self.estimator, **self.changes, "density": HELD_OUT_VARIANCE}

    def device(self, wanted: str) -> str:
        """Return the device; ``"auto"`` is CUDA where there is one and the method can use it."""
        return str(resolve_device(wanted)) if self.runs_on_gpu else "cpu"

    def fit(
        self, x: Float64[np.ndarray, "N D"], y: Float64[np.ndarray, " N"], seed: int, device: str
    ) -> Fitted:
        """Train on nine tenths of the rows, and validate on the others."""
        with kept_random_state(seed), silenced():
            import pytabkit  # noqa: PLC0415 (an optional dependency, which is slow to import)

            rows = hold_out_tenth(x, y, seed)
            model = getattr(pytabkit, self.estimator)(
                device=self.device(device),
                random_state=seed,
                n_threads=torch.get_num_threads(),
                **self.changes,
            )
            model.fit(rows.x, rows.y, X_val=rows.held_out_x, y_val=rows.held_out_y)
            return FittedPytabkit(ConstantVariance.from_held_out(model, rows), seed)


@dataclass(frozen=True)
class FittedPytabkit:
    """A trained regressor of pytabkit."""

    fitted: ConstantVariance
    seed: int

    def predict(self, x: Float64[np.ndarray, "M D"]) -> Gaussian:
        """Return the predictive densities at rows."""
        with kept_random_state(self.seed), silenced():
            return self.fitted.predict(x)


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


@dataclass(frozen=True)
class LearntVariance:
    """A fitted model of the mean and the variance of the standardised target."""

    moments: Callable[[Float64[np.ndarray, "M D"]], tuple[Any, Any]]
    """Returns the means and variances at rows."""
    target_mean: float
    target_spread: float

    def predict(self, x: Float64[np.ndarray, "M D"]) -> Gaussian:
        """Return the predictive densities at rows."""
        mean, variance = (np.asarray(moment, dtype=np.float64) for moment in self.moments(x))
        return Gaussian(
            self.target_mean + self.target_spread * mean, self.target_spread**2 * variance
        )
