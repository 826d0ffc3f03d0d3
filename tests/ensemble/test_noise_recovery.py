"""Output warps and input-dependent noise find the noise of data where it is known."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sswim.estimator import make_estimator

Array = NDArray[np.float64]
SMALL: dict[str, Any] = {"depth": 0, "n_components": 32, "random_state": 0}
LEVELS = (0.5, 0.8, 0.9, 0.95)

slow = pytest.mark.slow


def few(n: int) -> list[Any]:
    """Return n seeds, all but the first only for slow tests."""
    return [0, *(pytest.param(seed, marks=slow) for seed in range(1, n))]


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
