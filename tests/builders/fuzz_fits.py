"""Random tables and settings of tiny fits, and what must hold for fits that are not refused."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import strategies as st

from builders.fuzzing import may_refuse
from sswim.base.cholesky import FactorisationError
from sswim.base.validation import UserError
from sswim.estimator import BaseRegressor, make_estimator
from sswim.warps import noise_field as noise_fit

Array = np.ndarray[Any, Any]

NUMBERS = ("normal", "uniform", "integers", "skewed", "levels", "constant", "wild", "with gaps")
"""Kinds of columns that arrays have."""
OTHERS = ("text", "many texts", "category", "boolean", "time", "missing text", "nothing")
"""Kinds of columns that only frames have."""
TARGETS = ("signal", "noise", "constant", "steps", "skewed", "wild", "almost constant")
WEIGHTS = ("none", "equal", "counts", "shares", "some zero", "unlike", "one")
DEVIATIONS = ("none", "zero", "number", "columns", "cells", "wide")


@dataclass(frozen=True)
class Table:
    """The choices that make a table, and the seed of its numbers."""

    seed: int = 0
    n_rows: int = 12
    columns: tuple[str, ...] = ("normal",)
    units: tuple[int, ...] = (0,)
    """Powers of ten of the columns, used in turn."""
    targets: tuple[str, ...] = ("signal",)
    target_unit: int = 0
    """Power of ten of the targets."""
    offset: float = 0.0
    """Mean of the targets, in their unit."""
    flat: bool = True
    """Whether a single target is an array of one axis."""
    n_copies: int = 0
    """Number of rows that occur a second time."""
    n_repeats: int = 0
    """Number of rows that occur a second time with another target."""
    weights: str = "none"
    deviations: str = "none"
    frame: bool = False

    def rows(self, n_rows: int | None = None, seed: int = 0) -> Any:
        """Return the inputs of the table, or of new rows like them."""
        random = np.random.default_rng([self.seed, seed, 0])
        n_rows = self.n_rows if n_rows is None else n_rows
        units = [10.0 ** self.units[n % len(self.units)] for n in range(len(self.columns))]
        values = [
            _column(kind, unit, n_rows, random)
            for kind, unit in zip(self.columns, units, strict=True)
        ]
        if self.frame:
            frame = pd.DataFrame({f"c{n}": each for n, each in enumerate(values)})
            return frame.iloc[self._places()] if seed == 0 else frame
        array = np.stack(values, axis=1).astype(np.float64)
        return array[self._places()] if seed == 0 else array

    def y(self) -> Array:
        """Return the targets."""
        random = np.random.default_rng([self.seed, 0, 1])
        first = self.rows()
        first = first.iloc[:, 0] if self.frame else first[:, 0]
        signal = np.asarray(pd.factorize(pd.Series(np.asarray(first)))[0], dtype=np.float64)
        signal = np.sin(3 * signal / max(self.n_rows, 1))
        y = np.stack([_targets(kind, signal, random) for kind in self.targets], axis=1)
        n_copies = min(self.n_copies, self.n_rows)  # their targets are equal as well
        y[self.n_rows : self.n_rows + n_copies] = y[:n_copies]
        y = 10.0**self.target_unit * (self.offset + y)
        return y[:, 0] if self.flat and len(self.targets) == 1 else y

    def options(self) -> dict[str, Any]:
        """Return the other arguments of ``fit``."""
        random = np.random.default_rng([self.seed, 0, 2])
        n_rows, n_columns = len(self._places()), len(self.columns)
        weights: dict[str, Any] = {
            "none": None,
            "equal": np.full(n_rows, 0.1),
            "counts": random.integers(1, 5, n_rows),
            "shares": random.uniform(0.1, 2, n_rows),
            "some zero": random.integers(0, 2, n_rows),
            "unlike": 10.0 ** random.uniform(-40, 40, n_rows),
            "one": np.eye(n_rows)[0],
        }
        unit = 10.0 ** self.units[0]
        deviations: dict[str, Any] = {
            "none": None,
            "zero": 0.0,
            "number": 0.1 * unit,
            "columns": unit * random.uniform(0, 1, n_columns),
            "cells": unit * random.uniform(0, 1, (n_rows, n_columns)),
            "wide": 1e8 * unit,
        }
        found = {"sample_weight": weights[self.weights], "X_std": deviations[self.deviations]}
        return {name: each for name, each in found.items() if each is not None}

    def _places(self) -> list[int]:
        rows = list(range(self.n_rows))
        return rows + rows[: self.n_copies] + rows[: self.n_repeats]


def _column(kind: str, unit: float, n_rows: int, random: np.random.Generator) -> Any:
    """Return the values of a column."""
    normal = random.normal(size=n_rows)
    integers = random.integers(0, 5, n_rows)
    is_missing = random.uniform(size=n_rows) < 0.3
    wild = normal.copy()
    wild[: n_rows // 6 + 1] = 1e12
    columns: dict[str, Any] = {
        "normal": unit * normal,
        "uniform": unit * (5 + random.uniform(size=n_rows)),
        "integers": integers,
        "skewed": unit * np.exp(3 * normal),
        "levels": unit * integers,
        "constant": np.full(n_rows, unit),
        "wild": unit * wild,
        "with gaps": np.where(is_missing, np.nan, unit * normal),
        "text": np.array(["a", "b", "c", "d", "e"], dtype=object)[integers],
        "many texts": np.array([f"t{each}" for each in random.integers(0, 80, n_rows)], object),
        "category": pd.Categorical.from_codes(integers, categories=["v", "w", "x", "y", "z"]),
        "boolean": integers > 2,
        "time": np.datetime64("2021-03-28T00:00:00", "us") + 86_400_000_000 * integers,
        "missing text": np.array(["a", "b", None], object)[np.where(is_missing, 2, integers % 2)],
        "nothing": np.full(n_rows, np.nan),
    }
    return columns[kind]


def _targets(kind: str, signal: Array, random: np.random.Generator) -> Array:
    """Return targets of unit size."""
    noise = random.normal(size=len(signal))
    wild = noise.copy()
    wild[:1] = 1e9
    columns = {
        "signal": signal + 0.1 * noise,
        "noise": noise,
        "constant": np.ones(len(signal)),
        "steps": np.rint(2 * signal + 0.3 * noise),
        "skewed": np.exp(2 * signal + noise),
        "wild": wild,
        "almost constant": 1 + 1e-13 * noise,
    }
    return columns[kind]


UNITS = (0, 0, 0, -3, 6, -12, 20, -100, 150, -200, 200)
"""Powers of ten of columns; most columns are of moderate size."""

MOST_ROWS = 60
"""Largest number of rows, before copies."""

_SEEDS = st.integers(0, 2**32 - 1)


def tables(*, plain: bool = False) -> st.SearchStrategy[Table]:
    """Return a strategy of tables.

    Args:
        plain: Whether they are arrays without gaps, wild values and extreme units.
    """
    wild = () if plain else ("wild", "with gaps")
    kinds = [kind for kind in NUMBERS if kind not in ("wild", "with gaps")] + list(wild)
    return st.builds(
        Table,
        seed=_SEEDS,
        n_rows=st.sampled_from((8, *range(3 if plain else 1, MOST_ROWS + 1))),
        columns=st.lists(st.sampled_from(kinds), min_size=1, max_size=5).map(tuple),
        units=st.just((0,)) if plain else st.lists(st.sampled_from(UNITS), min_size=1).map(tuple),
        targets=st.lists(
            st.sampled_from(TARGETS[:2] if plain else TARGETS), min_size=1, max_size=2
        ).map(tuple),
        target_unit=st.just(0) if plain else st.sampled_from(UNITS),
        offset=st.sampled_from([0.0, 1.0, -1e6]),
        flat=st.booleans(),
        n_copies=st.just(0) if plain else st.integers(0, 6),
        n_repeats=st.just(0) if plain else st.integers(0, 6),
        weights=st.just("none") if plain else st.sampled_from(WEIGHTS),
        deviations=st.just("none") if plain else st.sampled_from(DEVIATIONS),
    )


def frames() -> st.SearchStrategy[Table]:
    """Return a strategy of data frames with columns that are not numbers."""
    columns = st.lists(st.sampled_from(NUMBERS + OTHERS * 2), min_size=1, max_size=5).map(tuple)
    drawn = st.tuples(tables(), columns)
    # Only plain numbers have a standard deviation.
    return drawn.map(lambda both: replace(both[0], columns=both[1], frame=True, deviations="none"))


PROBABILITIES = (1e-15, 1e-6, 0.05, 0.5, 0.95, 1 - 1e-6, 1 - 2e-15)

_NOTES = (
    r".*has a value",  # wild inputs and targets
    r".*is one and the same value",
    r"Column .* has (levels that the model has not learnt|values of several types)",
    r"Column .* (is|are|was|has|looks|holds)",
)
"""Beginnings of the warnings that the package gives about data."""

Settings = dict[str, Any]

_TINY: Settings = {"device": "cpu", "random_state": 0}


@pytest.fixture(autouse=True)
def two_noise_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Learn noise in two steps, which are as many as the rest of a tiny fit has."""
    monkeypatch.setattr(noise_fit, "STEPS", 2)


