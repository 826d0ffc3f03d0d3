from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from builders.commands import run_python
from builders.estimators import make_rows, skewed_rows, small, with_value
from builders.models import DENSITIES
from sklearn.exceptions import NotFittedError

from sswim.estimator import BaseRegressor
from sswim.rows import as_measure

X, Y = make_rows(20)
ROWS = make_rows()


@pytest.fixture(scope="module", params=[*DENSITIES.values()], ids=[*DENSITIES])
def dense(request: pytest.FixtureRequest) -> BaseRegressor:
    """An estimator of two members, with or without output warp and input-dependent noise."""
    return small(**request.param, n_members=2, max_iter=40).fit(*skewed_rows())


def test_the_distribution_has_what_the_methods_return(dense: BaseRegressor) -> None:
    x, y = skewed_rows(20, seed=1)
    for included in (True, False):
        found = dense.predict_distribution(x, X_std=0.1, include_noise=included)
        mean, std = dense.predict(x, return_std=True, X_std=0.1, include_noise=included)
        if included:  # predict returns the mean of an observation in either case
            assert np.array_equal(found.mean[:, 0], mean)
        assert np.array_equal(found.observation_variance[:, 0].sqrt(), std)
        median = dense.predict_quantiles(x, 0.5, X_std=0.1, include_noise=included)
        assert np.array_equal(found.quantile(0.5), median)
    found, targets = dense.predict_distribution(x), torch.from_numpy(y)[:, None]
    assert np.array_equal(found.log_density(targets)[:, 0], dense.log_density(x, y))
    assert np.array_equal(found.cdf(targets)[:, 0], dense.cdf(x, y))


@pytest.mark.parametrize("n_members", [1, 3])
def test_members_predict_the_mixture_together(n_members: int) -> None:
    x, _ = ROWS
    fitted = small(n_members=n_members).fit(*ROWS)
    scaling = fitted.scaling_
    inputs = scaling.inputs(as_measure(x))
    means = [
        weight * scaling.original_targets(member.predict(inputs).mean)
        for member, weight in zip(fitted.members_, fitted.weights_, strict=True)
    ]
    assert np.allclose(torch.stack(means).sum(0)[:, 0], fitted.predict(x), rtol=1e-10)
    assert sum(fitted.weights_) == pytest.approx(1)
    assert {member.model.architecture.depth for member in fitted.members_} == {1}


@pytest.mark.parametrize(
    "settings", [{"depth": 0}, {"depth": 1}, {"depth": 1, "n_neighbors": 8}], ids=str
)
def test_uncertain_inputs_against_perturbed_ones(settings: dict[str, Any]) -> None:
    x, y = make_rows(200)
    regressor = small(**settings, n_components=64, max_iter=40).fit(x, y)
    spread = np.array([0.05, 0.1])
    mean, std = regressor.predict(x[:5], return_std=True, X_std=spread)
    random = np.random.default_rng(0)
    for row in range(5):
        perturbed = x[row] + spread * random.normal(size=(20_000, 2))
        means, stds = regressor.predict(perturbed, return_std=True)
        assert abs(means.mean() - mean[row]) < 0.1 * means.std() + 4 * means.std() / np.sqrt(20_000)
        total = np.sqrt(np.mean(stds**2) + means.var())
        assert std[row] == pytest.approx(total, rel=0.1 if "n_neighbors" in settings else 0.05)
    _, joint = regressor.predict(x[:5], return_cov=True, X_std=spread)
    assert np.allclose(np.sqrt(np.diag(joint)), std)
    assert np.allclose(regressor.predict(x, X_std=0.0), regressor.predict(x))
    exact, zero = (small(**settings).fit(x, y, X_std=std) for std in (None, 0.0))
    ours, theirs = (model.predict(x, return_std=True) for model in (exact, zero))
    assert np.allclose(ours, theirs, rtol=1e-5)


