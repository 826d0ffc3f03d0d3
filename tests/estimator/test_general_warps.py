"""Fits with a projected or a full matrix of the warps, through the whole estimator."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders.estimators import make_rows, small

from sswim import load
from sswim.ensemble.plan import Recipe
from sswim.estimator import BaseRegressor, make_estimator
from sswim.plotting import plot_warps

N_INPUTS = 3
X, Y = make_rows(60, N_INPUTS)
FORMS: dict[str, dict[str, Any]] = {
    "projected": {"warp_matrix": "projected", "warp_dim": 2},
    "wider": {"warp_matrix": "projected", "warp_dim": 4, "warps": "joint"},
    "square": {"warp_matrix": "projected", "inputs": "normal-scores"},
    "full": {"warp_matrix": "full", "warp_dim": 2},
    "full-square": {"warp_matrix": "full", "warps": "joint", "noise": "input-dependent"},
}


@pytest.fixture(scope="module", params=[(form, k) for form in FORMS for k in (None, 8)], ids=str)
def fitted(request: pytest.FixtureRequest) -> BaseRegressor:
    form, n_neighbors = request.param
    settings = {"depth": 2, "n_components": 16, "n_neighbors": n_neighbors, **FORMS[form]}
    return small(**settings).fit(X, Y)


def test_predictions_are_finite_and_near_the_targets(fitted: BaseRegressor) -> None:
    mean, std = fitted.predict(X, return_std=True)
    assert np.sqrt(np.mean((mean - Y) ** 2)) < 0.9 * np.std(Y)
    assert (std > 0).all()
    uncertain, wide = fitted.predict(X, return_std=True, X_std=0.3)
    assert np.isfinite(uncertain).all()
    assert wide.mean() > std.mean()
    assert fitted.sample_y(X[:5], 3).shape == (5, 3)
    assert np.isfinite(fitted.loo_predict()).all()
    assert fitted.posterior(torch.from_numpy(X[:4])).mean.isfinite().all()


def test_warps_have_the_dimension_of_the_warped_space(fitted: BaseRegressor) -> None:
    size = fitted.warp_dim or N_INPUTS
    for X_std in (None, 0.2):
        layers = fitted.warp(X, X_std=X_std)
        assert [mean.shape for mean, _ in layers] == [(60, size)] * 2
        assert all((variance >= 0).all() for _, variance in layers)
    with pytest.raises(ValueError, match="a projection mixes them"):
        plot_warps(fitted, X)


def test_files_more_rows_and_uncertain_inputs(fitted: BaseRegressor, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert np.array_equal(loaded.predict(X), fitted.predict(X))
    assert loaded.warp_dim == fitted.warp_dim
    loaded.partial_fit(X[:7] + 0.1, Y[:7])
    assert np.isfinite(loaded.predict(X)).all()
    again = make_estimator(**{**fitted.get_params(), "max_iter": 1}).fit(X, Y, X_std=0.1)
    assert np.isfinite(again.predict(X, X_std=0.1)).all()


def test_the_ensemble_has_the_matrix_in_all_kinds_with_warps() -> None:
    recipe = Recipe(kinds=("mean", "features-1", "neighbours-0-smooth", "neighbours-1"))
    settings = {"depth": None, "n_members": 2, "max_iter": 2, "recipe": recipe, "warp_dim": 2}
    x, y = make_rows(80, N_INPUTS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = small(**{**settings, "n_components": 8, "n_pseudo": 4}).fit(x, y)
    assert np.isfinite(model.predict(x)).all()
    for member in model.members_:
        architecture = member.model.architecture
        assert architecture.warp_dim == (2 if architecture.depth else None)
