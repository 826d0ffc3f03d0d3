"""The published model: its warps against samples, and the features above them."""

from __future__ import annotations

from dataclasses import replace

import torch
from lab_builders.peers import SMALL_SSWIM, seeded_generator, seeded_normal
from sswim_lab.peers.published_sswim import PublishedModel, PublishedWarp

from sswim.rows import Measure


def test_a_warp_has_the_moments_of_its_samples() -> None:
    model = SMALL_SSWIM.start(seeded_normal(50, 2), seeded_generator())
    [layer] = model.warps
    assert isinstance(layer, PublishedWarp)
    measure = Measure(seeded_normal(1, 2, seed=3), seeded_normal(1, 2, seed=4).square())
    assert measure.variance is not None
    with torch.no_grad():
        moments = layer.multiplier(measure), layer.shift(measure)
        warped = layer(measure)
        point = layer(Measure(measure.mean))
        of_point = layer.multiplier(Measure(measure.mean)), layer.shift(Measure(measure.mean))
    n = 400_000
    for result, (g, h), spread in (
        (warped, moments, measure.variance.sqrt()),
        (point, of_point, torch.zeros(1, 2)),
    ):
        x = measure.mean + spread * seeded_normal(n, 2, seed=5)
        gs, hs = (
            mean + variance.sqrt() * seeded_normal(n, 2, seed=6 + k)
            for k, (mean, variance) in enumerate((g, h))
        )
        samples = gs * x + hs
        assert torch.allclose(samples.mean(0), result.mean[0], atol=0.03)
        assert torch.allclose(samples.var(0), result.variance[0], rtol=0.03)


def test_features_above_see_the_warped_measure() -> None:
    x = seeded_normal(9, 2)
    model = replace(SMALL_SSWIM, depth=2).start(x, seeded_generator())
    assert isinstance(model, PublishedModel)
    first, second = model.warps
    expected = model.top.features(second(first(Measure(x))))
    assert torch.equal(model.features(x), expected)