@pytest.mark.parametrize("density", DENSITIES.values(), ids=DENSITIES.keys())
@pytest.mark.parametrize("n_targets", [0, 1, 2])  # 0 for flat targets
def test_shapes_of_predictions(density: dict[str, Any], n_targets: int) -> None:
    x, y = skewed_rows(40, n_targets=max(n_targets, 1))
    y = y.reshape((40,) if n_targets == 0 else (40, n_targets))
    regressor = small(**density, max_iter=2).fit(x, y)
    test, shape = x[:7], (7, *y.shape[1:])
    assert regressor.predict_quantiles(test).shape == (*shape, 3)
    assert regressor.predict_quantiles(test, 0.5).shape == (*shape, 1)
    assert regressor.predict_quantiles(test, [0.1, 0.9], X_std=0.1).shape == (*shape, 2)
    assert regressor.predict_noise(test).shape == shape
    for method in (regressor.log_density, regressor.cdf):
        assert method(test, y[:7]).shape == shape
        assert method(test, y[:7], X_std=0.1).shape == shape
    assert regressor.warp_targets(y[:5]).shape == (5, *y.shape[1:])
    assert regressor.warp_targets(y[:5].tolist()).shape == (5, *y.shape[1:])
    assert regressor.sample_y(test, 4, include_noise=True).shape == (*shape, 4)
    assert [end.shape for end in regressor.predict_interval(test)] == [shape, shape]
    mean, joint = regressor.predict(test, return_cov=True)
    assert mean.shape == shape
    assert joint.shape == (7, 7, *y.shape[1:])


def test_quantiles_invert_the_cumulative_of_the_density(dense: BaseRegressor) -> None:
    x, _ = skewed_rows(30, seed=1)
    probabilities = [0.01, 0.05, 0.5, 0.95, 0.99]
    quantiles = dense.predict_quantiles(x, probabilities)
    assert (np.diff(quantiles, axis=-1) > 0).all()
    for probability, quantile in zip(probabilities, quantiles.T, strict=True):
        assert np.allclose(dense.cdf(x, quantile), probability, rtol=1e-8)
    lower, upper = quantiles.T[[1, 3]]
    grid = np.linspace(lower, upper, 200)
    density = np.exp([dense.log_density(x, y) for y in grid])
    assert np.allclose(np.trapezoid(density, grid, axis=0), 0.9, atol=1e-3)


@pytest.mark.parametrize("include_noise", [True, False])
def test_draws_have_the_predicted_moments_and_quantiles(
    dense: BaseRegressor, include_noise: bool
) -> None:
    x, _ = skewed_rows(15, seed=1)
    n = 20_000
    kind: dict[str, Any] = {"include_noise": include_noise}
    draws = dense.sample_y(x, n, random_state=1, **kind)
    mean, std = dense.predict(x, return_std=True, **kind)
    if include_noise:  # predict returns the mean of an observation in either case
        assert (np.abs(draws.mean(1) - mean) < 5 * std / np.sqrt(n)).all()
    # The deviation of a long tail is hard to draw.
    assert np.allclose(draws.std(1), std, rtol=0.15 if include_noise else 0.1)
    probabilities = np.array([0.05, 0.5, 0.95])
    quantiles = dense.predict_quantiles(x, probabilities, **kind)
    below = (draws[:, None, :] < quantiles[:, :, None]).mean(-1)
    slack = 5 * np.sqrt(probabilities * (1 - probabilities) / n)
    assert (np.abs(below - probabilities) < slack).all()
    ends = np.stack(dense.predict_interval(x, level=0.9, **kind))
    assert np.allclose(ends, quantiles.T[[0, 2]], rtol=1e-12)
    assert np.array_equal(draws, dense.sample_y(x, n, random_state=1, **kind))
    assert not np.allclose(dense.sample_y(x, n, random_state=2, **kind), draws)
    if not include_noise:
        lower, upper = dense.predict_interval(x, level=0.9)
        assert ((lower < ends[0]) & (ends[1] < upper)).all()
        apart = np.concatenate([dense.sample_y(p, n, random_state=1) for p in (x[:4], x[4:])])
        assert np.allclose(apart, draws, rtol=1e-10)


