"""Random tables and settings: a fit is refused, or its predictions make sense and are invariant."""

from __future__ import annotations

import pickle
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders.fuzz_fits import (
    Settings,
    Table,
    all_predictions,
    fit,
    fit_settings,
    fit_table,
    frames,
    only_notes,
    refusals,
    require_close,
    require_finite_draws,
    require_sane,
    require_sane_fit,
    tables,
    two_noise_steps,  # noqa: F401 (for every test here)
)
from builders.fuzzing import fuzz
from hypothesis import example
from hypothesis import strategies as st

from sswim import load

PLAIN: Settings = {"depth": 0, "n_components": 1, "max_iter": 0}


# A standard deviation of 1e5 length-scales: huge exponents that cancel gave NaN variances.
@fuzz(small=10, full=35_000, table=tables(), settings=fit_settings())
@example(
    table=Table(n_rows=2, columns=("normal",) * 3, units=(6, 0), deviations="number"),
    settings=PLAIN | {"kernel": "rbf", "length_scale": 1e-6},
)
# The variance of a gap in a column of 1e200, which is cut off there, and that of X_std overflowed.
@example(
    table=Table(
        seed=9390,
        n_rows=23,
        columns=("skewed", "uniform", "levels", "with gaps", "constant"),
        units=(150, 0, 20, 200, -3),
        n_repeats=2,
        weights="counts",
        deviations="number",
    ),
    settings=PLAIN,
)
def test_predictions_of_arrays_are_sane(table: Table, settings: Settings) -> None:
    require_sane_fit(fit_table(settings, table), table)


# Means of levels of almost constant targets of 1e200 differed by rounding, whose square overflowed.
@fuzz(small=5, full=5_000, table=frames(), settings=fit_settings())
@example(
    table=Table(
        seed=494,
        n_rows=19,
        columns=("many texts",),
        units=(0,),
        targets=("almost constant",),
        target_unit=200,
        offset=-1e6,
        weights="counts",
        frame=True,
    ),
    settings=PLAIN,
)
def test_predictions_of_frames_are_sane(table: Table, settings: Settings) -> None:
    require_sane_fit(fit_table(settings, table), table)


@fuzz(small=3, full=3_000, table=tables(), settings=fit_settings())
def test_drawn_functions_are_finite(table: Table, settings: Settings) -> None:
    regressor = fit_table(settings, table)
    require_finite_draws(regressor, table.rows(4, seed=1))


@fuzz(small=3, full=3_000, table=tables(), settings=fit_settings())
def test_predictions_after_more_rows_are_sane(table: Table, settings: Settings) -> None:
    X, y, options = table.rows(), table.y(), table.options()
    half = len(y) // 2
    parts: tuple[dict[str, Any], ...] = ({}, {})
    for name, value in options.items():
        whole = getattr(value, "ndim", 0) and len(value) == len(y)
        parts[0][name], parts[1][name] = (value[:half], value[half:]) if whole else (value, value)
    regressor = fit(settings, X[:half], y[:half], **parts[0])
    with refusals(regressor):
        regressor.partial_fit(X[half:], y[half:], **parts[1])
    require_sane(regressor, X, y)


DEFAULT = st.fixed_dictionaries(
    {
        "max_iter": st.sampled_from([0, 1, 5] * 3 + ["auto"]),
        "n_members": st.sampled_from([1, "auto"]),
        "dtype": st.sampled_from(["auto", "auto", "float32", "float64"]),
    }
)
"""Settings of the default ensemble, mostly with few steps."""


@fuzz(
    small=2,
    full=1_000,
    part=20,
    limit=240,
    table=st.one_of(tables(), tables(), frames()),
    settings=DEFAULT,
)
def test_predictions_of_default_fits_are_sane(table: Table, settings: Settings) -> None:
    regressor = fit_table(settings, table)
    require_sane_fit(regressor, table)
    require_finite_draws(regressor, table.rows(3, seed=1))


SEEDS = st.integers(0, 1000)

WITHOUT_DRAWS: Settings = {"depth": 0, "growing": False, "n_neighbors": 0}
"""Features without warps: no random choice depends on the order of the rows."""

EXACT: Settings = {
    "depth": 0,
    "growing": False,
    "n_neighbors": 100,
    "local_amplitude": False,
    "max_iter": 0,
    "noise": "constant",
}
"""The exact kernel with all rows as neighbours, before training: no random choice at all.

An amplitude of its own would be that of the nearest rows, among which equal inputs are ties.
"""

RESOLVED: Settings = {"dtype": "float64", "length_scale": "auto"}
"""Settings with which the phases of features are not lost in rounding."""


# Logarithms of ±350 after training at an absurd rate: no finite quantiles, and no file to load.
@fuzz(small=3, full=5_000, table=tables(), settings=fit_settings(), seed=SEEDS)
@example(
    table=Table(
        seed=285052,
        n_rows=52,
        columns=("uniform", "uniform", "uniform"),
        units=(0, 0, 0),
        targets=("almost constant", "skewed"),
    ),
    settings={
        **{"depth": 0, "n_neighbors": 1, "n_members": 2, "max_iter": 5, "learning_rate": 1000.0},
        **{"kernel": "matern52", "objective": "leave-one-out"},
    },
    seed=0,
)
def test_predictions_do_not_depend_on_their_order(
    table: Table, settings: Settings, seed: int
) -> None:
    regressor = fit_table(settings | RESOLVED, table)
    X = table.rows()
    expected = all_predictions(regressor, X)
    order = np.random.default_rng(seed).permutation(len(X))
    shuffled = all_predictions(regressor, X[order])
    require_close(tuple(each[order] for each in expected), shuffled, 1e-6)
    single = all_predictions(regressor, X[:1])
    require_close(tuple(each[:1] for each in expected), single, 1e-6)


