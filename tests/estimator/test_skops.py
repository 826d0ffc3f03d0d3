from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from builders.estimators import (
    few_noise_steps,  # noqa: F401 (for every test here)
    skewed_rows,
    small,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sswim.ensemble.plan import Recipe

skops = pytest.importorskip("skops.io", reason="skops is not installed: pip install skops")

X, Y = skewed_rows(60)

ESTIMATOR = "sswim.estimator.regressor.SSWIMRegressor"
RECIPE = "sswim.ensemble.plan.Recipe"

SETTINGS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "features": ({}, [ESTIMATOR]),
    "neighbours": ({"n_neighbors": 8}, [ESTIMATOR]),
    "random state": ({"random_state": np.random.RandomState(0)}, [ESTIMATOR]),
    "ensemble": (
        {"depth": "auto", "n_members": 1, "max_iter": 1, "recipe": Recipe(pruning=False)},
        [ESTIMATOR, RECIPE],
    ),
}


@pytest.mark.parametrize(("settings", "types"), [*SETTINGS.values()], ids=[*SETTINGS])
def test_only_types_of_sswim_need_trust(
    settings: dict[str, Any], types: list[str], tmp_path: Path
) -> None:
    frame = pd.DataFrame(X, columns=["east", "north"]).assign(town=["Bath", "Ely", None] * 20)
    frame.loc[7, "north"] = np.nan
    model, path = small(**settings).fit(frame, Y), tmp_path / "model.skops"
    skops.dump(model, path)
    assert skops.get_untrusted_types(file=path) == types
    again = skops.load(path, trusted=types)
    for ours, theirs in (
        (again.predict(frame, return_std=True), model.predict(frame, return_std=True)),
        (again.log_density(frame, Y), model.log_density(frame, Y)),
    ):
        assert np.array_equal(np.asarray(ours), np.asarray(theirs))
    for name in ("recipe", "depth", "device"):
        assert getattr(again, name) == getattr(model, name)
    assert again.recipe_ == model.recipe_


def test_an_estimator_that_is_not_fitted_is_kept() -> None:
    model = small(recipe=Recipe(stacking=False))
    again = skops.loads(skops.dumps(model), trusted=[ESTIMATOR, RECIPE])
    assert again.get_params() == model.get_params()
    assert not again.__sklearn_is_fitted__()


def test_a_pipeline_is_kept() -> None:
    model = make_pipeline(StandardScaler(), small()).fit(X, Y)
    again = skops.loads(skops.dumps(model), trusted=[ESTIMATOR])
    assert np.array_equal(again.predict(X), model.predict(X))
