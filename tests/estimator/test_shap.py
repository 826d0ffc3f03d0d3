from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from builders.estimators import make_rows, small

from sswim.estimator import BaseRegressor

X, Y = make_rows(80, d=3)


@pytest.fixture
def shap() -> Iterator[Any]:
    """The module shap, which draws from the global random state."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what shap imports
        module = pytest.importorskip("shap", reason="shap is not installed: pip install shap")
    state = np.random.get_state()  # noqa: NPY002
    yield module
    np.random.set_state(state)  # noqa: NPY002


@pytest.fixture(scope="module")
def model() -> BaseRegressor:
    return small(max_iter=20).fit(X, Y)


@pytest.mark.parametrize("algorithm", ["exact", "permutation"])
def test_shares_of_inputs_add_up_to_predictions(
    algorithm: str, shap: Any, model: BaseRegressor
) -> None:
    explainer = shap.Explainer(model.predict, X[:20], algorithm=algorithm)
    found = explainer(X[40:50])
    assert found.values.shape == (10, 3)
    assert np.allclose(found.base_values + found.values.sum(1), model.predict(X[40:50]))
    assert np.allclose(found.base_values, np.mean(model.predict(X[:20])))
    importance = np.abs(found.values).mean(0)
    assert importance[0] > 3 * importance[1:].max()  # the target is a function of the first input


def test_data_frames_are_explained_by_name(shap: Any) -> None:
    frame = pd.DataFrame(X, columns=["east", "north", "height"])
    model = small(max_iter=20).fit(frame, Y)
    found = shap.Explainer(model.predict, frame[:20])(frame[40:50])
    assert found.feature_names == ["east", "north", "height"]
    assert np.allclose(found.base_values + found.values.sum(1), model.predict(frame[40:50]))


def test_text_is_explained_by_way_of_codes(shap: Any) -> None:
    """shap subtracts values, so that it needs numbers; docs/publishing.md shows this way."""
    towns = np.random.default_rng(0).choice(["Bath", "Ely", "York"], len(X))
    frame = pd.DataFrame({"east": X[:, 0], "town": towns})
    model = small(max_iter=20).fit(frame, Y + (towns == "York"))
    town = frame["town"].astype("category").cat
    codes = frame.assign(town=town.codes)

    def predict(codes: pd.DataFrame) -> Any:
        return model.predict(codes.assign(town=town.categories[codes["town"].astype(int)]))

    found = shap.Explainer(predict, codes[:20])(codes[40:50])
    assert np.allclose(found.base_values + found.values.sum(1), model.predict(frame[40:50]))
    assert found.values[towns[40:50] == "York", 1].min() > 0.2
