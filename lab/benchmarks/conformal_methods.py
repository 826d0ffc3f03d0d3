"""Methods of ``conformal.py``: fits, and the intervals that each of them gives."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sswim_lab.bench.runner import SETS
from sswim_lab.datasets import split
from sswim_lab.datasets.catalogue import data_set
from sswim_lab.peers.trees import LightGBM

from sswim.estimator import BaseRegressor, make_estimator

Array = NDArray[np.float64]
Noise = Callable[[np.random.Generator, Array], Array]
"""Draws the noise at rows of inputs."""

REAL = SETS
"""Real tables: those of the accuracy benchmark."""

N_TEST = 1000
"""Number of test rows of a synthetic table."""
SIZES = (100, 300, 1000)
"""Numbers of training rows of a synthetic table."""
GROUPS = "three groups"
GROUP_SIZE = 1000
"""Number of training rows of the table of groups."""
GROUP_NOISE = (0.1, 0.3, 1.0)

SYNTHETIC: dict[str, Noise] = {
    "t(2) noise": lambda random, x: 0.3 * random.standard_t(2, len(x)),
    "exponential noise": lambda random, x: 0.5 * random.exponential(size=len(x)),
    "lognormal noise": lambda random, x: 0.3 * random.lognormal(size=len(x)),
    "noise that grows": lambda random, x: (
        (0.05 + 0.2 * np.abs(x[:, 1])) * random.normal(size=len(x))
    ),
}
"""Noise added to a wave that gets faster along one input and a slope along another."""


@dataclass(frozen=True)
class Case:
    """A table, its number of training rows and a repeat."""

    set: str
    n_train: int
    repeat: int


@dataclass(frozen=True)
class Rows:
    """Training and test rows of a case."""

    train_x: Array
    train_y: Array
    test_x: Array
    test_y: Array
    unit: float
    """The unit of widths: the spread of a real target, and one for synthetic tables."""
    n_distinct: int | None
    """Number of rows that the test rows of all repeats come from; None if every repeat draws new
    ones."""
    train_groups: NDArray[np.int64] | None = None
    test_groups: NDArray[np.int64] | None = None


def real_size(name: str, max_train: int) -> int:
    """Return the number of training rows of a real table, without reading it."""
    facts = data_set(name)
    return min(facts.n_train or round(2 * facts.n_rows / 3), max_train)


def make_rows(case: Case, max_test: int) -> Rows:
    """Read or draw the rows of a case."""
    if case.set in REAL:
        return _real(case, max_test)
    random = np.random.default_rng([case.n_train, case.repeat])
    if case.set == GROUPS:
        return _groups(case, random)
    x = random.uniform(-2, 2, (case.n_train + N_TEST, 2))
    y = _function(x) + SYNTHETIC[case.set](random, x)
    n = case.n_train
    return Rows(x[:n], y[:n], x[n:], y[n:], 1.0, None)


def _real(case: Case, max_test: int) -> Rows:
    rows = split(case.set, case.repeat)
    n = case.n_train
    return Rows(
        rows.train_x[:n],
        rows.train_y[:n],
        rows.test_x[:max_test],
        rows.test_y[:max_test],
        float(rows.train_y[:n].std()),
        data_set(case.set).n_rows,
    )


def _groups(case: Case, random: np.random.Generator) -> Rows:
    """Draw rows of three groups with noise of three strengths; the group is an input too."""
    n = case.n_train
    x = random.uniform(-2, 2, (n + 3 * N_TEST, 2))
    groups = random.integers(len(GROUP_NOISE), size=len(x))
    y = _function(x) + np.array(GROUP_NOISE)[groups] * random.normal(size=len(x))
    x = np.column_stack((x, groups))
    return Rows(x[:n], y[:n], x[n:], y[n:], 1.0, None, groups[:n], groups[n:])


def _function(x: Array) -> Array:
    return np.sin(np.exp(x[:, 0])) + 0.5 * x[:, 1]


LEVELS = (0.5, 0.8, 0.9, 0.95)
N_FOLDS = 5
"""Number of folds of MAPIE's CV+, its default."""
MIN_CALIBRATION = 40
"""Fewest calibration rows: fewer have no finite interval of 95 % with equal tails."""
WRONG: dict[str, Any] = {"depth": 0, "noise": "constant", "n_components": 128}
"""Settings of the wrong model: equally smooth everywhere, and Gaussian noise of one strength."""

CONFORMAL = "conformal"

Ends = tuple[Array, Array]
"""Lower and upper ends of intervals, (L, M): levels, rows."""


@dataclass(frozen=True)
class Intervals:
    """Intervals of the test rows, one pair of ends for each of ``LEVELS``."""

    ends: Ends
    fit_seconds: float
    predict_seconds: float


Fit = Callable[[Rows, int], dict[str, Intervals]]
"""Fits to rows with a seed; returns the intervals by the name of the method."""


def fit_default(rows: Rows, seed: int) -> dict[str, Intervals]:
    """Return the default's own intervals and its conformal ones, from one fit."""
    model, seconds = _fit({}, rows.train_x, rows.train_y, seed)
    return {
        "default": _timed(lambda: _ends(model, rows.test_x), seconds),
        "default, conformal": _timed(lambda: _ends(model, rows.test_x, method=CONFORMAL), seconds),
    }


