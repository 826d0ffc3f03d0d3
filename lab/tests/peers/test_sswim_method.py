"""SSWIM as one of the compared methods."""

from __future__ import annotations

import numpy as np
import pytest
from builders.crps import cdf_of_rows, integrated_crps
from lab_builders.peers import rows
from sswim_lab.peers.published_sswim import PublishedSSWIM
from sswim_lab.peers.sswim_method import SSWIM, FittedSSWIM, sswim

from sswim.ensemble.plan import KindName, Recipe


def test_settings_are_those_that_differ_from_the_defaults() -> None:
    changes = {"n_members": 1, "recipe": Recipe(kinds=("features-1",), normal_scores=False)}
    expected = {"n_members": 1, "kinds": ("features-1",), "normal_scores": False}
    assert SSWIM(changes).settings() == expected


def test_a_fit_predicts() -> None:
    changes = {"depth": 1, "n_neighbors": 8, "n_components": 16, "n_pseudo": 4, "max_iter": 2}
    fitted = SSWIM(changes).fit(*rows(60), 0, "cpu")
    assert isinstance(fitted, FittedSSWIM)
    assert np.isfinite(fitted.predict(rows(5, seed=1)[0]).variance).all()


def test_presets() -> None:
    assert sswim() == SSWIM()
    assert sswim(2) == SSWIM({"depth": 2})
    published = sswim(3, preset="paper")
    assert isinstance(published, PublishedSSWIM)
    assert published.for_data_set("concrete").settings()["p"] == 0.001
    with pytest.raises(ValueError, match=r'preset="paper" needs a depth, .* Got depth="auto"'):
        sswim(preset="paper")
    with pytest.raises(ValueError, match="preset must be one of"):
        sswim(1, preset="draft")
    with pytest.raises(ValueError, match="depth must be"):
        sswim(-1, preset="paper")


def test_crps_against_integrals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mixtures of members by features and by neighbours with output warps, in chunks of rows."""
    monkeypatch.setattr("sswim_lab.peers.sswim_method.SCORED_ROWS", 2)
    kinds: tuple[KindName, ...] = ("mean", "features-1", "neighbours-1")
    recipe = Recipe(kinds=kinds, noise="constant", stacking=False, pruning=False)
    sizes = {"n_components": 16, "n_pseudo": 4, "n_members": 1, "max_iter": 5}
    method = SSWIM({**sizes, "recipe": recipe})
    x, y = rows(60)
    fitted = method.fit(x, y, 0, "cpu")
    assert isinstance(fitted, FittedSSWIM)
    assert len(fitted.regressor.members_) == 3
    assert fitted.regressor._fitted.warps_targets
    test_x, test_y = x[:3], y[:3]
    cdf = cdf_of_rows(fitted.regressor.predict_distribution(test_x))
    spread = 6 * y.std()
    expected = integrated_crps(cdf, test_y, y.mean() - spread, y.mean() + spread, 300)
    assert fitted.predict(test_x).crps(test_y) == pytest.approx(expected, rel=3e-3)
