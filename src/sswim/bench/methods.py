"""The methods of the bench by their names."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any

import numpy as np
from jaxtyping import Float64

from sswim import SSWIMRegressor, __version__
from sswim.bench.baselines import CatBoost, ExactGP, HistGradientBoosting, LightGBM
from sswim.bench.protocol import Fitted, Method
from sswim.recipe import Recipe
from sswim.training import resolve_device

ABLATIONS: dict[str, dict[str, Any]] = {
    "sswim-one-member": {"n_members": 1},
    "sswim-no-warps": {"recipe": Recipe(depths=(0,))},
    "sswim-one-depth": {"recipe": Recipe(depths=(2,))},
    "sswim-one-kernel": {"recipe": Recipe(kernels=("matern32",))},
    "sswim-no-scores": {"recipe": Recipe(scores=False)},
    "sswim-no-whitening": {"recipe": Recipe(whitening=False)},
    "sswim-separate-warps": {"recipe": Recipe(warps="separate")},
    "sswim-no-linear": {"recipe": Recipe(linear=False)},
    "sswim-no-output-warp": {"recipe": Recipe(output_warp="none")},
    "sswim-constant-noise": {"recipe": Recipe(noise="constant")},
    "sswim-no-screening": {"recipe": Recipe(screening=False)},
    "sswim-no-enrichment": {"recipe": Recipe(enrichment=False)},
    "sswim-no-cross-fitting": {"recipe": Recipe(cross_fitting=False)},
    "sswim-no-weighing": {"recipe": Recipe(weighing=False)},
    "sswim-no-calibration": {"recipe": Recipe(calibration=False)},
}
"""The default without one of its ingredients: names that begin with ``sswim-``, and settings."""


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

    def log_density(self, y: Float64[np.ndarray, " M"]) -> Float64[np.ndarray, " M"]:
        """log p(y) of each."""
        return self.regressor.log_density(self.x, y)

    def interval(
        self, coverage: float
    ) -> tuple[Float64[np.ndarray, " M"], Float64[np.ndarray, " M"]]:
        """Ends of the central intervals with a nominal coverage."""
        return self.regressor.predict_interval(self.x, coverage)


METHODS: dict[str, Method] = {
    "sswim": SSWIM(),
    **{name: SSWIM(changes) for name, changes in ABLATIONS.items()},
    "lightgbm": LightGBM(),
    "catboost": CatBoost(),
    "hist-gradient-boosting": HistGradientBoosting(),
    "exact-gp": ExactGP(),
}

MODULES = {"scikit-learn": "sklearn.ensemble"}
"""Where a distribution is not imported by its name."""


def require_method(name: str) -> Method:
    """A method that exists and whose libraries are installed, and imported already."""
    if name not in METHODS:
        raise ValueError(f"A method must be one of {', '.join(METHODS)}. Got {name!r}.")
    for library in METHODS[name].libraries:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # GPyTorch warns under a new PyTorch
                importlib.import_module(MODULES.get(library, library))
        except ImportError as error:
            raise ValueError(
                f"The method {name!r} needs {library}, which cannot be imported ({error}). "
                "Install what the bench needs: pip install sswim[baselines]."
            ) from error
    return METHODS[name]


def versions(method: Method) -> str:
    """Of this package and of the libraries that do the work."""
    made_by = [f"{library} {version(library)}" for library in method.libraries]
    return "; ".join([f"sswim {__version__}", *made_by])
