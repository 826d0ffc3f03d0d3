"""Problems that are formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from scipy.special import betainc

Point = Float64[np.ndarray, " D"]

STEP_AT = 0.45
"""Where the chirp steps up."""
WARPS = ((2.0, 7.0), (6.0, 2.0))
"""Shape parameters of the Beta distributions that warp the inputs of Branin."""
N_FEATURES = 512
LENGTH_SCALE = 0.15
"""Length scale of the fixed draw of a GP, in units of the cube."""


def gramacy(x: Point) -> float:
    """Return x₁ exp(−x₁² − x₂²), which is flat but for a corner (Gramacy and Lee, 2008).

    Its one valley and one hill fill a quarter of [−2, 6]², and show whether a model that has seen
    the flat rest still searches the corner finely.
    """
    return float(x[0] * math.exp(-(x[0] ** 2) - x[1] ** 2))


def chirp_step(x: Point) -> float:
    """Return a wave that gets faster from left to right, and steps up on the way.

    The left is smooth and low on average; the least value is in one of the narrow valleys of the
    right. A stationary model is too rough for the left, too smooth for the right, or both.
    """
    amplitude = 0.6 + 0.6 * math.exp(-(((x[0] - 0.8) / 0.1) ** 2))
    wave = math.sin(2 * math.pi * (1.5 * x[0] + 8 * x[0] ** 4))
    return -amplitude * wave + (0.4 if x[0] > STEP_AT else 0.0)


def warped_branin(x: Point) -> float:
    """Return Branin's function of inputs warped by Beta distribution functions.

    Snoek et al. (2014) learn such warps, and so does BoTorch's ``Warp``: this problem is made for
    them. The inputs are those of the unit cube.
    """
    warped = [betainc(*shape, each) for shape, each in zip(WARPS, x, strict=True)]
    x1, x2 = 15 * warped[0] - 5, 15 * warped[1]
    parabola = x2 - 5.1 / (4 * math.pi**2) * x1**2 + 5 / math.pi * x1 - 6
    return float(parabola**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x1) + 10)


def forrester(x: Point) -> float:
    """Return (6x − 2)² sin(12x − 4): nearly flat, then a narrow valley (Forrester et al., 2008)."""
    return float((6 * x[0] - 2) ** 2 * math.sin(12 * x[0] - 4))


def fading_wave(x: Point) -> float:
    """Return sin(10πx)/(2x) + (x − 1)⁴: a fast wave fades into a bowl (Gramacy and Lee, 2012)."""
    return math.sin(10 * math.pi * x[0]) / (2 * x[0]) + (x[0] - 1) ** 4


def colville(x: Point) -> float:
    """Return Colville's polynomial, two curved valleys in a box where values reach 10⁶."""
    first, second, third, fourth = map(float, x)
    return (
        100 * (first**2 - second) ** 2
        + (first - 1) ** 2
        + (third - 1) ** 2
        + 90 * (third**2 - fourth) ** 2
        + 10.1 * ((second - 1) ** 2 + (fourth - 1) ** 2)
        + 19.8 * (second - 1) * (fourth - 1)
    )


def cross_in_tray(x: Point) -> float:
    """Return −10⁻⁴(|sin x₁ sin x₂ e^|100 − r/π|| + 1)^0.1: waves on a tent, with creases."""
    wave = math.sin(x[0]) * math.sin(x[1]) * math.exp(abs(100 - math.hypot(*x) / math.pi))
    return -1e-4 * (abs(wave) + 1) ** 0.1


def bird(x: Point) -> float:
    """Return Mishra's bird: waves whose height changes by a factor of fifty, on a trough."""
    first, second = map(float, x)
    waves = math.sin(second) * math.exp((1 - math.cos(first)) ** 2)
    waves += math.cos(first) * math.exp((1 - math.sin(second)) ** 2)
    return waves + (first - second) ** 2


def zakharov(x: Point) -> float:
    """Return Σx² + s² + s⁴ with s = Σ ½·d·x_d: a flat valley between walls of up to 10⁶."""
    ramp = float(0.5 * np.arange(1, len(x) + 1) @ x)
    return float(x @ x) + ramp**2 + ramp**4


def gp_draw(x: Point) -> float:
    """Return a fixed draw of a GP with a squared exponential kernel, by random Fourier features.

    It is stationary, and exactly of the class that a GP assumes: a control that shows what a
    nonstationary model loses where there is nothing to gain.
    """
    frequencies, phases, weights = _gp_features()
    return float(weights @ np.cos(frequencies @ x + phases))


@cache
def _gp_features() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    draws = np.random.RandomState(14)  # a seed whose minimum is inside the cube
    frequencies = draws.standard_normal((N_FEATURES, 2)) / LENGTH_SCALE
    phases = draws.uniform(0, 2 * math.pi, N_FEATURES)
    return frequencies, phases, draws.standard_normal(N_FEATURES) * math.sqrt(2 / N_FEATURES)


def of_botorch(name: str, dimension: int | None = None) -> Callable[[Point], float]:
    """Return a test function of BoTorch; some have a dimension of their own.

    Ackley's has many narrow valleys on a funnel that is steep only near its centre, Michalewicz's
    has flat regions between steep and narrow valleys; Hartmann's has six wide valleys of similar
    smoothness: a stationary control.
    """

    def function(x: Point) -> float:
        return float(_test_function(name, dimension).evaluate_true(torch.from_numpy(x)[None]))

    return function


@cache
def _test_function(name: str, dimension: int | None) -> Any:
    from botorch.test_functions import synthetic  # noqa: PLC0415 (an optional dependency)

    return getattr(synthetic, name)(**({} if dimension is None else {"dim": dimension}))
