"""GPs of GPyTorch."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lab_builders.peers import predicted, rows
from scipy import stats
from sswim_lab.peers.gpytorch_models import mini_batches
from sswim_lab.peers.gpytorch_peers import (
    DKL,
    DSDGP,
    SGPR,
    SVGP,
    ExactGP,
    WellTrainedGP,
    quiet,
    seeded,
)
from sswim_lab.peers.protocol import Fitted, Method, Predictive, standardise

SGPR_SMALL = SGPR(n_inducing=30, steps=40)
SVGP_SMALL = SVGP(n_inducing=30, epochs=40, batch=50)
DKL_SMALL = DKL(widths=(20, 2), grid_size=20, steps=60, learning_rate=0.05)
DSDGP_SMALL = DSDGP(n_hidden=2, n_inducing=20, n_samples=6, epochs=60, batch=50, learning_rate=0.05)
WELL_TRAINED = WellTrainedGP(iterations=40)
SMALL: list[Method] = [SGPR_SMALL, SVGP_SMALL, DKL_SMALL, DSDGP_SMALL, WELL_TRAINED]
ALL: list[Method] = [ExactGP(steps=10), *SMALL]
RANDOM: list[Method] = [SVGP_SMALL, DKL_SMALL, DSDGP_SMALL]


def name(method: Method) -> str:
    return type(method).__name__


def brief(method: Method) -> Any:
    """The method with two steps, epochs or iterations."""
    (field,) = {"epochs", "steps", "iterations"} & vars(method).keys()
    return replace(method, **{field: 2})  # type: ignore[type-var]


@pytest.mark.parametrize("method", SMALL, ids=name)
def test_scores_are_finite_and_sane(
    method: Method,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    x, y = rows()
    test_x, test_y = rows(300, seed=1)
    fitted = method.fit(x, y, 0, "cpu")
    assert isinstance(fitted, Fitted)
    predictive = fitted.predict(test_x)
    assert isinstance(predictive, Predictive)
    assert np.sqrt(np.mean((predictive.mean - test_y) ** 2)) < 0.6 * y.std()
    gain = (
        predictive.log_density(test_y).mean() - stats.norm.logpdf(test_y, y.mean(), y.std()).mean()
    )
    assert gain > 0.2  # over a Gaussian without inputs
    assert (predictive.variance > 0).all()
    lower, upper = predictive.interval(0.9)
    assert 0.7 < np.mean((lower <= test_y) & (test_y <= upper)) <= 1
    assert (lower < predictive.mean).all()
    assert os.listdir(tmp_path) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("method", ALL, ids=name)
def test_the_seed_decides(method: Method) -> None:
    first, again, other = (predicted(brief(method), seed) for seed in (0, 0, 1))
    assert np.array_equal(first.mean, again.mean)
    assert np.array_equal(first.variance, again.variance)
    assert np.array_equal(first.mean, other.mean) == (method not in RANDOM)


@pytest.mark.parametrize("method", ALL, ids=name)
@pytest.mark.parametrize("n", [150, 900])  # by default GPyTorch factorises fewer rows than that
def test_predictions_do_not_depend_on_chunks(
    method: Method, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted = brief(method).fit(*rows(n), 0, "cpu")
    x = rows(40, seed=1)[0]
    whole = fitted.predict(x)
    monkeypatch.setattr("sswim_lab.peers.gpytorch_models.PREDICTED_ROWS", 7)
    parts = fitted.predict(x)
    close = 1e-8 if method.settings()["dtype"] == "float64" else 1e-4
    assert np.allclose(whole.mean, parts.mean, rtol=close, atol=close * whole.mean.std())
    assert np.allclose(whole.variance, parts.variance, rtol=10 * close)
    assert np.allclose(whole.interval(0.5), parts.interval(0.5), rtol=close)


@pytest.mark.parametrize("method", ALL, ids=name)
def test_ten_rows_are_enough(method: Method) -> None:
    predictive = predicted(brief(method), n=10)
    _, y = rows(10)
    assert (np.abs(predictive.mean - y.mean()) < 2 * y.std()).all()
    assert ((predictive.variance > 0) & (predictive.variance < 10 * y.var())).all()


@pytest.mark.parametrize("method", ALL, ids=name)
def test_settings_are_what_json_can_hold(method: Method) -> None:
    assert isinstance(method, Method)
    settings = method.settings()
    assert json.loads(json.dumps(dict(settings))).keys() == settings.keys()
    assert {"kernel", "ard", "optimiser", "dtype"} < settings.keys()
    assert (settings["optimiser"] == "adam") == ("learning_rate" in settings)
    assert vars(method).items() <= settings.items()
    assert method.device("cpu") == "cpu"
    most = {"ExactGP": 5000, "WellTrainedGP": 10_000}
    assert method.max_rows == most.get(name(method))


@pytest.mark.parametrize("starts", [(0.1, 2.5), (2.5, 0.1)])
def test_the_start_with_the_highest_evidence_is_kept(starts: tuple[float, float]) -> None:
    """A fast wave with noise: long length-scales take the wave for noise."""
    random = np.random.default_rng(0)
    x = random.uniform(-2, 2, (150, 1))
    y = np.sin(20 * x[:, 0]) + 0.1 * random.normal(size=150)
    short, long, best = (
        WellTrainedGP(length_scales=lengths).fit(x, y, 0, "cpu")
        for lengths in ((0.1,), (2.5,), starts)
    )
    errors = [np.mean((y - fitted.predict(x).mean) ** 2) for fitted in (short, long, best)]
    assert errors[0] < 0.1 * errors[1]
    assert errors[2] == errors[0]


def test_every_epoch_has_all_rows_in_another_order() -> None:
    training = standardise(*rows(100), "cpu")
    batches = list(mini_batches(training, size=40, epochs=2, seed=0))
    assert [len(y) for _, y in batches] == [40, 40, 20] * 2
    epochs = [torch.cat([y for _, y in part]) for part in (batches[:3], batches[3:])]
    assert all(torch.equal(epoch.sort().values, training.y.sort().values) for epoch in epochs)
    assert not torch.equal(*epochs)
    x, y = batches[0]
    [(row,)] = [torch.where(training.y == y[0])]
    assert torch.equal(training.x[row[0]], x[0])


def test_the_random_state_is_seeded_and_restored() -> None:
    before = torch.get_rng_state()
    with seeded(3, torch.device("cpu")):
        drawn = torch.randn(2)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(drawn, torch.randn(2, generator=torch.Generator().manual_seed(3)))


def test_inducing_points_at_all_rows_give_the_exact_gp() -> None:
    exact, sparse = predicted(ExactGP(steps=0)), predicted(SGPR(n_inducing=150, steps=0))
    assert np.allclose(sparse.mean, exact.mean, rtol=1e-6)
    assert np.allclose(sparse.variance, exact.variance, rtol=1e-4)
    few = predicted(SGPR(n_inducing=5, steps=0))
    assert not np.allclose(few.variance, exact.variance, rtol=1e-2)


def test_inducing_points_move_and_rows_do_not() -> None:
    with quiet():
        from sswim_lab.peers.gpytorch_models import fit_sgpr  # noqa: PLC0415

        training = standardise(*rows(), "cpu")
        x = training.x.clone()
        model = fit_sgpr(training, 0, n_inducing=20, steps=2, learning_rate=0.1).model
    assert torch.equal(training.x, x)
    assert torch.equal(model.train_inputs[0], x)
    assert not torch.equal(model.covar_module.inducing_points, x[:20])