def fit_settings() -> st.SearchStrategy[Settings]:
    """Return a strategy of the settings of one kind of members."""
    features = {
        "depth": st.integers(0, 2),
        "n_components": st.integers(1, 12),
        "n_pseudo": st.integers(1, 4),
        "warps": st.sampled_from(["joint", "separate"]),
        "inputs": st.sampled_from(["standardised", "standardised", "normal-scores"]),
        "kernel": st.sampled_from(["rbf", "matern12", "matern32", "matern52"]),
        "n_members": st.sampled_from([1, 1, 1, 2]),
        "output_warp": st.sampled_from(["none", "none", "sinh-arcsinh", "tanh"]),
        "n_output_terms": st.integers(1, 3),
        "noise": st.sampled_from(["constant", "constant", "input-dependent"]),
        "objective": st.sampled_from(["map", "evidence", "leave-one-out"]),
        "max_iter": st.sampled_from([0, 1, 2, 5]),
        "learning_rate": st.sampled_from(["auto", "auto", "auto", 1e-8, 1.0, 1e3]),
        "length_scale": st.sampled_from(["auto", "auto", "auto", 1e-6, 0.1, 1e6]),
        "dtype": st.sampled_from(["auto", "float32", "float64"]),
    }
    neighbours = {
        "n_neighbors": st.sampled_from([1, 3, 8, 30]),
        "local_amplitude": st.booleans(),
    }
    matrices = {
        "depth": st.integers(1, 2),
        "n_neighbors": st.sampled_from([0, 0, 3, 8]),
        "warp_matrix": st.sampled_from(["projected", "full"]),
        "warp_dim": st.sampled_from([None, 1, 2, 5]),
    }
    return st.one_of(
        st.fixed_dictionaries({**features, "growing": st.booleans()}),
        st.fixed_dictionaries({**features, **neighbours}),
        st.fixed_dictionaries({**features, **matrices}),
    )


