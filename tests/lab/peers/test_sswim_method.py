"""SSWIM as one of the compared methods."""

from __future__ import annotations

import pytest

from sswim.lab.peers.published_sswim import PublishedSSWIM
from sswim.lab.peers.sswim_method import SSWIM, sswim
from sswim.recipe.recipe import Recipe


def test_settings_are_those_that_differ_from_the_defaults() -> None:
    changes = {"n_members": 1, "recipe": Recipe(depths=(0,), normal_scores=False)}
    expected = {"n_members": 1, "depths": (0,), "normal_scores": False}
    assert SSWIM(changes).settings() == expected


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
