"""A 1-D signal and its learnt warp, after which the signal varies more evenly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float64

from sswim.cli.demo import SEED, demo_regressor, draw_rows, four_panels, nonstationary_signal
from sswim.estimator import BaseRegressor
from sswim_lab.bench.results import write_rows
from sswim_lab.paper.experiment import Request
from sswim_lab.paper.figures.curves import require_defaults, write_figure

NAME = "figure-warp-1d"
N_ROWS, QUICK_ROWS = 600, 100
QUICK_STEPS = 5
N_POSITIONS = 6001
REACH = 1 / 30
"""Distance to each side of a jump that counts as the jump."""
PARTS: dict[str, Sequence[tuple[float, float]]] = {
    "jumps of the steps": [(jump - REACH, jump + REACH) for jump in (1 / 3, 2 / 3)],
    "wave": [(1.0, 2.0)],
    "slow half of the chirp": [(2.0, 2.5)],
    "fast half of the chirp": [(2.5, 3.0)],
}
"""Intervals in which the signal varies; between the jumps it is constant."""


@dataclass(frozen=True)
class Part:
    """Slopes of a part of the signal f, against the input x and against the warped input w.

    Both are the total variation of f, divided by that of x or of w.
    """

    part: str
    slope_before: float
    """∫|df| / ∫|dx|"""
    slope_after: float
    """∫|df| / ∫|dw|"""
    stretch: float
    """∫|dw| / ∫|dx|"""


def run(request: Request) -> list[Path]:
    """Fit, draw and measure, and return the paths; this takes seconds, so no fit is kept."""
    require_defaults(request, NAME)
    n_rows = QUICK_ROWS if request.quick else N_ROWS
    X, y = draw_rows(n_rows, torch.Generator().manual_seed(SEED))
    regressor = demo_regressor(1).set_params(device=request.device)
    if request.quick:
        regressor.set_params(max_iter=QUICK_STEPS)
    regressor.fit(X, y)
    parts = measure(regressor)
    before, after = unevenness(parts)
    request.notify(
        "Between its parts the slope of the signal differs by a factor of "
        f"{before:.1f} before the warp, and of {after:.1f} after it."
    )
    request.out.mkdir(parents=True, exist_ok=True)
    path = request.out / f"{NAME}.csv"
    write_rows(path, parts, Part)
    return [path, *write_figure(four_panels(regressor, X, y), request.out, NAME)]


def measure(regressor: BaseRegressor) -> list[Part]:
    """Measure the slopes of each part, before and after the last warp."""
    x = np.linspace(0, 3, N_POSITIONS)[:-1]
    warped = regressor.warp(x[:, None])[-1][0][:, 0]
    signal = nonstationary_signal(torch.from_numpy(x)).numpy()
    parts = []
    for name, intervals in PARTS.items():
        within = _steps_within(x, intervals)
        of_x, of_w, of_f = (_total_variation(values, within) for values in (x, warped, signal))
        parts.append(Part(name, of_f / of_x, of_f / of_w, of_w / of_x))
    return parts


def unevenness(parts: Sequence[Part]) -> tuple[float, float]:
    """Return the largest slope over the smallest, before and after; 1 if all are equal."""
    before = [part.slope_before for part in parts]
    after = [part.slope_after for part in parts]
    return max(before) / min(before), max(after) / min(after)


def _steps_within(
    x: Float64[np.ndarray, " P"], intervals: Sequence[tuple[float, float]]
) -> Bool[np.ndarray, " P-1"]:
    """Return which steps between neighbouring positions lie in the intervals."""
    middles = 0.5 * (x[1:] + x[:-1])
    return np.any([(low < middles) & (middles < high) for low, high in intervals], axis=0)


def _total_variation(values: Float64[np.ndarray, " P"], within: Bool[np.ndarray, " P-1"]) -> float:
    """Return the sum of absolute differences, over some of the steps."""
    return float(np.abs(np.diff(values))[within].sum())
