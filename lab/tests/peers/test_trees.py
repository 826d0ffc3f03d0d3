"""Boosted trees: the losses of CatBoost."""

from __future__ import annotations

import numpy as np
from lab_builders.peers import predicted
from sswim_lab.peers.trees import CatBoost


def test_catboost_has_one_variance_if_its_loss_is_the_error() -> None:
    learnt, constant = predicted(CatBoost()), predicted(CatBoost("RMSE"))
    assert len(np.unique(learnt.variance)) > 10
    assert len(np.unique(constant.variance)) == 1
    assert CatBoost("RMSE").settings()["loss_function"] == "RMSE"
    assert "density" in CatBoost("RMSE").settings()
    assert "density" not in CatBoost().settings()
