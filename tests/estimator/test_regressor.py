from __future__ import annotations

import copy
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from builders.models import DENSITIES, unchecked
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sswim import SSWIMRegressor
from sswim.model.architecture import NoiseName
from sswim.model.observations import observe
from sswim.model.output_warp import OutputWarpName
from sswim.posterior.predictor import condition, condition_on_statistics
from sswim.posterior.statistics import statistics
from sswim.training import noise_fit
from sswim.training.history import Step

Array = np.ndarray[Any, Any]


def small(**changes: Any) -> SSWIMRegressor:
    settings: dict[str, Any] = {
        "depth": 1,
        "n_components": 32,
        "n_pseudo": 8,
        "max_iter": 5,
        "random_state": 0,
        "device": "cpu",
    }
    return SSWIMRegressor(**(settings | changes))


def make_rows(n: int = 60, d: int = 2, seed: int = 0) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    x = random.uniform(-2, 2, size=(n, d))
    return x, np.sin(2 * x[:, 0]) + 0.1 * random.normal(size=n)


@pytest.fixture(scope="module")
def rows() -> tuple[Array, Array]:
    return make_rows()


@pytest.fixture(scope="module", params=[1, 3], ids=["one member", "three members"])
def fitted(rows: tuple[Array, Array], request: pytest.FixtureRequest) -> SSWIMRegressor:
    return small(n_members=request.param).fit(*rows)


@pytest.fixture(autouse=True, scope="module")
def _few_steps_for_the_noise() -> Iterator[None]:
    """The quality of the noise is tested elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise_fit, "STEPS", 20)
        yield


def run_checks(settings: str) -> None:
    """In a process of its own: there types are not checked, and the checks draw as they like."""
    program = f"""
from sklearn.utils.estimator_checks import check_estimator
from sswim import SSWIMRegressor
for result in check_estimator(SSWIMRegressor({settings}), on_fail=None, on_skip=None):
    print(result["status"], result["check_name"], repr(result["exception"]), sep="|")
