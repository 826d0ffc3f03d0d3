"""Random tables: a fit is refused, or all its predictions make sense."""

from __future__ import annotations

from typing import Any

from builders.fuzz_fits import (
    Settings,
    Table,
    fit,
    fit_settings,
    fit_table,
    frames,
    refusals,
    require_finite_draws,
    require_sane,
    require_sane_fit,
    tables,
    two_noise_steps,  # noqa: F401 (for every test here)
)
from builders.fuzzing import fuzz
from hypothesis import example
from hypothesis import strategies as st

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
