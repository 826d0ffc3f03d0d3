"""The published methods: their training, predictions and settings."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from lab_builders.peers import SMALL_SSWIM, rows, seeded_generator, seeded_normal
from scipy import stats
from sswim_lab.peers.protocol import Fitted, Method, TunedPerDataSet
from sswim_lab.peers.published_sswim import (
    RFFNS,
    RFFS,
    FittedPublished,
    PublishedSSWIM,
    PublishedWarp,
)


def _moments(y: np.ndarray) -> tuple[float, float]:
    return float(y.mean()), float(y.std())


def test_pseudo_points_start_around_the_inputs() -> None:
    method = replace(SMALL_SSWIM, n_pseudo=4000)
    x = seeded_normal(50, 2)
    model = method.start(x, seeded_generator())
    [layer] = model.warps
    assert isinstance(layer, PublishedWarp)
    width = x.amax(0) - x.amin(0)
    for function, mean in ((layer.multiplier, 1), (layer.shift, 0)):
        inputs, targets = function.pseudo_inputs, function.pseudo_targets
        assert torch.allclose(inputs.amin(0), x.amin(0) - 0.2 * width, atol=0.01)
        assert torch.allclose(inputs.amax(0), x.amax(0) + 0.2 * width, atol=0.01)
        assert abs(targets.mean() - mean) < 0.1
        assert abs(targets.std() - math.sqrt(10)) < 0.1


@pytest.mark.parametrize(
    "method",
    [
        SMALL_SSWIM,
        replace(SMALL_SSWIM, depth=2),
        *(replace(m, n_components=32) for m in (RFFS, RFFNS)),
    ],
)
def test_training_learns_and_can_be_repeated(method: PublishedSSWIM) -> None:
    method = replace(method, steps=60, warp_spread=1.0)
    assert isinstance(method, Method)
    x, y = rows()
    test_x, test_y = rows(300, seed=1)
    state = torch.random.get_rng_state()
    fitted = method.fit(x, y, 3, "cpu")
    assert isinstance(fitted, Fitted)
    assert torch.equal(state, torch.random.get_rng_state())
    predictive = fitted.predict(test_x)
    assert np.sqrt(np.mean((predictive.mean - test_y) ** 2)) < 0.6 * y.std()
    assert predictive.log_density(test_y).mean() > stats.norm.logpdf(test_y, *_moments(y)).mean()
    again = method.fit(x, y, 3, "cpu").predict(test_x)
    assert np.array_equal(again.mean, predictive.mean)
    assert not np.array_equal(method.fit(x, y, 4, "cpu").predict(test_x).mean, predictive.mean)


def test_a_callback_sees_every_step() -> None:
    x, y = rows(60)
    seen: list[tuple[int, float]] = []

    def note(step: int, fitted: FittedPublished) -> None:
        seen.append((step, float(fitted.predict(x).mean[0])))

    last = SMALL_SSWIM.fit(x, y, 0, "cpu", note).predict(x).mean[0]
    assert [step for step, _ in seen] == [1, 2, 3, 4, 5]
    assert len({value for _, value in seen}) == 5
    assert seen[-1][1] == last
    assert SMALL_SSWIM.fit(x, y, 0, "cpu").predict(x).mean[0] == last  # looking changes nothing


def test_rows_are_predicted_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = rows(60)
    fitted = SMALL_SSWIM.fit(x, y, 0, "cpu")
    whole = fitted.predict(x)
    monkeypatch.setattr("sswim_lab.peers.published_sswim.PREDICTED_ROWS", 7)
    parts = fitted.predict(x)
    assert np.allclose(whole.mean, parts.mean)
    assert np.allclose(whole.variance, parts.variance)


def test_warped_inputs_and_pseudo_inputs_for_figures() -> None:
    x, y = rows(60)
    fitted = replace(SMALL_SSWIM, depth=2).fit(x, y, 0, "cpu")
    points = fitted.pseudo_inputs()
    assert [each.shape for each in points] == 4 * [(12, 3)]
    mean, variance = fitted.warp(x)
    assert mean.shape == variance.shape == (60, 3)
    assert (variance > 0).all()
    flat, nothing = replace(SMALL_SSWIM, depth=0).fit(x, y, 0, "cpu").warp(x)
    assert not nothing.any()
    assert np.allclose(flat, x)


def test_settings_are_those_of_the_data_set() -> None:
    assert isinstance(SMALL_SSWIM, TunedPerDataSet)
    one, two = PublishedSSWIM(1), PublishedSSWIM(2)
    assert one.settings()["features"] == 512
    concrete = two.for_data_set("concrete")
    assert (concrete.warp_spread, concrete.top_spread) == (0.001, 10)
    assert concrete.learning_rate == 0.05
    assert one.for_data_set("protein").settings()["features"] == 1024
    assert SMALL_SSWIM.for_data_set("protein").settings()["features"] == 16
    creep = one.for_data_set("creep")
    assert (creep.kernel, creep.learning_rate, creep.betas) == ("rbf", 0.03, (0.9, 0.999))
    assert dict(one.for_data_set("buzz").settings()) == {**one.settings(), "features": 128}
    assert RFFS.for_data_set("concrete").settings() == RFFS.settings()
    assert RFFNS.for_data_set("abalone").kernel == "rbf"
