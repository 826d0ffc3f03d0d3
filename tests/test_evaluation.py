from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import r2_score

from sswim import SSWIMRegressor
from sswim.evaluation import evaluate


def test_scores_against_their_formulas() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(80, 2))
    y = x[:, 0] + 0.2 * random.normal(size=80)
    settings: dict[str, Any] = {"depth": 1, "n_features": 16, "n_pseudo": 4, "max_iter": 3}
    regressor = SSWIMRegressor(**settings, random_state=0).fit(x, y)
    mean, std = regressor.predict(x, return_std=True)
    scores = evaluate(regressor, x, y, coverage=0.5)
    assert scores.rmse == pytest.approx(np.sqrt(np.mean((mean - y) ** 2)))
    assert scores.mnlp == pytest.approx(-stats.norm(mean, std).logpdf(y).mean())
    assert scores.r2 == pytest.approx(r2_score(y, mean))
    inside = np.abs(y - mean) < stats.norm.ppf(0.75) * std
    assert scores.coverage == pytest.approx(inside.mean())
