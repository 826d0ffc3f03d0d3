"""Output warps and input-dependent noise find the noise of data where it is known."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sswim.estimator import BaseRegressor, make_estimator

Array = NDArray[np.float64]
SMALL: dict[str, Any] = {"depth": 0, "n_components": 32, "random_state": 0}
LEVELS = (0.5, 0.8, 0.9, 0.95)

slow = pytest.mark.slow


def few(n: int) -> list[Any]:
    """Return n seeds, all but the first only for slow tests."""
    return [0, *(pytest.param(seed, marks=slow) for seed in range(1, n))]


def uneven(seed: int, growth: float, n: int = 600, m: int = 4000) -> tuple[Array, Array, int]:
    """Draw a sine with noise of the standard deviation 0.3·exp(growth·x), x between −2 and 2."""
    random = np.random.default_rng(seed)
    x = random.uniform(-2, 2, (n + m, 1))
    noise = 0.3 * np.exp(growth * x[:, 0]) * random.normal(size=n + m)
    return x, np.sin(3 * x[:, 0]) + noise, n


def mnlp(regressor: BaseRegressor, x: Array, y: Array) -> float:
    return -float(np.mean(regressor.log_density(x, y)))


def gain(seed: int, growth: float) -> tuple[float, float]:
    """Return the gain in MNLP of input-dependent over constant noise, and the ratio of RMSE."""
    x, y, n = uneven(seed, growth)
    fits = [
        make_estimator(**SMALL, noise=noise).fit(x[:n], y[:n])
        for noise in ("constant", "input-dependent")
    ]
    constant, varying = (mnlp(fit, x[n:], y[n:]) for fit in fits)
    errors = [np.sqrt(np.mean((fit.predict(x[n:]) - y[n:]) ** 2)) for fit in fits]
    return constant - varying, float(errors[1] / errors[0])


@pytest.mark.parametrize("seed", few(10))
@pytest.mark.parametrize(("growth", "least"), [(0.6, 0.2), (0.0, -0.01)])
def test_noise_that_grows_is_found_and_little_is_lost_where_it_is_constant(
    growth: float, least: float, seed: int
) -> None:
    density, error = gain(seed, growth)
    print(f"growth {growth}, seed {seed}: MNLP gains {density:.4f}, RMSE is {error:.4f} times")
    assert density > least
    assert error < 1.005


def skewed(random: np.random.Generator, f: Array) -> Array:
    """Draw log-normal targets."""
    return np.asarray(np.exp(f + 0.5 * random.normal(size=len(f))))


def heavy_tailed(random: np.random.Generator, f: Array) -> Array:
    """Draw targets whose noise is Student's t with three degrees of freedom."""
    return 0.5 * f + random.standard_t(3, size=len(f))


@cache
def coverage_errors(
    noise: Callable[[np.random.Generator, Array], Array], seed: int, output_warp: str
) -> tuple[float, ...]:
    """Return errors of the coverage of central intervals, in binomial standard errors."""
    random = np.random.default_rng(seed)
    n, m = 4000, 1000
    x = random.uniform(-3, 3, (n + m, 1))
    y = noise(random, np.sin(2 * x[:, 0]))
    # Larger and more steps than by default, which suffice for real data but not for such tails.
    settings: dict[str, Any] = {"max_iter": 400, "learning_rate": 0.1, "n_output_terms": 3}
    settings |= {"output_warp": output_warp}
    regressor = make_estimator(**SMALL, **settings).fit(x[:n], y[:n])
    position = np.abs(regressor.cdf(x[n:], y[n:]) - 0.5)
    return tuple(
        float((np.mean(position <= level / 2) - level) / np.sqrt(level * (1 - level) / m))
        for level in LEVELS
    )


@pytest.mark.parametrize("seed", few(5))
@pytest.mark.parametrize("noise", [skewed, heavy_tailed])
def test_intervals_cover_what_they_say(
    noise: Callable[[np.random.Generator, Array], Array], seed: int
) -> None:
    plain, warped = (coverage_errors(noise, seed, warp) for warp in ("none", "sinh-arcsinh"))
    print(f"{noise.__name__}, seed {seed}: {np.round(plain, 1)} → {np.round(warped, 1)}")
    assert max(np.abs(plain)) > 4
    assert max(np.abs(warped)) < 3  # 99.7 % of a normal, four levels that hang together


ODD_TARGETS: dict[str, Callable[[Array], Array]] = {
    "an extreme outlier": lambda f: np.where(np.arange(len(f)) == 5, f.mean() + 1e6 * f.std(), f),
    "a constant": lambda f: np.full(len(f), 3.0),
    "ties": lambda f: np.where(f < 0, 0.0, f),
    "two values": lambda f: np.where(f < 0, -1.0, 1.0),
    "counts": lambda f: np.round(6 * f),
    "orders of magnitude": lambda f: np.exp(4 * f),
}


@pytest.mark.parametrize("noise", [pytest.param("constant", marks=slow), "input-dependent"])
@pytest.mark.parametrize("output_warp", ["sinh-arcsinh", "tanh"])
@pytest.mark.parametrize("name", ODD_TARGETS)
def test_odd_targets_give_finite_densities(
    name: str, output_warp: str, noise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sswim.warps.noise_field.STEPS", 20)
    random = np.random.default_rng(0)
    x = random.uniform(-2, 2, (150, 2))
    f = np.sin(2 * x[:, 0]) + 0.1 * random.normal(size=150)
    y = ODD_TARGETS[name](f)
    settings: dict[str, Any] = {"depth": 1, "n_components": 16, "n_pseudo": 4, "max_iter": 30}
    settings |= {"learning_rate": 0.1, "random_state": 0}
    settings |= {"output_warp": output_warp, "noise": noise}
    regressor = make_estimator(**settings)
    warning = {"an extreme outlier": "as far from the median"}.get(name, "one and the same value")
    if name in ("orders of magnitude", "counts"):
        regressor.fit(x, y)
    else:
        with pytest.warns(UserWarning, match=warning):
            regressor.fit(x, y)
    far = np.vstack([x[:40], 1e6 * x[:4]])
    asked = np.concatenate([y[:40], [-1e9, 0.0, 1e9, 1e30]])
    mean, std = regressor.predict(far, return_std=True)
    quantiles = regressor.predict_quantiles(far, [0.01, 0.5, 0.99])
    draws = regressor.sample_y(far, 3, include_noise=True)
    for values in (mean, std, quantiles, draws, regressor.cdf(far, asked)):
        assert np.isfinite(values).all()
    assert (np.diff(quantiles, axis=1) >= 0).all()
    assert not np.isnan(regressor.log_density(far, asked)).any()