@fuzz(
    small=3,
    full=5_000,
    table=tables(plain=True),
    settings=fit_settings(),
    powers=st.tuples(st.integers(-60, 60), st.integers(-60, 60)),
)
def test_units_that_are_powers_of_two_change_no_bit(
    table: Table, settings: Settings, powers: tuple[int, int]
) -> None:
    # A constant column has no unit of its own: its spread is taken as one.
    kinds = tuple("normal" if kind == "constant" else kind for kind in table.columns)
    table = replace(table, columns=kinds)
    X, y = table.rows(), table.y()
    of_inputs, of_targets = (2.0**power for power in powers)
    expected = all_predictions(fit(settings, X, y), X)
    other = all_predictions(fit(settings, of_inputs * X, of_targets * y), of_inputs * X)
    found = tuple(each / of_targets for each in other)
    require_close(expected[:2], found[:2], 0)
    require_close(expected, found, 1e-6)  # quantiles of mixtures are found by iteration


@fuzz(small=3, full=4_000, table=tables(plain=True), settings=fit_settings(), seed=SEEDS)
def test_order_of_rows_does_not_matter_without_draws(
    table: Table, settings: Settings, seed: int
) -> None:
    X, y = table.rows(), table.y()
    order = np.random.default_rng(seed).permutation(len(X))
    if settings["kernel"] == "matern12":
        # Some of its frequencies are so high that rounding shows, and training makes it grow.
        settings = settings | {"kernel": "matern32"}
    for choice in (WITHOUT_DRAWS | RESOLVED, EXACT | RESOLVED):
        expected = all_predictions(fit(settings | choice, X, y), X)
        shuffled = fit(settings | choice, X[order], y[order])
        require_close(expected, all_predictions(shuffled, X), 1e-4)


@fuzz(small=3, full=4_000, table=tables(plain=True), settings=fit_settings(), seed=SEEDS)
def test_units_and_columns_do_not_matter_to_the_exact_kernel(
    table: Table, settings: Settings, seed: int
) -> None:
    random = np.random.default_rng(seed)
    X, y, settings = table.rows(), table.y(), settings | EXACT | RESOLVED
    expected = all_predictions(fit(settings, X, y), X)
    n_columns = X.shape[1]
    units, origins = random.uniform(0.01, 100, n_columns), random.normal(size=n_columns)
    order = random.permutation(n_columns)
    other = (units * X + origins)[:, order]
    unit, origin = random.uniform(0.01, 100), random.normal()
    mean, std, quantiles = all_predictions(fit(settings, other, unit * y + origin), other)
    found = ((mean - origin) / unit, std / unit, (quantiles - origin) / unit)
    require_close(expected, found, 1e-4)


@fuzz(small=3, full=4_000, table=tables(plain=True), settings=fit_settings(), seed=SEEDS)
def test_a_row_of_weight_two_is_the_row_twice(table: Table, settings: Settings, seed: int) -> None:
    random = np.random.default_rng(seed)
    X, y = table.rows(), table.y()
    counts = random.integers(1, 4, len(X))
    counts[:2] = 1, 2  # equal weights are none
    settings = settings | RESOLVED
    expected = all_predictions(fit(settings, X, y, sample_weight=counts), X)
    places = random.permutation(np.repeat(np.arange(len(X)), counts))
    require_close(expected, all_predictions(fit(settings, X[places], y[places]), X), 1e-4)
    scaled = all_predictions(fit(settings, X, y, sample_weight=0.125 * counts), X)
    require_close(expected, scaled, 1e-4)


@fuzz(small=3, full=3_000, table=st.one_of(tables(), frames()), settings=fit_settings())
def test_saved_pickled_and_repeated_fits_predict_the_same_bits(
    table: Table, settings: Settings
) -> None:
    regressor = fit_table(settings, table)
    X = table.rows(4, seed=1)
    expected = all_predictions(regressor, X)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.sswim"
        regressor.save(path)
        loaded = load(path)
    copied = pickle.loads(pickle.dumps(regressor))
    for other in (loaded, copied, fit_table(settings, table)):
        require_close(expected, all_predictions(other, X), 0)


@fuzz(
    small=3,
    full=2_000,
    table=tables(),
    settings=fit_settings(),
    other=tables(plain=True),
    bad=st.sampled_from(["missing", "endless", "short", "weights", "deviation"]),
)
def test_a_refused_refit_changes_nothing(
    table: Table, settings: Settings, other: Table, bad: str
) -> None:
    regressor = fit_table(settings, table)
    X = table.rows(3, seed=1)
    before, expected = dict(vars(regressor)), all_predictions(regressor, X)
    other = replace(other, flat=True, targets=("signal",))
    more, y = other.rows(), other.y()
    missing, endless = y.copy(), more.copy()
    missing.flat[-1], endless.flat[0] = np.nan, np.inf
    spoilt: dict[str, dict[str, Any]] = {
        "missing": {"y": missing},
        "endless": {"X": endless},
        "short": {"y": y[:-1]},
        "weights": {"sample_weight": np.full(len(y), -1.0)},
        "deviation": {"X_std": -1.0},
    }
    with only_notes(), pytest.raises(ValueError, match=r"\w"):
        regressor.fit(**({"X": more, "y": y} | spoilt[bad]))
    after = vars(regressor)
    assert [name for name in before if after.get(name) is not before[name]] == []
    assert list(after) == list(before)
    require_close(expected, all_predictions(regressor, X), 0)