"""
    output = run(program)
    results = [line.split("|") for line in output.strip().splitlines()]
    assert not [line for line in results if line[0] not in ("passed", "skipped")]
    passed = [line for line in results if line[0] == "passed"]
    skipped = [line[1] for line in results if line[0] == "skipped"]
    print(f"{len(passed)} checks of scikit-learn passed, skipped: {skipped}")
    assert len(passed) >= 55
    assert set(skipped) <= {"check_array_api_input"}  # needs SCIPY_ARRAY_API in the environment


def run(program: str) -> str:
    command = [sys.executable, "-W", "ignore", "-c", program]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_scikit_learns_own_checks() -> None:
    run_checks("depth=1, n_components=16, n_pseudo=4")


def test_scikit_learns_own_checks_of_the_default() -> None:
    run_checks("n_components=16, n_pseudo=4, n_members=1, max_iter=2")


@pytest.mark.slow
@pytest.mark.parametrize("output_warp", ["sinh-arcsinh", "tanh"])
def test_scikit_learns_own_checks_of_densities(output_warp: OutputWarpName) -> None:
    density = f"output_warp={output_warp!r}, noise='input-dependent'"
    run_checks(f"depth=1, n_components=16, n_pseudo=4, {density}")


@pytest.mark.slow
def test_scikit_learns_own_checks_of_the_defaults() -> None:
    run_checks("")


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(2, 12),
    d=st.integers(1, 15),
    t=st.integers(0, 3),
    x_scale=st.sampled_from([1e-30, 1e-3, 1.0, 1e12, 1e30]),
    y_scale=st.sampled_from([1e-30, 1.0, 1e30]),
    dtype=st.sampled_from([np.float32, np.float64, np.int32, np.int64, np.bool_]),
    depth=st.integers(0, 2),
    output_warp=st.sampled_from(["none", "sinh-arcsinh", "tanh"]),
    noise=st.sampled_from(["constant", "input-dependent"]),
    seed=st.integers(0, 100),
)
def test_rows_of_any_shape_scale_and_type_are_fitted(
    n: int,
    d: int,
    t: int,
    x_scale: float,
    y_scale: float,
    dtype: type,
    depth: int,
    output_warp: OutputWarpName,
    noise: NoiseName,
    seed: int,
) -> None:
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, d)) * x_scale
    if dtype not in (np.float32, np.float64):
        x = x / x_scale
    x = x.astype(dtype)
    y = y_scale * random.normal(size=(n,) if t == 0 else (n, t))
    regressor = small(
        depth=depth, n_components=8, n_pseudo=3, max_iter=2, output_warp=output_warp, noise=noise
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "[0-9]+% of .* is one and the same value")
        regressor.fit(x, y)
    mean, std = regressor.predict(x, return_std=True)
    assert mean.shape == std.shape == y.shape
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    assert np.abs(mean).max() <= 10 * np.abs(y).max()
    assert np.isfinite(regressor.log_density(x, y)).all()


@pytest.mark.parametrize("scale", [1e-30, 1e30, 1e-160, 1e160])
@pytest.mark.parametrize("density", DENSITIES.values(), ids=DENSITIES.keys())
def test_targets_of_any_scale_are_predicted_alike(
    rows: tuple[Array, Array], scale: float, density: dict[str, Any]
) -> None:
    x, y = rows
    regressor, scaled = small(**density).fit(x, y), small(**density).fit(x, scale * y)
    mean, std = regressor.predict(x, return_std=True)
    scaled_mean, scaled_std = scaled.predict(x, return_std=True)
    assert np.allclose(scaled_mean / scale, mean, rtol=1e-6)
    if 1e-150 < scale < 1e150:  # else its square overflows or vanishes
        assert np.allclose(scaled_std / scale, std, rtol=1e-6)
    quantiles = regressor.predict_quantiles(x)
    assert np.allclose(scaled.predict_quantiles(x) / scale, quantiles, rtol=1e-6)
    assert np.allclose(scaled.cdf(x, scale * y), regressor.cdf(x, y), atol=1e-6)


def test_every_kind_of_table_gives_the_same(rows: tuple[Array, Array]) -> None:
    x, y = rows
    expected = small().fit(x, y).predict(x)
    names = ["east", "north"]
    frames = [pd.DataFrame(x, columns=names), pl.DataFrame(x, schema=names)]
    for frame in frames:
        regressor = small().fit(frame, y)
        assert list(regressor.feature_names_in_) == names
        assert np.allclose(regressor.predict(frame), expected)
        with pytest.raises(ValueError, match="feature names should match"):
            regressor.predict(frame[["north", "east"]])
    tensors = small().fit(torch.from_numpy(x), torch.from_numpy(y))
    assert np.array_equal(tensors.predict(torch.from_numpy(x)), expected)
    assert np.array_equal(small().fit(x.tolist(), y.tolist()).predict(x), expected)


def test_it_is_a_good_citizen_of_scikit_learn(rows: tuple[Array, Array]) -> None:
    x, y = rows
    pipeline = make_pipeline(StandardScaler(), small(max_iter=20))
    scores = cross_val_score(pipeline, x, y, cv=3, n_jobs=2)
    assert scores.min() > 0.3
    search = GridSearchCV(small(), {"depth": [0, 1], "n_components": [16, 32]}, cv=2, n_jobs=2)
    assert search.fit(x, y).best_params_.keys() == {"depth", "n_components"}
    settings = {"n_members": 4, "output_warp": "tanh", "n_output_terms": 5}
    settings |= {"noise": "input-dependent"}
    cloned = clone(small(**settings))
    assert cloned.get_params() == small(**settings).get_params()
    assert cloned.get_params().items() >= settings.items()


def test_several_targets_are_those_apart_given_equal_hyper_parameters(
    rows: tuple[Array, Array],
) -> None:
    x, y = rows
    both = np.stack([y, 3 - 2 * y], axis=1)
    regressor = small().fit(x, both)
    mean, std = regressor.predict(x, return_std=True)
    assert np.allclose(mean[:, 1], 3 - 2 * mean[:, 0])
    assert np.allclose(std[:, 1], 2 * std[:, 0])
    assert regressor.sample_y(x, 4).shape == (60, 2, 4)
    assert regressor.predict(x[:5], return_cov=True)[1].shape == (5, 5, 2)


def test_noise_is_part_of_the_spread_unless_told_otherwise(
    fitted: SSWIMRegressor, rows: tuple[Array, Array]
) -> None:
    x, _ = rows
    _, observed = fitted.predict(x, return_std=True)
    _, latent = fitted.predict(x, return_std=True, include_noise=False)
    assert (observed > latent).all()
    for noise, std in ((True, observed), (False, latent)):
        _, covariance = fitted.predict(x, return_cov=True, include_noise=noise)
        assert np.allclose(np.sqrt(np.diag(covariance)), std)
        assert np.linalg.eigvalsh(covariance).min() > -1e-10


def test_drawn_functions_are_consistent_and_have_the_predicted_moments(
    fitted: SSWIMRegressor, rows: tuple[Array, Array]
) -> None:
    x, _ = rows
    draws = fitted.sample_y(x, 3000, random_state=1)
    apart = np.concatenate([fitted.sample_y(part, 3000, random_state=1) for part in (x[:7], x[7:])])
    assert np.allclose(apart, draws)
    assert not np.allclose(fitted.sample_y(x, 3000, random_state=2), draws)
    mean, std = fitted.predict(x, return_std=True, include_noise=False)
    assert np.abs(draws.mean(1) - mean).max() < 5 * std.max() / np.sqrt(3000)
    assert np.allclose(draws.std(1), std, rtol=0.1)


def test_intervals_hold_the_probability_they_claim(
    fitted: SSWIMRegressor, rows: tuple[Array, Array]
) -> None:
    x, _ = rows
    lower, upper = fitted.predict_interval(x, coverage=0.8)
    narrow = fitted.predict_interval(x, coverage=0.5)
    assert ((lower < narrow[0]) & (narrow[1] < upper)).all()
    grid = np.linspace(lower, upper, 400)
    density = np.exp([fitted.log_density(x, y) for y in grid])
    assert np.allclose(np.trapezoid(density, grid, axis=0), 0.8, atol=1e-4)


def test_coverage_on_data_the_model_can_describe() -> None:
    x, y = make_rows(1500)
    test_x, test_y = make_rows(4000, seed=1)
    regressor = small(n_components=128, depth=0, max_iter=100, learning_rate=0.1).fit(x, y)
    for coverage in (0.5, 0.9):
        lower, upper = regressor.predict_interval(test_x, coverage)
        inside = ((lower < test_y) & (test_y < upper)).mean()
        # Binomial error of the test rows, and that of a noise level learnt from 1500 rows.
        assert abs(inside - coverage) < 4 * np.sqrt(coverage * (1 - coverage) / 4000) + 0.01


@pytest.mark.parametrize("depth", [0, 1])
def test_uncertain_inputs_against_perturbed_ones(depth: int) -> None:
    x, y = make_rows(200)
    regressor = small(depth=depth, n_components=64, max_iter=40).fit(x, y)
    spread = np.array([0.05, 0.1])
    mean, std = regressor.predict(x[:5], return_std=True, X_std=spread)
    random = np.random.default_rng(0)
    for row in range(5):
        perturbed = x[row] + spread * random.normal(size=(20_000, 2))
        means, stds = regressor.predict(perturbed, return_std=True)
        assert abs(means.mean() - mean[row]) < 0.1 * means.std() + 4 * means.std() / np.sqrt(20_000)
        total = np.sqrt(np.mean(stds**2) + means.var())
        assert std[row] == pytest.approx(total, rel=0.05)
    _, joint = regressor.predict(x[:5], return_cov=True, X_std=spread)
    assert np.allclose(np.sqrt(np.diag(joint)), std)
    exact = regressor.predict(x, X_std=0.0)
    assert np.allclose(exact, regressor.predict(x))


DENSE = {name: settings for name, settings in DENSITIES.items() if settings}


def skewed_rows(n: int = 120, seed: int = 0, n_targets: int = 1) -> tuple[Array, Array]:
    """Targets with a long tail, of which the noise grows with the first input."""
    random = np.random.default_rng(seed)
    x = random.uniform(-2, 2, size=(n, 2))
    noise = 0.1 * np.exp(0.8 * x[:, :1]) * random.normal(size=(n, n_targets))
    y = np.exp(np.sin(2 * x[:, 1:]) + noise)
    return x, 5 + 3 * (y[:, 0] if n_targets == 1 else y)


@pytest.fixture(scope="module", params=[*DENSE.values()], ids=[*DENSE.keys()])
def dense(request: pytest.FixtureRequest) -> SSWIMRegressor:
    """With an output warp and noise of its own, and two members."""
    return small(**request.param, n_members=2, max_iter=40).fit(*skewed_rows())


@pytest.mark.parametrize("density", DENSITIES.values(), ids=DENSITIES.keys())
@pytest.mark.parametrize("n_targets", [0, 1, 2])  # 0 for flat targets
def test_shapes_of_what_is_said_of_observations(density: dict[str, Any], n_targets: int) -> None:
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


def test_quantiles_invert_the_cumulative_and_are_the_ends_of_intervals(
    dense: SSWIMRegressor,
) -> None:
    x, _ = skewed_rows(30, seed=1)
    probabilities = [0.01, 0.05, 0.5, 0.95, 0.99]
    quantiles = dense.predict_quantiles(x, probabilities)
    assert (np.diff(quantiles, axis=-1) > 0).all()
    for probability, quantile in zip(probabilities, quantiles.T, strict=True):
        assert np.allclose(dense.cdf(x, quantile), probability, rtol=1e-8)
    lower, upper = dense.predict_interval(x, coverage=0.9)
    assert np.allclose(np.stack([lower, upper]), quantiles.T[[1, 3]], rtol=1e-12)
    grid = np.linspace(lower, upper, 200)
    density = np.exp([dense.log_density(x, y) for y in grid])
    assert np.allclose(np.trapezoid(density, grid, axis=0), 0.9, atol=1e-3)


def test_drawn_observations_have_the_predicted_mean_and_quantiles(dense: SSWIMRegressor) -> None:
    x, _ = skewed_rows(15, seed=1)
    n = 20_000
    draws = dense.sample_y(x, n, random_state=1, include_noise=True)
    mean, std = dense.predict(x, return_std=True)
    assert (np.abs(draws.mean(1) - mean) < 5 * std / np.sqrt(n)).all()
    assert np.allclose(draws.std(1), std, rtol=0.15)  # that of a long tail is hard to draw
    probabilities = np.array([0.05, 0.5, 0.95])
    quantiles = dense.predict_quantiles(x, probabilities)
    below = (draws[:, None, :] < quantiles[:, :, None]).mean(-1)
    slack = 5 * np.sqrt(probabilities * (1 - probabilities) / n)
    assert (np.abs(below - probabilities) < slack).all()
    assert np.array_equal(draws, dense.sample_y(x, n, random_state=1, include_noise=True))


def test_drawn_functions_have_the_quantiles_of_the_function(dense: SSWIMRegressor) -> None:
    x, _ = skewed_rows(15, seed=1)
    n = 20_000
    draws = dense.sample_y(x, n, random_state=1)
    probabilities = np.array([0.05, 0.5, 0.95])
    quantiles = dense.predict_quantiles(x, probabilities, include_noise=False)
    below = (draws[:, None, :] < quantiles[:, :, None]).mean(-1)
    slack = 5 * np.sqrt(probabilities * (1 - probabilities) / n)
    assert (np.abs(below - probabilities) < slack).all()
    _, std = dense.predict(x, return_std=True, include_noise=False)
    assert np.allclose(draws.std(1), std, rtol=0.1)
    ends = np.stack(dense.predict_interval(x, coverage=0.9, include_noise=False))
    assert np.allclose(ends, quantiles.T[[0, 2]], rtol=1e-12)
    lower, upper = dense.predict_interval(x, coverage=0.9)
    assert ((lower < ends[0]) & (ends[1] < upper)).all()
    apart = np.concatenate([dense.sample_y(p, n, random_state=1) for p in (x[:4], x[4:])])
    assert np.allclose(apart, draws, rtol=1e-10)


def test_noise_and_joint_covariances_with_warped_targets(dense: SSWIMRegressor) -> None:
    x, _ = skewed_rows(20, seed=1)
    _, observed = dense.predict(x, return_std=True)
    _, latent = dense.predict(x, return_std=True, include_noise=False)
    assert (observed > latent).all()
    noise = dense.predict_noise(x)
    assert ((noise > 0) & (noise < observed)).all()
    for included, std in ((True, observed), (False, latent)):
        for uncertainty in (None, 0.1):
            _, joint = dense.predict(x, return_cov=True, include_noise=included, X_std=uncertainty)
            _, expected = dense.predict(
                x, return_std=True, include_noise=included, X_std=uncertainty
            )
            assert np.allclose(np.sqrt(np.diag(joint)), expected)
            assert np.linalg.eigvalsh(joint).min() > -1e-10 * np.diag(joint).max()
        assert std.shape == (20,)


def test_uncertain_inputs_widen_densities(dense: SSWIMRegressor) -> None:
    x, y = skewed_rows(20, seed=1)
    exact = dense.predict_quantiles(x, X_std=0.0)
    assert np.allclose(exact, dense.predict_quantiles(x), rtol=1e-5)
    assert np.allclose(dense.log_density(x, y, X_std=0.0), dense.log_density(x, y), rtol=1e-4)
    lower, _, upper = dense.predict_quantiles(x, X_std=0.5).T
    assert np.mean(upper - lower) > np.mean(exact[:, 2] - exact[:, 0])


@pytest.mark.parametrize("density", DENSE.values(), ids=DENSE.keys())
def test_leave_one_out_with_warped_targets_against_models_of_the_others(
    density: dict[str, Any],
) -> None:
    """With the same hyper-parameters and scaling."""
    x, y = skewed_rows(30)
    regressor = small(**density).fit(x, y)
    mean, std = regressor.loo_predict(return_std=True)
    scaling = regressor._ensemble.scaling
    for row in (0, 11, 29):
        others = np.arange(30) != row
        kept = scaling.rows(regressor._check_rows(x[others], y[others], None))
        refitted = copy.copy(regressor)
        refitted._ensemble = replace(
            regressor._ensemble, members=(condition(regressor._models[0], kept),)
        )
        expected = refitted.predict(x[row : row + 1], return_std=True)
        assert np.allclose([mean[row], std[row]], np.ravel(expected), rtol=1e-6)


def test_warped_targets_increase_and_are_standardised_ones_without_a_warp(
    dense: SSWIMRegressor,
) -> None:
    _, y = skewed_rows()
    y = np.sort(y)
    for member in range(2):
        assert (np.diff(dense.warp_targets(y, member=member)) > 0).all()
    assert not np.allclose(dense.warp_targets(y), dense.warp_targets(y, member=1))
    plain = small(max_iter=0).fit(*skewed_rows())
    assert np.allclose(plain.warp_targets(y), (y - y.mean()) / y.std())


def test_the_noise_is_constant_unless_told_otherwise(rows: tuple[Array, Array]) -> None:
    x, y = rows
    noise = small().fit(x, y).predict_noise(x)
    assert np.allclose(noise, noise[0])
    own = small(noise="input-dependent").fit(x, y).predict_noise(x)
    assert not np.allclose(own, own[0])


def test_noise_that_grows_is_found_and_makes_densities_better() -> None:
    def make(seed: int) -> tuple[Array, Array, Array]:
        random = np.random.default_rng(seed)
        x = random.uniform(-2, 2, size=(400, 2))
        noise = 0.1 * np.exp(0.8 * x[:, 0])
        return x, np.sin(2 * x[:, 1]) + noise * random.normal(size=400), noise

    x, y, _ = make(0)
    test_x, test_y, noise = make(1)
    settings: dict[str, Any] = {"depth": 0, "max_iter": 80, "learning_rate": 0.1}
    constant = small(**settings).fit(x, y)
    own = small(**settings, noise="input-dependent").fit(x, y)
    assert np.corrcoef(np.log(own.predict_noise(test_x)), np.log(noise))[0, 1] > 0.9
    better = own.log_density(test_x, test_y) - constant.log_density(test_x, test_y)
    assert better.mean() > 0.15


@pytest.mark.parametrize("output_warp", ["sinh-arcsinh", "tanh"])
def test_a_long_tail_is_found_and_makes_densities_better(output_warp: OutputWarpName) -> None:
    def make(seed: int) -> tuple[Array, Array]:
        random = np.random.default_rng(seed)
        x = random.uniform(-2, 2, size=(400, 2))
        return x, np.exp(np.sin(2 * x[:, 1]) + 0.4 * random.normal(size=400))

    settings: dict[str, Any] = {"depth": 0, "max_iter": 80, "learning_rate": 0.1}
    x, y = make(0)
    plain = small(**settings).fit(x, y)
    warped = small(**settings, output_warp=output_warp).fit(x, y)
    test_x, test_y = make(1)
    better = warped.log_density(test_x, test_y) - plain.log_density(test_x, test_y)
    assert better.mean() > 0.05
    assert warped.log_marginal_likelihood_ > plain.log_marginal_likelihood_
    # Probabilities of targets are uniform if densities are right.
    ours, theirs = (
        stats.kstest(regressor.cdf(test_x, test_y), "uniform").statistic
        for regressor in (warped, plain)
    )
    assert ours < theirs


def test_known_input_errors_help_in_fit() -> None:
    """Rows whose input is nearly unknown must not mislead."""
    x, y = make_rows(300)
    deviation = np.zeros_like(x)
    deviation[::2] = 1.5
    random = np.random.default_rng(0)
    blurred = x + deviation * random.normal(size=x.shape)
    truth = np.sin(2 * x[:, 0])
    errors = []
    for known in (None, deviation):
        regressor = small(depth=0, n_components=64, max_iter=40).fit(blurred, y, X_std=known)
        errors.append(np.sqrt(np.mean((regressor.predict(x) - truth) ** 2)))
    assert errors[1] < 0.8 * errors[0]


@pytest.mark.parametrize("density", DENSITIES.values(), ids=DENSITIES.keys())
def test_partial_fit_in_ten_pieces_equals_one_fit(
    rows: tuple[Array, Array], density: dict[str, Any]
) -> None:
    x, y = rows
    whole = small(**density).fit(x, y)
    pieces = small(**density).fit(x, y)
    # Back to the first piece alone, with the same hyper-parameters.
    member = pieces._ensemble.members[0]
    first = pieces._ensemble.scaling.rows(pieces._check_rows(x[:6], y[:6], None))
    start = condition_on_statistics(pieces._models[0], statistics(observe(member.factors, first)))
    pieces._ensemble = replace(pieces._ensemble, members=(start,))
    for piece in range(1, 10):
        pieces.partial_fit(x[6 * piece : 6 * piece + 6], y[6 * piece : 6 * piece + 6])
    ours, theirs = (m.predict(x, return_std=True) for m in (pieces, whole))
    assert np.allclose(ours, theirs, rtol=1e-8)
    ours, theirs = (m.log_density(x, y) for m in (pieces, whole))
    assert np.allclose(ours, theirs, rtol=1e-8)
    assert pieces.log_marginal_likelihood_ == pytest.approx(whole.log_marginal_likelihood_)
    assert pieces.n_samples_seen_ == 60
    with pytest.raises(ValueError, match="right after a fit of arrays"):
        pieces.loo_predict()


def test_leave_one_out_is_less_sure_and_less_right(
    fitted: SSWIMRegressor, rows: tuple[Array, Array]
) -> None:
    x, y = rows
    mean, std = fitted.loo_predict(return_std=True)
    within, within_std = fitted.predict(x, return_std=True)
    assert np.mean((mean - y) ** 2) > np.mean((within - y) ** 2)
    assert (std >= within_std).all()


@pytest.mark.parametrize("density", DENSITIES.values(), ids=DENSITIES.keys())
def test_the_evidence_is_in_the_units_of_the_targets(
    rows: tuple[Array, Array], density: dict[str, Any]
) -> None:
    x, y = rows
    value = small(**density).fit(x, y).log_marginal_likelihood_
    scaled = small(**density).fit(x, 10 * y).log_marginal_likelihood_
    assert scaled == pytest.approx(value - len(y) * np.log(10), rel=1e-6)


def test_warps_come_in_the_units_of_the_inputs(rows: tuple[Array, Array]) -> None:
    x, y = rows
    x = 1000 + 10 * x
    untrained = small(depth=2, max_iter=0).fit(x, y)
    layers = untrained.warp(x)
    assert len(layers) == 2
    for mean, variance in layers:
        assert np.allclose(mean, x)  # an untrained warp is the identity
        assert (variance > 0).all()
    uncertain = untrained.warp(x, X_std=1.0)
    assert (uncertain[0][1] > layers[0][1]).all()
    assert small(depth=0).fit(x, y).warp(x) == []


def test_history_iterations_and_callback(rows: tuple[Array, Array]) -> None:
    seen: list[tuple[int, int]] = []

    def callback(member: int, step: Step) -> bool:
        seen.append((member, step.index))
        return member == 1 and step.index == 3

    regressor = small(n_members=3, max_iter=6, callback=callback).fit(*rows)
    assert [len(values) for values in regressor.history_] == [4, 4, 4]  # they are trained together
    assert regressor.n_iter_ == 3
    assert seen == [(member, step) for step in range(4) for member in range(3)]
    assert np.isfinite(regressor.predict(rows[0])).all()


def test_verbose_shows_progress(
    rows: tuple[Array, Array], capsys: pytest.CaptureFixture[str]
) -> None:
    small(verbose=True).fit(*rows)
    assert "5/5" in capsys.readouterr().err
    small().fit(*rows)
    assert capsys.readouterr().err == ""


def test_same_seed_same_result_and_seeds_matter(rows: tuple[Array, Array]) -> None:
    x, y = rows
    first, again, other = (small(random_state=s).fit(x, y).predict(x) for s in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    state = np.random.RandomState(3)
    assert np.isfinite(small(random_state=state).fit(x, y).predict(x)).all()


def test_single_precision_is_close(rows: tuple[Array, Array]) -> None:
    x, y = rows
    double, single = (small(dtype=d).fit(x, y).predict(x) for d in ("float64", "float32"))
    assert np.allclose(single, double, atol=1e-3)


X, Y = make_rows(20)


def with_value(array: Array, value: float) -> Array:
    changed = array.copy()
    changed.flat[3] = value
    return changed


BAD_FITS: dict[str, tuple[dict[str, Any], str]] = {
    "NaN in X": ({"X": with_value(X, np.nan)}, "Input X contains NaN"),
    "infinity in X": ({"X": with_value(X, np.inf)}, "Input X contains infinity"),
    "NaN in y": ({"y": with_value(Y, np.nan)}, "Input y contains NaN"),
    "infinity in y": ({"y": with_value(Y, -np.inf)}, "Input y contains infinity"),
    "flat X": ({"X": X[:, 0]}, "Expected 2D array"),
    "three-dimensional X": ({"X": X[None]}, "dim <= 2 is required"),
    "differing row counts": ({"y": Y[:5]}, "inconsistent numbers of samples: \\[20, 5\\]"),
    "no rows": ({"X": X[:0], "y": Y[:0]}, "minimum of 2 is required"),
    "no columns": ({"X": X[:, :0]}, "0 feature"),
    "one row": ({"X": X[:1], "y": Y[:1]}, "minimum of 2 is required"),
    "text": ({"X": np.array([["a", "b"]] * 20)}, "could not convert string to float"),
    "text objects": ({"X": np.array([["a", 1.0]] * 20, dtype=object)}, "could not convert"),
    "negative weights": ({"sample_weight": -np.ones(20)}, "non-negative"),
    "weights of another length": ({"sample_weight": np.ones(3)}, "sample_weight.shape"),
    "X_std of another shape": ({"X_std": np.ones(3)}, "X_std must be a number, or have shape"),
    "negative X_std": ({"X_std": -1.0}, "none negative"),
    "NaN in X_std": ({"X_std": np.nan}, "no NaN"),
}


@pytest.mark.parametrize("name", BAD_FITS)
def test_bad_rows_are_refused_and_nothing_is_lost(name: str) -> None:
    regressor = small().fit(X, Y)
    before = regressor.predict(X)
    arguments, message = BAD_FITS[name]
    with pytest.raises(ValueError, match=message):
        regressor.fit(**{"X": X, "y": Y, **arguments})
    assert np.array_equal(regressor.predict(X), before)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"depth": -1}, "depth must be an integer of at least 0. Got -1"),
        ({"depth": 1.5}, "depth must be an integer"),
        ({"depth": True}, "depth must be an integer"),
        ({"n_components": 0}, "n_components must be an integer of at least 1"),
        ({"n_pseudo": 0}, "at least 1"),
        ({"n_members": 0}, "at least 1"),
        ({"max_iter": -1}, "at least 0"),
        ({"kernel": "cosine"}, "kernel must be one of"),
        ({"objective": "aic"}, "objective must be one of"),
        ({"output_warp": "log"}, r"output_warp must be one of .*'tanh'.* Got 'log'"),
        ({"output_warp": None}, r"output_warp must be one of .*'none'.* Got None"),
        ({"noise": "none"}, r"noise must be one of .*'input-dependent'.* Got 'none'"),
        ({"n_output_terms": 0}, "n_output_terms must be an integer of at least 1. Got 0"),
        ({"n_output_terms": 2.0}, "n_output_terms must be an integer"),
        ({"n_output_terms": True}, "n_output_terms must be an integer"),
        ({"learning_rate": 0.0}, "learning_rate and noise_rate positive"),
        ({"length_scale": -1.0}, "length_scale must be positive"),
        ({"dtype": "float16"}, "dtype must be one of"),
        ({"warps": "tied"}, r"warps must be one of .*'joint'.* Got 'tied'"),
        ({"growing": "no"}, "growing must be True or False. Got 'no'"),
    ],
)
def test_bad_settings_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        unchecked(SSWIMRegressor, **change).fit(X, Y)


def constant_column() -> Array:
    return np.column_stack([X, np.full(len(X), 0.1)])


GOOD_FITS: dict[str, tuple[Array, Array]] = {
    "a constant column": (constant_column(), Y),
    "all columns constant": (np.full((20, 3), 7.0), Y),
    "a constant target": (X, np.full(20, 3.0)),
    "duplicate rows": (np.repeat(X[:4], 5, axis=0), Y),
    "identical rows": (np.repeat(X[:1], 20, axis=0), Y),
    "more columns than rows": (np.random.default_rng(0).normal(size=(20, 50)), Y),
    "integers": (np.arange(40).reshape(20, 2), np.arange(20)),
    "booleans": (X > 0, Y > 0),
    "single precision": (X.astype(np.float32), Y.astype(np.float32)),
    "numbers as objects": (X.astype(object), Y),
    "read-only memory": (np.frombuffer(X.tobytes()).reshape(X.shape), Y),
    "columns of very different scale": (X * np.array([1e-12, 1e12]), Y),
    "two rows": (X[:2], Y[:2]),
}


@pytest.mark.parametrize("name", GOOD_FITS)
@pytest.mark.parametrize("density", DENSITIES.values(), ids=DENSITIES.keys())
def test_unusual_rows_are_fitted(name: str, density: dict[str, Any]) -> None:
    x, y = GOOD_FITS[name]
    regressor = small(max_iter=20, **density)
    most = np.unique(y, return_counts=True)[1].max()
    tied = most >= max(2, 0.25 * len(y))
    with pytest.warns(match="one and the same value") if density and tied else nullcontext():
        regressor.fit(x, y)
    mean, std = regressor.predict(x, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert np.isfinite(regressor.predict_quantiles(x)).all()
    assert np.isfinite(regressor.log_density(x, y)).all()
    if name == "a constant target":
        assert np.allclose(mean, 3.0, atol=0.1)


def test_predicting_before_fitting_or_other_columns_is_refused() -> None:
    with pytest.raises(NotFittedError):
        small().predict(X)
    with pytest.raises(NotFittedError):
        _ = small().log_marginal_likelihood_
    for ask in (
        lambda unfitted: unfitted.predict_interval(X),
        lambda unfitted: unfitted.predict_quantiles(X),
        lambda unfitted: unfitted.predict_noise(X),
        lambda unfitted: unfitted.cdf(X, Y),
        lambda unfitted: unfitted.warp_targets(Y),
    ):
        with pytest.raises(NotFittedError):
            ask(small())
    regressor = small().fit(X, Y)
    with pytest.raises(ValueError, match="expecting 2 features"):
        regressor.predict(X[:, :1])
    with pytest.raises(ValueError, match="At most one of"):
        regressor.predict(X, return_std=True, return_cov=True)
    with pytest.raises(ValueError, match="coverage must lie between 0 and 1"):
        regressor.predict_interval(X, coverage=1.0)
    for probabilities in (0.0, 1.0, [], [0.5, 1.5], [np.nan], [[0.5]]):
        with pytest.raises(ValueError, match="probabilities must be one or more numbers"):
            regressor.predict_quantiles(X, probabilities)
    with pytest.raises(ValueError, match=r"y must have 1 targets. Got 2"):
        regressor.warp_targets(np.stack([Y, Y], axis=1))
    with pytest.raises(ValueError, match="y must be finite"):
        regressor.warp_targets(with_value(Y, np.nan))
    with pytest.raises(ValueError, match="member must be one of the model's 1 members"):
        regressor.warp_targets(Y, member=1)
    with pytest.raises(ValueError, match="n_samples must be an integer"):
        regressor.sample_y(X, 0)
    with pytest.raises(ValueError, match="targets of fit"):
        regressor.partial_fit(X, np.stack([Y, Y], axis=1))


def test_a_million_rows_are_predicted_in_bounded_memory() -> None:
    """Under one GiB above the data, in a process of its own."""
    program = """
import resource, numpy as np
from sswim import SSWIMRegressor
random = np.random.default_rng(0)
x = random.normal(size=(1_000_000, 20))
settings = dict(depth=1, n_components=128, n_pseudo=32, max_iter=2)
regressor = SSWIMRegressor(**settings, random_state=0, device="cpu")
regressor.fit(x[:500], x[:500, 0])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
mean, std = regressor.predict(x, return_std=True)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(len(mean), (after - before) / 2**20)
"""
    n_rows, gibibytes = run(program).split()
    assert int(n_rows) == 1_000_000
    assert float(gibibytes) < 1.0
