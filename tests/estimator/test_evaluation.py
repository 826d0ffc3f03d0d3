from __future__ import annotations

import numpy as np
import pytest
from builders.estimators import small
from scipy import stats
from sklearn.metrics import r2_score

from sswim.estimator.evaluation import evaluate


def test_scores_against_their_formulas() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(80, 2))
    y = x[:, 0] + 0.2 * random.normal(size=80)
    regressor = small().fit(x, y)
    mean, std = regressor.predict(x, return_std=True)
    scores = evaluate(regressor, x, y, level=0.5)
    assert scores.rmse == pytest.approx(np.sqrt(np.mean((mean - y) ** 2)))
    assert scores.mnlp == pytest.approx(-stats.norm(mean, std).logpdf(y).mean())
    assert scores.r2 == pytest.approx(r2_score(y, mean))
    inside = np.abs(y - mean) < stats.norm.ppf(0.75) * std
    assert scores.coverage == pytest.approx(inside.mean())
    assert scores.n_rows == 80


def test_scores_of_several_targets_and_members() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(60, 2))
    y = x @ [[1.0, 20.0], [0.5, -3.0]] + [1.0, 2.0] * random.normal(size=(60, 2))
    regressor = small(n_members=2, output_warp="tanh").fit(x, y)
    scores = evaluate(regressor, x, y, level=0.5)
    lower, upper = regressor.predict_interval(x, 0.5)
    assert scores.rmse == pytest.approx(np.sqrt(np.mean((regressor.predict(x) - y) ** 2)))
    assert scores.mnlp == pytest.approx(-np.mean(regressor.log_density(x, y)))
    assert scores.r2 == pytest.approx(regressor.score(x, y))
    assert scores.coverage == pytest.approx(np.mean((lower <= y) & (y <= upper)))


def test_targets_without_spread() -> None:
    x = np.arange(8.0)[:, None]
    regressor = small().fit(x, np.sin(x[:, 0]))
    assert evaluate(regressor, x, np.full(8, 7.0)).r2 == regressor.score(x, np.full(8, 7.0)) == 0
    assert np.isnan(evaluate(regressor, x[:1], [1.0]).r2)


def test_what_cannot_be_evaluated() -> None:
    x = np.arange(8.0)[:, None]
    regressor = small().fit(x, np.sin(x[:, 0]))
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        evaluate(regressor, x, x[:, 0], level=1.0)
    with pytest.raises(ValueError, match="must have the 1 targets of fit"):
        evaluate(regressor, x, np.ones((8, 2)))
