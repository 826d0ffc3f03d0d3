"""SSWIM as a peer: the published method with its model and features, and this package's."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from builders.crps import cdf_of_rows, integrated_crps
from lab_builders.peers import SMALL_SSWIM, rows, seeded_generator, seeded_normal
from scipy import stats
from sswim_lab.peers.protocol import TunedPerDataSet
from sswim_lab.peers.published_sswim import (
    RFFNS,
    RFFS,
    FittedPublished,
    KernelName,
    PublishedSSWIM,
    PublishedWarp,
    SpectralGP,
    TwoSpectraGP,
    draw_frequencies,
    positive,
)
from sswim_lab.peers.sswim_method import SSWIM, FittedSSWIM, sswim

from sswim.ensemble.plan import KindName, Recipe
from sswim.rows import Measure


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


def test_a_callback_sees_every_step_and_chunks_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, y = rows(60)
    seen: list[tuple[int, float]] = []

    def note(step: int, fitted: FittedPublished) -> None:
        seen.append((step, float(fitted.predict(x).mean[0])))

    last = SMALL_SSWIM.fit(x, y, 0, "cpu", note).predict(x).mean[0]
    assert [step for step, _ in seen] == [1, 2, 3, 4, 5]
    assert len({value for _, value in seen}) == 5
    assert seen[-1][1] == last
    fitted = SMALL_SSWIM.fit(x, y, 0, "cpu")
    whole = fitted.predict(x)
    assert whole.mean[0] == last  # looking changes nothing
    monkeypatch.setattr("sswim_lab.peers.published_sswim.PREDICTED_ROWS", 7)
    parts = fitted.predict(x)
    assert np.allclose(whole.mean, parts.mean)
    assert np.allclose(whole.variance, parts.variance)


def test_settings_are_those_of_the_data_set() -> None:
    assert isinstance(SMALL_SSWIM, TunedPerDataSet)
    one, two = PublishedSSWIM(1), PublishedSSWIM(2)
    concrete = two.for_data_set("concrete")
    assert (concrete.warp_spread, concrete.top_spread) == (0.001, 10)
    assert one.for_data_set("protein").settings()["features"] == 1024
    assert SMALL_SSWIM.for_data_set("protein").settings()["features"] == 16
    creep = one.for_data_set("creep")
    assert (creep.kernel, creep.learning_rate, creep.betas) == ("rbf", 0.03, (0.9, 0.999))
    assert dict(one.for_data_set("buzz").settings()) == {**one.settings(), "features": 128}
    assert RFFS.for_data_set("concrete").settings() == RFFS.settings()
    assert RFFNS.for_data_set("abalone").kernel == "rbf"


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


def spectral_gp(gp_class: type[SpectralGP] = SpectralGP) -> SpectralGP:
    length_scales = torch.tensor([0.7, 1.5], dtype=torch.float64)
    return gp_class("matern32", 8, length_scales, (0.4, 2.5), seeded_generator())


def test_evidence_and_predictions_are_those_of_the_dense_gp() -> None:
    model, x, y = spectral_gp(), seeded_normal(20, 2), seeded_normal(20, 3, seed=1)
    known = model.features(Measure(x))
    unknown = model.features(Measure(seeded_normal(5, 2, seed=2)))
    covariance = known @ known.mT / 0.4 + torch.eye(20, dtype=torch.float64) / 2.5
    dense = stats.multivariate_normal(cov=covariance.detach().numpy())
    evidence = model.negative_log_evidence(known, y[:, :1]).item()
    assert evidence == pytest.approx(-dense.logpdf(y[:, 0].numpy()), rel=1e-10)
    mean, variance = model.condition(known, y).predict(unknown)
    cross = unknown @ known.mT / 0.4
    gain = cross @ covariance.inverse()
    left = (unknown @ unknown.mT / 0.4 - gain @ cross.mT).diagonal()
    assert torch.allclose(mean, gain @ y, atol=1e-9)
    assert torch.allclose(variance, left + 1 / 2.5, atol=1e-9)


@pytest.mark.parametrize(("kernel", "law"), [("rbf", stats.norm), ("matern32", stats.t(3))])
def test_coordinates_of_frequencies_are_independent(kernel: KernelName, law: Any) -> None:
    draw = draw_frequencies(kernel, 4000, 2, seeded_generator()).numpy()
    for column in draw.T:
        assert stats.kstest(column, law.cdf).pvalue > 0.01
    assert abs(stats.spearmanr(*np.abs(draw.T)).statistic) < 0.05  # isotropic ones depend


def test_two_equal_spectra_are_one() -> None:
    model, x = spectral_gp(TwoSpectraGP), seeded_normal(6, 2)
    assert isinstance(model, TwoSpectraGP)
    model.other_unit_frequencies.copy_(model.unit_frequencies)
    assert torch.allclose(model.features(Measure(x)), spectral_gp().features(Measure(x)))
    with torch.no_grad():
        model.means[1] += 0.5
    frequencies = model.unit_frequencies / positive(model.raw_length_scales)
    phases = x @ frequencies.mT, x @ (frequencies + 0.5).mT
    expected = sum(torch.cat((p.cos(), p.sin()), -1) for p in phases) / math.sqrt(4 * 8)
    assert torch.allclose(model.features(Measure(x)), torch.as_tensor(expected))


def test_settings_are_those_that_differ_from_the_defaults() -> None:
    changes = {"n_members": 1, "recipe": Recipe(kinds=("features-1",), normal_scores=False)}
    expected = {"n_members": 1, "kinds": ("features-1",), "normal_scores": False}
    assert SSWIM(changes).settings() == expected
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
    x, y = rows(60)
    fitted = SSWIM({**sizes, "recipe": recipe}).fit(x, y, 0, "cpu")
    assert isinstance(fitted, FittedSSWIM)
    assert len(fitted.regressor.members_) == 3
    test_x, test_y = x[:3], y[:3]
    cdf = cdf_of_rows(fitted.regressor.predict_distribution(test_x))
    spread = 6 * y.std()
    expected = integrated_crps(cdf, test_y, y.mean() - spread, y.mean() + spread, 300)
    assert fitted.predict(test_x).crps(test_y) == pytest.approx(expected, rel=3e-3)