def test_noise_is_part_of_the_spread_and_of_joint_covariances(dense: BaseRegressor) -> None:
    x, _ = skewed_rows(20, seed=1)
    _, observed = dense.predict(x, return_std=True)
    _, latent = dense.predict(x, return_std=True, include_noise=False)
    assert (observed > latent).all()
    noise = dense.predict_noise(x)
    assert ((noise > 0) & (noise < observed)).all()
    for included, X_std in itertools.product((True, False), (None, 0.1)):
        _, joint = dense.predict(x, return_cov=True, include_noise=included, X_std=X_std)
        _, expected = dense.predict(x, return_std=True, include_noise=included, X_std=X_std)
        assert np.allclose(np.sqrt(np.diag(joint)), expected)
        assert np.linalg.eigvalsh(joint).min() > -1e-10 * np.diag(joint).max()


def test_warps_come_in_the_units_of_the_inputs() -> None:
    x, y = 1000 + 10 * ROWS[0], ROWS[1]
    untrained = small(depth=2, max_iter=0).fit(x, y)
    layers = untrained.warp(x)
    assert len(layers) == 2
    for mean, variance in layers:
        assert np.allclose(mean, x)  # an untrained warp is the identity
        assert (variance > 0).all()
    uncertain = untrained.warp(x, X_std=1.0)
    assert (uncertain[0][1] > layers[0][1]).all()
    assert small(depth=0).fit(x, y).warp(x) == []


def test_predicting_before_fitting_is_refused() -> None:
    for ask in (
        lambda unfitted: unfitted.predict(X),
        lambda unfitted: unfitted.log_marginal_likelihood_,
        lambda unfitted: unfitted.predict_interval(X),
        lambda unfitted: unfitted.predict_quantiles(X),
        lambda unfitted: unfitted.predict_noise(X),
        lambda unfitted: unfitted.cdf(X, Y),
        lambda unfitted: unfitted.warp_targets(Y),
    ):
        with pytest.raises(NotFittedError):
            ask(small())


BAD_PROBABILITIES: tuple[Any, ...] = (0.0, 1.0, [], [0.5, 1.5], [np.nan], [[0.5]])
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("predict", {"X": X[:, :1]}, "expecting 2 features"),
    ("predict", {"X": X, "return_std": True, "return_cov": True}, "At most one of"),
    ("predict_interval", {"X": X, "level": 1.0}, "level must lie between 0 and 1"),
    *(
        ("predict_quantiles", {"X": X, "probabilities": bad}, "must be one or more numbers")
        for bad in BAD_PROBABILITIES
    ),
    ("warp_targets", {"y": np.stack([Y, Y], axis=1)}, r"y must have 1 targets. Got 2"),
    ("warp_targets", {"y": with_value(Y, np.nan)}, "y must be finite"),
    ("warp_targets", {"y": Y, "member": 1}, "member must be one of the model's 1 members"),
    ("sample_y", {"X": X, "n_samples": 0}, "n_samples must be an integer"),
    ("partial_fit", {"X": X, "y": np.stack([Y, Y], axis=1)}, "targets of fit"),
]


def test_bad_arguments_are_refused() -> None:
    regressor = small().fit(X, Y)
    for method, arguments, message in REFUSED:
        with pytest.raises(ValueError, match=message):
            getattr(regressor, method)(**arguments)


def test_a_million_rows_are_predicted_in_bounded_memory() -> None:
    """The memory in addition to the rows is below one GiB, in a new process."""
    program = """
import resource, numpy as np
from sswim.estimator import make_estimator
random = np.random.default_rng(0)
x = random.normal(size=(1_000_000, 20))
settings = dict(depth=1, n_components=128, n_pseudo=32, max_iter=2)
regressor = make_estimator(**settings, random_state=0, device="cpu")
regressor.fit(x[:500], x[:500, 0])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
mean, std = regressor.predict(x, return_std=True)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(len(mean), (after - before) / 2**20)
"""
    result = run_python("-W", "ignore", "-c", program)
    assert result.returncode == 0, result.stderr
    n_rows, gibibytes = result.stdout.split()
    assert int(n_rows) == 1_000_000
    assert float(gibibytes) < 1.0
