"""The regressors of pytabkit, with few epochs."""

from __future__ import annotations

import numpy as np
import pytest
from lab_builders.peers import predicted
from sswim_lab.peers.trees import Pytabkit


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