@contextmanager
def only_notes() -> Iterator[None]:
    """Let the package warn about data, and make an error of every other warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for beginning in _NOTES:
            warnings.filterwarnings("ignore", beginning, UserWarning)
        yield


@contextmanager
def refusals(regressor: BaseRegressor) -> Iterator[None]:
    """Expect a refusal of data or settings, which must leave the estimator as it was."""
    before = dict(vars(regressor))
    with may_refuse(), only_notes():
        try:
            yield
        except (ValueError, FactorisationError) as error:
            after = vars(regressor)
            assert list(after) == list(before)
            assert all(after[name] is before[name] for name in before)
            if _is_from_scikit_learn(error) or _diverged(error, regressor):
                raise UserError(*error.args) from error
            raise


def fit(settings: Settings, X: Any, y: Array, **options: Any) -> BaseRegressor:
    """Fit an estimator, which may be refused."""
    regressor = make_estimator(**_made(settings))
    with refusals(regressor):
        regressor.fit(X, y, **options)
    return regressor


def _made(settings: Settings) -> Settings:
    """Return settings that one estimator has: "auto" is its default, and 0 is no neighbours."""
    kept = {name: value for name, value in (_TINY | settings).items() if value != "auto"}
    if not kept.get("n_neighbors"):
        for name in ("n_neighbors", "local_amplitude"):
            kept.pop(name, None)
    else:
        kept.pop("growing", None)
        if kept.get("objective") == "leave-one-out":
            kept["objective"] = "evidence"  # both are the density without a prior
    return kept


def _is_from_scikit_learn(error: Exception) -> bool:
    """Return whether a check of scikit-learn raised an error; the package leaves some to it."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return str(frame.f_globals["__name__"]).startswith("sklearn.")


