"""Boosted trees, pytabkit and held-out rows."""

from __future__ import annotations

import numpy as np
import pytest
from builders.crps import Array
from lab_builders.peers import predicted, rows
from sswim_lab.peers.trees import (
    CatBoost,
    ConstantVariance,
    LearntVariance,
    Pytabkit,
    hold_out_tenth,
)


def test_catboost_has_one_variance_if_its_loss_is_the_error() -> None:
    learnt, constant = predicted(CatBoost()), predicted(CatBoost("RMSE"))
    assert len(np.unique(learnt.variance)) > 10
    assert len(np.unique(constant.variance)) == 1
    assert CatBoost("RMSE").settings()["loss_function"] == "RMSE"
    assert "density" in CatBoost("RMSE").settings()
    assert "density" not in CatBoost().settings()


def test_a_tenth_is_held_out_and_the_target_standardised() -> None:
    x, y = rows(100)
    split = hold_out_tenth(x, y, 3)
    assert len(split.held_out_y) == 10
    together = np.concatenate([split.y, split.held_out_y])
    assert np.allclose(np.sort(split.target_mean + split.target_spread * together), np.sort(y))
    assert np.allclose([together.mean(), together.std()], [0, 1])
    assert np.array_equal(hold_out_tenth(x, y, 3).held_out_y, split.held_out_y)
    assert not np.array_equal(hold_out_tenth(x, y, 4).held_out_y, split.held_out_y)


class Zero:
    """A model that predicts zero."""

    def predict(self, x: Array) -> Array:
        return np.zeros(len(x))


def test_the_error_on_held_out_rows_is_the_variance_of_all() -> None:
    x, y = rows(100)
    split = hold_out_tenth(x, y, 0)
    predictive = ConstantVariance.from_held_out(Zero(), split).predict(x)
    assert np.allclose(predictive.mean, y.mean())
    held_out = y.std() * split.held_out_y
    assert np.allclose(predictive.variance, np.mean(held_out**2), rtol=1e-12, atol=0)


def test_learnt_moments_are_returned_in_the_units_of_the_target() -> None:
    fitted = LearntVariance(
        lambda x: (x[:, 0], np.abs(x[:, 1])), target_mean=3.0, target_spread=2.0
    )
    predictive = fitted.predict(np.array([[1.0, 0.25], [-2.0, 1.0]]))
    assert predictive.mean == pytest.approx([5, -1])
    assert predictive.variance == pytest.approx([1, 4])


@pytest.mark.parametrize(("estimator", "epochs"), [("RealMLP_TD", 3), ("TabM_D", 1)])
def test_networks_depend_on_the_seed_only(
    estimator: str, epochs: int, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pytabkit", reason="needs the extra strong-peers")
    method = Pytabkit(f"{estimator}_Regressor", changes={"n_epochs": epochs})
    assert method.settings()["n_epochs"] == epochs
    first, again, other = (predicted(method, seed) for seed in (0, 0, 1))
    assert np.array_equal(first.mean, again.mean)
    assert not np.array_equal(first.mean, other.mean)
    assert (first.variance > 0).all()
    assert capfd.readouterr() == ("", "")


def test_trees_run_on_the_cpu() -> None:
    trees = Pytabkit("LGBM_TD_Regressor", runs_on_gpu=False)
    assert (trees.device("cuda"), trees.device("auto")) == ("cpu", "cpu")
