"""Random tables and the default ensemble: a fit is refused, or its predictions make sense."""

from __future__ import annotations

from builders.fuzz_fits import (
    Settings,
    fit_table,
    require_finite_draws,
    require_sane,
    two_noise_steps,  # noqa: F401 (for every test here)
)
from builders.fuzz_tables import Table, frames, tables
from builders.fuzzing import fuzz
from hypothesis import strategies as st

SETTINGS = st.fixed_dictionaries(
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
    settings=SETTINGS,
)
def test_predictions_of_default_fits_are_sane(table: Table, settings: Settings) -> None:
    regressor = fit_table(settings, table)
    X_std = table.options().get("X_std")
    require_sane(regressor, table.rows(), table.y(), X_std)
    require_sane(regressor, table.rows(3, seed=1), table.y()[:1].repeat(3, axis=0))
    require_finite_draws(regressor, table.rows(3, seed=1))
