from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import sklearn
from builders.estimators import make_rows, small
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.model_selection import KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sswim.estimator import BaseRegressor

X, Y = make_rows(60)
WEIGHT = np.tile([1.0, 3.0, 0.0], 20)
DEVIATION = np.tile([[0.0, 0.1], [0.4, 0.0]], (30, 1))
KNOWN: dict[str, Any] = {"sample_weight": WEIGHT, "X_std": DEVIATION}


@pytest.fixture(autouse=True)
def routing() -> Iterator[None]:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def requesting() -> BaseRegressor:
    """Return an estimator that asks for weights and standard deviations wherever it may."""
    model = small().set_fit_request(sample_weight=True, X_std=True)
    return model.set_predict_request(X_std=True).set_score_request(sample_weight=True, X_std=True)


def split_scores() -> list[float]:
    """Return the scores of two folds, found without scikit-learn's routing."""
    scores = []
    for rows in KFold(2).split(X):
        train, test = ({name: KNOWN[name][part] for name in KNOWN} for part in rows)
        model = small().fit(X[rows[0]], Y[rows[0]], **train)
        scores.append(model.score(X[rows[1]], Y[rows[1]], **test))
    return scores


def test_weights_and_deviations_are_all_that_can_be_routed() -> None:
    requests = small().get_metadata_routing()
    for method in (requests.fit, requests.partial_fit, requests.score):
        assert method.requests.keys() == {"sample_weight", "X_std"}
    assert requests.predict.requests.keys() == {"X_std"}
    with pytest.raises(TypeError, match="Unexpected args"):
        small().set_fit_request(time_limit=True)


def test_a_pipeline_passes_them_on() -> None:
    scale = StandardScaler().set_fit_request(sample_weight=False)
    pipeline = make_pipeline(scale, requesting())
    pipeline.fit(X, Y, **KNOWN)
    alone = small().fit(scale.fit_transform(X), Y, **KNOWN)
    scaled = scale.transform(X)
    expected = alone.predict(scaled, X_std=DEVIATION)
    assert np.array_equal(pipeline.predict(X, X_std=DEVIATION), expected)
    assert not np.array_equal(pipeline.predict(X), expected)
    assert pipeline.score(X, Y, **KNOWN) == alone.score(scaled, Y, **KNOWN)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_cross_validation_cuts_them_with_the_rows(n_jobs: int) -> None:
    found = cross_validate(requesting(), X, Y, cv=KFold(2), params=KNOWN, n_jobs=n_jobs)
    assert found["test_score"] == pytest.approx(split_scores(), rel=1e-12)


def test_what_nobody_asked_for_is_refused() -> None:
    with pytest.raises(UnsetMetadataPassedError, match="X_std"):
        cross_validate(small(), X, Y, params={"X_std": DEVIATION}, error_score="raise")
