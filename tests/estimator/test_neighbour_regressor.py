from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders.estimators import make_rows, small

from sswim import load
from sswim.base.validation import UserError
from sswim.estimator import BaseRegressor
from sswim.estimator.model_file import MODEL
from sswim.rows import ArraySource

X, Y = make_rows()


def near(**changes: Any) -> BaseRegressor:
    """Make an estimator that predicts by neighbours, and is trained quickly."""
    return small(**{"n_neighbors": 8, **changes})


@pytest.fixture(scope="module")
def regressor() -> BaseRegressor:
    return near(max_iter=20).fit(X, Y)


def test_detail_is_learnt() -> None:
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, size=(1200, 2))
    y = np.sin(12 * x[:, 0]) * np.cos(9 * x[:, 1]) + 0.05 * random.normal(size=1200)
    model = near(n_neighbors=16, depth=0, max_iter=60).fit(x[:1000], y[:1000])
    mean, std = model.predict(x[1000:], return_std=True)
    assert np.sqrt(np.mean((mean - y[1000:]) ** 2)) < 0.15
    assert 0.02 < np.median(std) < 0.2
    lower, upper = model.predict_interval(x[1000:], 0.9)
    assert 0.8 < np.mean((lower < y[1000:]) & (y[1000:] < upper)) < 0.99
    assert np.mean(model.log_density(x[1000:], y[1000:])) > 0.7


def test_what_it_is(regressor: BaseRegressor) -> None:
    assert regressor.keeps_rows_
    assert regressor.n_samples_seen_ == 60
    assert small().fit(X, Y).keeps_rows_  # few rows are smaller than sums over them
    assert not hasattr(regressor, "log_marginal_likelihood_")
    with pytest.raises(AttributeError, match="no evidence of all rows"):
        regressor.log_marginal_likelihood_  # noqa: B018
    assert len(regressor.warp(X)) == 1


def test_a_file_without_rows_asks_for_them(regressor: BaseRegressor, tmp_path: Path) -> None:
    regressor.save(tmp_path / "model", include_rows=False)
    tensors, _ = MODEL.read(tmp_path / "model")
    assert all(60 not in tensor.shape for tensor in tensors.values())
    loaded = load(tmp_path / "model")
    assert loaded.n_samples_seen_ == 0
    assert loaded.keeps_rows_
    for ask in (
        lambda: loaded.predict(X),
        lambda: loaded.predict(X, return_std=True),
        lambda: loaded.predict(X, return_cov=True),
        lambda: loaded.predict(X, return_std=True, X_std=0.1),
        lambda: loaded.predict_interval(X),
        lambda: loaded.log_density(X, Y),
        lambda: loaded.sample_y(X),
    ):
        with pytest.raises(UserError, match=r"saved without them.*partial_fit\(X, y\) first"):
            ask()
    assert np.isfinite(loaded.warp(X)[0][0]).all()  # warps need no rows
    loaded.partial_fit(X[:30], Y[:30]).partial_fit(X[30:], Y[30:])
    ours, theirs = (model.predict(X, return_std=True) for model in (loaded, regressor))
    assert np.allclose(ours, theirs, rtol=1e-9)


def test_a_source_is_fitted_as_arrays_are() -> None:
    ours, theirs = near().fit(ArraySource(X, Y)), near().fit(X, Y)
    assert np.allclose(ours.predict(X), theirs.predict(X), rtol=1e-6)
    with pytest.raises(UserError, match="loo_predict needs the arrays"):
        ours.loo_predict()
