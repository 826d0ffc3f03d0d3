"""On real data, warps predict better than the stationary model."""

from __future__ import annotations

from typing import Any

import pytest
from lab_builders.datasets import real_split

from sswim import SSWIMRegressor, WarpedGPRegressor
from sswim.estimator.evaluation import evaluate


def test_one_warp_beats_none_on_airfoil() -> None:
    rows = real_split("airfoil", 0)
    settings: dict[str, Any] = {
        "n_components": 192,
        "n_pseudo": 48,
        "random_state": 0,
        "device": "cpu",
    }
    none, one = (
        evaluate(
            WarpedGPRegressor(depth=depth, **settings).fit(rows.train_x, rows.train_y),
            rows.test_x,
            rows.test_y,
        )
        for depth in (0, 1)
    )
    assert one.rmse < none.rmse
    assert one.mnlp < none.mnlp


@pytest.mark.slow
@pytest.mark.parametrize("repeat", range(3))
def test_the_default_beats_the_best_published_on_creep(repeat: int) -> None:
    """The best published mean square error is 279.86, and the best published MNLP 4.21."""
    rows = real_split("creep", repeat)
    regressor = SSWIMRegressor(random_state=repeat, device="cpu").fit(rows.train_x, rows.train_y)
    scores = evaluate(regressor, rows.test_x, rows.test_y, 0.9)
    assert scores.rmse**2 < 279.86
    assert scores.mnlp < 4.21
    assert 0.86 < scores.coverage < 0.97
