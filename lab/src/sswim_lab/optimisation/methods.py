"""The methods by name: each suggests the next point, given all values so far.

All methods share the first points of a run, a scrambled Sobol sequence, and all models share the
settings of the acquisition functions.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from torch.quasirandom import SobolEngine

from sswim.base.validation import UserError
from sswim.base.version import __version__
from sswim_lab.optimisation.problems import Problem

N_SAMPLES = 128
"""Posterior samples of the noisy expected improvement."""
N_RESTARTS, N_RAW_SAMPLES = 4, 128
"""Points from which an acquisition function is climbed, and those of which they are the best."""


Values = Float64[np.ndarray, " N"]
Points = Float64[np.ndarray, "N D"]
Suggest = Callable[[Points, Values, int], Float64[np.ndarray, " D"]]
"""From points of the unit cube, their values to minimise and a seed to the next point."""


@dataclass(frozen=True)
class Method:
    """A way to choose the next point."""

    name: str
    suggest: Suggest
    libraries: tuple[str, ...] = ("torch",)
    """Distributions that do the work, whose versions are stored with a run."""
    settings: Mapping[str, Any] = field(default_factory=dict)


def _suggest_next_sobol(x: Points, values: Values, seed: int) -> Float64[np.ndarray, " D"]:
    return sobol_points(x.shape[1], 1, seed, skip=len(x))[0]


def _suggest_by_forest(x: Points, values: Values, seed: int) -> Float64[np.ndarray, " D"]:
    from sswim_lab.optimisation.forest import suggest_by_forest  # noqa: PLC0415 (optional)

    return suggest_by_forest(x, values, _seed_of_step(seed, len(x)))


def _suggest_by_model(fit: str, acquisition: str) -> Suggest:
    def suggest(x: Points, values: Values, seed: int) -> Float64[np.ndarray, " D"]:
        from sswim_lab.optimisation import models  # noqa: PLC0415 (optional)

        step_seed = _seed_of_step(seed, len(x))
        points, gains = torch.from_numpy(x), -torch.from_numpy(values)[:, None]
        with torch.random.fork_rng(devices=[]):  # no GPU draws, so none is touched
            torch.manual_seed(step_seed)
            model = getattr(models, fit)(points, gains)
            function = getattr(models, acquisition)(model, points, step_seed)
            return models.climb(function, model, points, step_seed).numpy()

    return suggest


def _seed_of_step(seed: int, step: int) -> int:
    """Return a seed of its own for every suggestion of every run."""
    return int(np.random.SeedSequence((seed, step)).generate_state(1)[0] >> 1)  # 31 bits


_BOTORCH = ("torch", "botorch", "gpytorch")
_FITS = {"sswim": "fit_sswim", "gp": "fit_gp", "gp-warp": "fit_warped_gp"}
_ACQUISITIONS = {"nei": "noisy_expected_improvement", "ts": "thompson_sample"}

_SEARCH = {
    "samples": N_SAMPLES,
    "restarts": N_RESTARTS,
    "raw_samples": N_RAW_SAMPLES,
    "repeats": "replaced",
}

METHODS: dict[str, Method] = {
    each.name: each
    for each in (
        *(
            Method(
                f"{model}-{short}",
                _suggest_by_model(fit, acquisition),
                _BOTORCH,
                {"model": model, "acquisition": acquisition, **_SEARCH},
            )
            for model, fit in _FITS.items()
            for short, acquisition in _ACQUISITIONS.items()
        ),
        Method(
            "forest",
            _suggest_by_forest,
            ("smac", "scikit-learn"),
            {"facade": "HyperparameterOptimizationFacade", "retrain_after": 1},
        ),
        Method("sobol", _suggest_next_sobol),
    )
}


def method_named(name: str) -> Method:
    """Return a method; raise UserError for an unknown name."""
    if name not in METHODS:
        raise UserError(f"A method must be one of {', '.join(METHODS)}. Got {name!r}.")
    return METHODS[name]


def require_libraries(user: Method | Problem) -> None:
    """Import the optional libraries of a method or a problem; raise UserError if one is missing."""
    for library in user.libraries:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                importlib.import_module(library.replace("scikit-learn", "sklearn"))
        except ImportError as error:
            raise UserError(
                f"{user.name!r} needs {library}, which cannot be imported ({error}). "
                "Install it: pip install 'sswim-lab[optimisation]'."
            ) from error


def versions(method: Method, problem: Problem) -> str:
    """Return the versions of this package and of the libraries that a run uses."""
    libraries = dict.fromkeys((*method.libraries, *problem.libraries))
    return ", ".join(
        [f"sswim {__version__}", *(f"{library} {version(library)}" for library in libraries)]
    )


def n_first(dimension: int) -> int:
    """Return how many points every method starts with."""
    return max(5, 2 * dimension)


def sobol_points(dimension: int, n: int, seed: int, skip: int = 0) -> Float64[np.ndarray, "N D"]:
    """Return points of the sequence of a seed, after those that are skipped."""
    engine = SobolEngine(dimension, scramble=True, seed=seed)
    if skip:
        engine.fast_forward(skip)
    return engine.draw(n, dtype=torch.float64).numpy()
