"""A 1-D signal, a warp learnt from it, and how much more evenly the signal varies after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float64

from sswim.estimator.regressor import SSWIMRegressor
from sswim.lab.bench.dataclass_csv import write_rows
from sswim.lab.datasets.synthetic import nonstationary_signal
from sswim.lab.demo import SEED, demo_regressor, draw_rows, four_panels
from sswim.lab.paper.figures.choices import require_no_choice
from sswim.lab.paper.figures.pictures import write_picture
from sswim.lab.paper.request import Request

NAME = "figure-warp-1d"
N_ROWS, QUICK_ROWS = 600, 100
QUICK_STEPS = 5
N_POSITIONS = 6001
REACH = 1 / 30
"""How far to each side of a jump counts as the jump."""
PARTS: dict[str, Sequence[tuple[float, float]]] = {
    "jumps of the steps": [(jump - REACH, jump + REACH) for jump in (1 / 3, 2 / 3)],
    "wave": [(1.0, 2.0)],
    "slow half of the chirp": [(2.0, 2.5)],
    "fast half of the chirp": [(2.5, 3.0)],
}
"""Where the signal moves; between the jumps it does not."""


@dataclass(frozen=True)
class Part:
    """A part of the signal, f: how fast it varies along the input x and along the warped input w.

    Both are the way that f goes up and down, over the way that x or w goes there and back.
    """

    part: str
    slope_before: float
    """∫|df| / ∫|dx|"""
    slope_after: float
    """∫|df| / ∫|dw|"""
    stretch: float
    """∫|dw| / ∫|dx|"""


def run(request: Request) -> list[Path]:
    """Fit, draw and measure; it takes seconds, so that nothing is kept from before."""
    require_no_choice(request, NAME)
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
    return [path, *write_picture(four_panels(regressor, X, y), request.out, NAME)]


def measure(regressor: SSWIMRegressor) -> list[Part]:
    """How fast the signal varies in each part, before and after the last warp."""
    x = np.linspace(0, 3, N_POSITIONS)[:-1]
    warped = regressor.warp(x[:, None])[-1][0][:, 0]
    signal = nonstationary_signal(torch.from_numpy(x)).numpy()
    parts = []
    for name, intervals in PARTS.items():
        within = _within(x, intervals)
        length, way, height = (_way(values, within) for values in (x, warped, signal))
        parts.append(Part(name, height / length, height / way, way / length))
    return parts


def unevenness(parts: Sequence[Part]) -> tuple[float, float]:
    """The largest slope over the smallest, before and after; one if the signal varies evenly."""
    before = [part.slope_before for part in parts]
    after = [part.slope_after for part in parts]
    return max(before) / min(before), max(after) / min(after)


def _within(
    x: Float64[np.ndarray, " P"], intervals: Sequence[tuple[float, float]]
) -> Bool[np.ndarray, " P-1"]:
    """Which of the ways from a position to the next lie in some intervals."""
    middles = 0.5 * (x[1:] + x[:-1])
    return np.any([(low < middles) & (middles < high) for low, high in intervals], axis=0)


def _way(values: Float64[np.ndarray, " P"], within: Bool[np.ndarray, " P-1"]) -> float:
    """How far values go up and down."""
    return float(np.abs(np.diff(values))[within].sum())
