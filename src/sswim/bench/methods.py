"""The methods of the bench by their names."""

from __future__ import annotations

import importlib
import warnings
from importlib.metadata import version
from typing import Any

from sswim import __version__
from sswim.baselines.gaussian_processes import ExactGP
from sswim.baselines.ours import SSWIM
from sswim.baselines.protocol import Method
from sswim.baselines.trees import CatBoost, HistGradientBoosting, LightGBM
from sswim.recipe import Recipe

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
