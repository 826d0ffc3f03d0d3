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

from sswim import NeighbourGPRegressor, Recipe, SSWIMRegressor, WarpedGPRegressor

skops = pytest.importorskip("skops.io", reason="skops is not installed: pip install skops")

X, Y = skewed_rows(60)

ONE, NEAR, ESTIMATOR = (
    f"{kind.__module__}.{kind.__name__}"
    for kind in (WarpedGPRegressor, NeighbourGPRegressor, SSWIMRegressor)
)
RECIPE = "sswim.ensemble.plan.Recipe"

SETTINGS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "features": ({}, [ONE]),
    "neighbours": ({"n_neighbors": 8}, [NEAR]),
    "random state": ({"random_state": np.random.RandomState(0)}, [ONE]),
    "ensemble": (
        {"depth": None, "n_members": 1, "max_iter": 1, "recipe": Recipe(pruning=False)},
        [RECIPE, ESTIMATOR],
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
    assert skops.get_untrusted_types(file=path) == sorted(types)
    again = skops.load(path, trusted=types)
    for ours, theirs in (
        (again.predict(frame, return_std=True), model.predict(frame, return_std=True)),
        (again.log_density(frame, Y), model.log_density(frame, Y)),
    ):
        assert np.array_equal(np.asarray(ours), np.asarray(theirs))
    if "random_state" not in settings:
        assert again.get_params() == model.get_params()
    assert again.kinds_ == model.kinds_


def test_an_estimator_that_is_not_fitted_is_kept() -> None:
    model = SSWIMRegressor(recipe=Recipe(stacking=False))
    again = skops.loads(skops.dumps(model), trusted=[ESTIMATOR, RECIPE])
    assert again.get_params() == model.get_params()
    assert not again.__sklearn_is_fitted__()


def test_a_pipeline_is_kept() -> None:
    model = make_pipeline(StandardScaler(), small()).fit(X, Y)
    again = skops.loads(skops.dumps(model), trusted=[ONE])
    assert np.array_equal(again.predict(X), model.predict(X))
