"""The problems by name: functions to minimise over a box, formulas and simulations."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from scipy.special import betainc

from sswim.base.validation import UserError
from sswim_lab.optimisation.optima import OPTIMA, Optimum
from sswim_lab.optimisation.simulations import (
    BOOSTING_BOUNDS,
    BRUSSELATOR_BOUNDS,
    CART_POLE_BOUNDS,
    cross_validated_error,
    swing_up_cost,
    weighted_variance,
)

Bounds = tuple[tuple[float, float], ...]
"""The lower and upper end of every input."""


@dataclass(frozen=True)
class Problem:
    """A deterministic function to minimise, whose inputs are mapped from the unit cube."""

    name: str
    bounds: Bounds
    function: Callable[[Float64[np.ndarray, " D"]], float]
    """The function of inputs between the bounds."""
    nonstationary: bool
    """Whether the smoothness of the function changes across its inputs."""
    libraries: tuple[str, ...] = ()
    """Optional distributions that the function needs."""
    fresh: bool = False
    """Whether the settings of this package's model were fixed before it was tried here."""

    @property
    def dimension(self) -> int:
        """Number of inputs."""
        return len(self.bounds)

    @property
    def optimum(self) -> Optimum:
        """The least value that a long search found, and where."""
        return OPTIMA[self.name]

    def scale(self, point: Float64[np.ndarray, " D"]) -> Float64[np.ndarray, " D"]:
        """Map a point of the unit cube to the box."""
        lower, upper = np.array(self.bounds).T
        # Rounding puts some points at the border outside.
        return np.clip(lower + (upper - lower) * point, lower, upper)

    def __call__(self, point: Float64[np.ndarray, " D"]) -> float:
        """Return the value at a point of the unit cube."""
        return float(self.function(self.scale(point)))


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


DATA_SETS = ("concrete", "airfoil", "abalone")
"""Data sets for which LightGBM is tuned."""

_CUBE = (0.0, 1.0)
_ACKLEY = (-20.0, 32.768)  # the usual bounds would have the optimum in the centre of the cube
_DROP_WAVE = (-3.0, 5.12)  # likewise
_THREE_HUMP_CAMEL = (-3.0, 5.0)  # likewise
_EGGHOLDER = (-512.0, 512.0)
_BIRD = (-6.283185307179586, 6.283185307179586)
_MICHALEWICZ = (0.0, 3.141592653589793)
_BOTORCH = ("botorch",)

_ALL = (
    Problem("gramacy", ((-2.0, 6.0),) * 2, gramacy, nonstationary=True),
    Problem("chirp-step", (_CUBE,), chirp_step, nonstationary=True),
    Problem("ackley", (_ACKLEY,) * 2, of_botorch("Ackley", 2), True, _BOTORCH),
    Problem("michalewicz", (_MICHALEWICZ,) * 5, of_botorch("Michalewicz", 5), True, _BOTORCH),
    Problem("warped-branin", (_CUBE,) * 2, warped_branin, nonstationary=True),
    Problem("cartpole", CART_POLE_BOUNDS, swing_up_cost, nonstationary=True),
    Problem("pde", BRUSSELATOR_BOUNDS, weighted_variance, nonstationary=True),
    *(
        Problem(
            f"lightgbm-{name}",
            BOOSTING_BOUNDS,
            cross_validated_error(name),
            nonstationary=True,
            libraries=("lightgbm",),
        )
        for name in DATA_SETS
    ),
    Problem("hartmann6", (_CUBE,) * 6, of_botorch("Hartmann", 6), False, _BOTORCH),
    Problem("gp-draw", (_CUBE,) * 2, gp_draw, nonstationary=False),
    *(
        Problem(name, bounds, function, nonstationary, _BOTORCH)
        for name, bounds, function, nonstationary in (
            ("rosenbrock", ((-5.0, 10.0),) * 4, of_botorch("Rosenbrock", 4), True),
            ("levy", ((-10.0, 10.0),) * 4, of_botorch("Levy", 4), True),
            ("shekel", ((0.0, 10.0),) * 4, of_botorch("Shekel"), True),
            ("drop-wave", (_DROP_WAVE,) * 2, of_botorch("DropWave"), True),
            ("six-hump-camel", ((-3.0, 3.0), (-2.0, 2.0)), of_botorch("SixHumpCamel"), True),
            ("hartmann3", (_CUBE,) * 3, of_botorch("Hartmann", 3), False),
            ("styblinski-tang", ((-5.0, 5.0),) * 4, of_botorch("StyblinskiTang", 4), False),
        )
    ),
    *(
        Problem(name, bounds, function, True, _BOTORCH)
        for name, bounds, function in (
            ("holder-table", ((-10.0, 10.0),) * 2, of_botorch("HolderTable")),
            ("three-hump-camel", (_THREE_HUMP_CAMEL,) * 2, of_botorch("ThreeHumpCamel")),
        )
    ),
    Problem("fading-wave", ((0.5, 2.5),), fading_wave, nonstationary=True),
    Problem("forrester", (_CUBE,), forrester, nonstationary=True),
    Problem("colville", ((-10.0, 10.0),) * 4, colville, nonstationary=True),
    Problem("eggholder", (_EGGHOLDER,) * 2, of_botorch("EggHolder"), True, _BOTORCH, fresh=True),
    Problem("cross-in-tray", ((-10.0, 10.0),) * 2, cross_in_tray, nonstationary=True, fresh=True),
    Problem("bird", (_BIRD,) * 2, bird, nonstationary=True, fresh=True),
    Problem("zakharov", ((-5.0, 10.0),) * 4, zakharov, nonstationary=True, fresh=True),
)

PROBLEMS = {problem.name: problem for problem in _ALL}


def problem_named(name: str) -> Problem:
    """Return a problem; raise UserError for an unknown name."""
    if name not in PROBLEMS:
        raise UserError(f"A problem must be one of {', '.join(PROBLEMS)}. Got {name!r}.")
    return PROBLEMS[name]