def fit_wrong(rows: Rows, seed: int) -> dict[str, Intervals]:
    """Return the own intervals of the wrong model, fitted to all training rows."""
    model, seconds = _fit(WRONG, rows.train_x, rows.train_y, seed)
    return {"wrong": _timed(lambda: _ends(model, rows.test_x), seconds)}


def fit_calibrated(rows: Rows, seed: int) -> dict[str, Intervals]:
    """Return the intervals of the wrong model after ``calibrate``, by groups too if there are any.

    The rows that calibrate it are not in the fit.
    """
    held, kept = _hold_out(rows, seed)
    model, seconds = _fit(WRONG, rows.train_x[kept], rows.train_y[kept], seed)
    held_x, held_y = rows.train_x[held], rows.train_y[held]
    model.calibrate(held_x, held_y)
    found = {
        "wrong, calibrated": _timed(lambda: _ends(model, rows.test_x, method=CONFORMAL), seconds)
    }
    if rows.train_groups is not None:
        model.calibrate(held_x, held_y, groups=rows.train_groups[held])
        found["wrong, calibrated by group"] = _timed(
            lambda: _ends(model, rows.test_x, method=CONFORMAL, groups=rows.test_groups), seconds
        )
    return found


def fit_mapie(rows: Rows, seed: int) -> dict[str, Intervals]:
    """Return the intervals of MAPIE's CV+ around LightGBM."""
    from mapie.regression import CrossConformalRegressor  # noqa: PLC0415 (optional)

    began = time.perf_counter()
    model = CrossConformalRegressor(
        Trees(seed), confidence_level=LEVELS, method="plus", cv=N_FOLDS, random_state=seed
    )
    model.fit_conformalize(rows.train_x, rows.train_y)
    seconds = time.perf_counter() - began
    return {"MAPIE CV+": _timed(lambda: _mapie_ends(model, rows.test_x), seconds)}


def fit_normalised_mapie(rows: Rows, seed: int) -> dict[str, Intervals]:
    """Return the intervals of MAPIE's split conformal around LightGBM, normalised by the residual.

    MAPIE has these scores for split conformal only. Some of the held-out rows teach the residual.
    """
    from mapie.conformity_scores import ResidualNormalisedScore  # noqa: PLC0415 (optional)
    from mapie.regression import SplitConformalRegressor  # noqa: PLC0415 (optional)

    held, kept = _hold_out(rows, seed)
    began = time.perf_counter()
    score = ResidualNormalisedScore(residual_estimator=Trees(seed), random_state=seed)
    model = SplitConformalRegressor(
        Trees(seed), confidence_level=LEVELS, conformity_score=score, prefit=False
    )
    model.fit(rows.train_x[kept], rows.train_y[kept])
    model.conformalize(rows.train_x[held], rows.train_y[held])
    seconds = time.perf_counter() - began
    return {"MAPIE split": _timed(lambda: _mapie_ends(model, rows.test_x), seconds)}


FITS: dict[str, Fit] = {
    "default": fit_default,
    "wrong": fit_wrong,
    "calibrated": fit_calibrated,
    "mapie": fit_mapie,
    "mapie-normalised": fit_normalised_mapie,
}
METHODS: dict[str, tuple[str, ...]] = {
    "default": ("default", "default, conformal"),
    "wrong": ("wrong",),
    "calibrated": ("wrong, calibrated",),
    "mapie": ("MAPIE CV+",),
    "mapie-normalised": ("MAPIE split",),
}
"""Names of the methods that every fit gives."""


class Trees(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """LightGBM with the settings of the accuracy benchmark, as an estimator of scikit-learn."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def fit(self, X: Array, y: Array) -> Trees:
        """Add trees until a held-out tenth gains nothing."""
        self.n_features_in_ = X.shape[1]
        self.fitted_ = LightGBM().fit(X, y, self.seed, "cpu")
        return self

    def predict(self, X: Array) -> Array:
        """Return means."""
        return self.fitted_.predict(X).mean


def _fit(settings: dict[str, Any], x: Array, y: Array, seed: int) -> tuple[BaseRegressor, float]:
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about ties and extreme targets, which are meant here
        model = make_estimator(random_state=seed, device="cpu", **settings).fit(x, y)
    return model, time.perf_counter() - began


def _ends(model: BaseRegressor, x: Array, **options: Any) -> Ends:
    """Return the ends of ``predict_interval`` at all levels, from one prediction."""
    sides = ([0.5 * (1 + sign * level) for level in LEVELS] for sign in (-1, 1))
    lower, upper = np.split(model.predict_quantiles(x, [*chain(*sides)], **options).T, 2)
    return lower, upper


def _mapie_ends(model: Any, x: Array) -> Ends:
    ends = model.predict_interval(x, allow_infinite_bounds=True)[1]
    return ends[:, 0].T, ends[:, 1].T


def _timed(predict: Callable[[], Ends], fit_seconds: float) -> Intervals:
    began = time.perf_counter()
    ends = predict()
    return Intervals(ends, fit_seconds, time.perf_counter() - began)


def _hold_out(rows: Rows, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return a random quarter of the training rows, at least ``MIN_CALIBRATION``, and the rest."""
    n = len(rows.train_y)
    order = np.random.default_rng(seed).permutation(n)
    n_held = max(n // 4, MIN_CALIBRATION)
    return order[:n_held], order[n_held:]