def _diverged(error: Exception, regressor: BaseRegressor) -> bool:
    """Return whether a fit failed because its learning rate is absurd, and says so."""
    rate = getattr(regressor, "learning_rate", 0)
    return rate >= 1 and "ower the learning rate" in str(error)


def fit_table(settings: Settings, table: Table) -> BaseRegressor:
    """Fit an estimator to a table."""
    return fit(settings, table.rows(), table.y(), **table.options())


@contextmanager
def _may_overflow(regressor: BaseRegressor) -> Iterator[None]:
    """Expect a refusal of inputs whose numbers or variances are too large for single precision."""
    try:
        yield
    except UserError as error:
        if regressor.dtype != "float32" or "must be finite in float32" not in str(error):
            raise
        with may_refuse():
            raise


def require_sane(regressor: BaseRegressor, X: Any, y: Array, X_std: Any = None) -> None:
    """Check that predictions are finite, in order, and nested.

    Args:
        regressor: A fitted estimator.
        X: Inputs to predict.
        y: Targets of these inputs.
        X_std: Standard deviation of these inputs.
    """
    with only_notes(), _may_overflow(regressor):
        mixture = regressor.predict_distribution(X, X_std=X_std)
    targets = torch.as_tensor(y.reshape(len(y), -1), dtype=torch.float64)
    mean, std = mixture.mean, mixture.standard_deviation
    assert mean.shape == std.shape == targets.shape
    assert mean.isfinite().all(), mean
    assert std.isfinite().all(), std
    assert (std >= 0).all(), std
    quantiles = mixture.quantiles(PROBABILITIES)
    assert quantiles.isfinite().all(), quantiles
    assert (quantiles.diff(dim=-1) >= 0).all(), quantiles  # so intervals are nested
    without_noise = mixture.without_noise().quantiles((0.05, 0.95))
    assert without_noise.isfinite().all(), without_noise
    assert (without_noise.diff(dim=-1) >= 0).all(), without_noise
    at_most = mixture.cdf(targets)
    assert ((at_most >= 0) & (at_most <= 1)).all(), at_most
    density = mixture.log_density(targets)
    assert (density < torch.inf).all(), density  # −∞ only where a target is out of all bounds


def require_sane_fit(regressor: BaseRegressor, table: Table) -> None:
    """Check predictions of the rows of a table, and of new ones."""
    X_std = table.options().get("X_std")
    require_sane(regressor, table.rows(), table.y(), X_std)
    require_sane(regressor, table.rows(3, seed=1), table.y()[:1].repeat(3, axis=0))


def require_finite_draws(regressor: BaseRegressor, X: Any) -> None:
    """Check drawn functions and observations."""
    with only_notes(), _may_overflow(regressor):
        for include_noise in (False, True):
            draws = regressor.sample_y(X, 2, include_noise=include_noise)
            assert np.isfinite(draws).all(), draws


def all_predictions(regressor: BaseRegressor, X: Any) -> tuple[Array, ...]:
    """Return means, standard deviations and quantiles."""
    with only_notes(), _may_overflow(regressor):
        quantiles = regressor.predict_quantiles(X, (0.05, 0.5, 0.95))
        return *regressor.predict(X, return_std=True), quantiles


def require_close(one: tuple[Array, ...], other: tuple[Array, ...], tolerance: float) -> None:
    """Check that predictions are equal up to a share of the predicted standard deviation.

    Args:
        one: Means, standard deviations and others, as :func:`all_predictions` returns them.
        other: What they are compared with.
        tolerance: Largest distance, in units of the largest standard deviation of a target.
    """
    smallest = np.finfo(np.float64).tiny  # absurd rates can end in no spread at all
    unit = np.maximum(one[1].max(axis=0), smallest)
    for a, b in zip(one, other, strict=True):
        scale = unit[..., None] if a.ndim > one[1].ndim else unit
        worst = np.max(np.abs(a - b) / scale)
        assert worst <= tolerance, (worst, a, b)
