"""A fit that fails leaves the estimator as it was."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from builders.estimators import make_rows, small

from sswim.ensemble.ensemble import Ensemble, PendingUpdates
from sswim.estimator import BaseRegressor, base, fitted

X, Y = make_rows(24)
FRAME = pd.DataFrame({"east": X[:, 0], "north": X[:, 1], "kind": ["a", "b", "c"] * 8})

STAGES = (
    *((base, name) for name in ("check_settings", "find_deadline", "as_source")),
    *((fitted, name) for name in ("resolve_device", "summarise", "describe")),
    *((fitted, name) for name in ("warn_about_targets", "begin_fit", "read_training_rows")),
    *((fitted, name) for name in ("show_progress", "fit_members", "make_ensemble")),
    *((fitted, name) for name in ("InputReader", "Fitted")),
)
"""What ``fit`` calls, in order: modules, and names in them."""


def fail_after(function: Callable[..., Any], error: BaseException) -> Callable[..., Any]:
    def failing(*arguments: Any, **options: Any) -> Any:
        function(*arguments, **options)
        raise error

    return failing


def require_same(regressor: BaseRegressor, before: dict[str, Any], predicted: Any) -> None:
    """Check that every attribute is the object that it was."""
    after = vars(regressor)
    assert list(after) == list(before)
    assert [name for name in before if after[name] is not before[name]] == []
    assert np.array_equal(regressor.predict(X), predicted)


ERRORS = pytest.mark.parametrize(
    "error", [ValueError("bad"), KeyboardInterrupt()], ids=["error", "Ctrl-C"]
)


@ERRORS
@pytest.mark.parametrize(("module", "stage"), STAGES)
def test_a_fit_that_fails_after_any_stage_changes_nothing(
    module: ModuleType, stage: str, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    regressor, unfitted = small(max_iter=2).fit(X, Y), small(max_iter=2)
    before, predicted, settings = dict(vars(regressor)), regressor.predict(X), vars(unfitted).copy()
    monkeypatch.setattr(module, stage, fail_after(getattr(module, stage), error))
    # With other columns, names and numbers of targets.
    for inputs, targets in ((X[:, :1], Y), (FRAME, Y), (X, np.stack((Y, Y), axis=1))):
        with pytest.raises(type(error)):
            regressor.fit(inputs, targets)
        require_same(regressor, before, predicted)
    with pytest.raises(type(error)):
        unfitted.fit(X, Y)
    assert vars(unfitted) == settings
    assert not unfitted.__sklearn_is_fitted__()


@pytest.mark.parametrize("n_neighbors", [None, 4])
def test_a_partial_fit_that_fails_changes_nothing(
    n_neighbors: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    regressor = small(max_iter=2, n_neighbors=n_neighbors, n_members=2).fit(X, Y)
    before, predicted = dict(vars(regressor)), regressor.predict(X)
    for bad in ({"y": Y * np.nan}, {"X": X[:, :1]}, {"y": Y[:3]}, {"sample_weight": -np.ones(24)}):
        with pytest.raises(ValueError, match=r"\w"):
            regressor.partial_fit(**{"X": X, "y": Y, **bad})
        require_same(regressor, before, predicted)
    for error in (ValueError("bad"), KeyboardInterrupt()):
        with monkeypatch.context() as patch:
            patch.setattr(PendingUpdates, "add", fail_after(PendingUpdates.add, error))
            with pytest.raises(type(error)):
                regressor.partial_fit(X, Y)
        require_same(regressor, before, predicted)


@pytest.mark.parametrize("n_neighbors", [None, 4])
def test_rows_that_wait_survive_an_interrupt(
    n_neighbors: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    regressor = small(max_iter=2, n_neighbors=n_neighbors).fit(X, Y).partial_fit(X + 0.1, Y)
    before = dict(vars(regressor))
    with monkeypatch.context() as patch:
        patch.setattr(Ensemble, "update", fail_after(Ensemble.update, KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            regressor.predict(X)
    require_same(regressor, before, regressor.predict(X))
    assert regressor.n_samples_seen_ == 48


def test_names_of_an_earlier_fit_are_gone_after_one_of_arrays() -> None:
    regressor = small(max_iter=1).fit(FRAME, Y)
    assert list(regressor.feature_names_in_) == ["east", "north", "kind"]
    regressor.fit(X, Y)
    assert regressor.n_features_in_ == 2
    assert not hasattr(regressor, "feature_names_in_")
    assert not hasattr(regressor, "input_names_")
