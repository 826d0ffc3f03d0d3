"""A function of two inputs that varies in one corner only: its warp, and its pseudo-points.

The model is the published one with one warp, whose pseudo-points start uniformly. How much they
concentrate where the function varies depends on the settings p and t, which were chosen by hand
for this function. Twice the published number of steps lets the points finish moving.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import numpy as np
import torch
from jaxtyping import Float64

from sswim_lab.bench.dataclass_csv import write_rows
from sswim_lab.datasets.synthetic import gramacy_surface
from sswim_lab.paper.figures.figure_files import write_figure
from sswim_lab.paper.figures.surfaces import Cell, PseudoPoint, eight_panels
from sswim_lab.paper.figures.validation import require_defaults
from sswim_lab.paper.request import Request
from sswim_lab.peers.published_sswim import FittedPublished, PublishedSSWIM

NAME = "figure-gramacy"
LOW, HIGH = -2.0, 6.0
"""Range of both inputs."""
NOISE = 0.02
N_ROWS, QUICK_ROWS = 600, 100
REPEATS = 5
METHOD = PublishedSSWIM(
    1,
    n_components=256,
    n_pseudo=100,
    kernel="rbf",  # the function is smooth
    warp_spread=0.1,
    top_spread=0.1,
    steps=300,
)
QUICK_METHOD = replace(METHOD, n_components=32, n_pseudo=20, steps=5)
NEAR = 2.5
"""Distance from the origin beyond which the function is within 0.005 of zero."""
RESOLUTION = 50
"""Number of positions along each side of a surface."""


@dataclass(frozen=True)
class PointConcentration:
    """Concentration of the pseudo-points of a repeat where the function varies."""

    repeat: int
    when: str
    """Either "before" or "after" training."""
    share_near: float
    """Fraction of the points nearer to the origin than ``NEAR``, where the function varies."""
    share_mirrored: float
    """Fraction of the points as near to the opposite place, where the function is flat."""
    distance: float
    """Mean distance from the origin."""
    spacing: float
    """Median distance from a point to the nearest other one of the same function (g or h)."""
    rmse: float
    """Root mean square error of the prediction, compared with the function without noise."""


@dataclass(frozen=True)
class BeforeAndAfter:
    """A model before and after training, with the same random start."""

    before: FittedPublished
    after: FittedPublished

    def concentrations(self, repeat: int) -> list[PointConcentration]:
        """Return the concentration of its pseudo-points before and after training."""
        return [
            PointConcentration(
                repeat, when, *measure_concentration(fitted.pseudo_inputs()), function_rmse(fitted)
            )
            for when, fitted in (("before", self.before), ("after", self.after))
        ]

    def points(self) -> list[PseudoPoint]:
        """Return its pseudo-points."""
        pairs = zip(self.before.pseudo_inputs(), self.after.pseudo_inputs(), strict=True)
        return [
            PseudoPoint(function, *before, *after)
            for function, (befores, afters) in zip("gh", pairs, strict=True)
            for before, after in zip(befores.tolist(), afters.tolist(), strict=True)
        ]


def run(request: Request) -> list[Path]:
    """Fit and measure all repeats, draw the first and return the paths.

    This takes a minute, and is repeated in every run.
    """
    require_defaults(request, NAME)
    rows = [
        draw_rows(QUICK_ROWS if request.quick else N_ROWS, repeat)
        for repeat in range(request.repeats or (1 if request.quick else REPEATS))
    ]
    fits = [fit(request, *each, repeat) for repeat, each in enumerate(rows)]
    concentrations = [
        each for repeat, fitted in enumerate(fits) for each in fitted.concentrations(repeat)
    ]
    for when in ("before", "after"):
        measured = [each for each in concentrations if each.when == when]
        near, flat = (
            fmean(each.share_near for each in measured),
            fmean(each.share_mirrored for each in measured),
        )
        request.notify(
            f"{when.capitalize()} training {100 * near:.0f} % of the pseudo-points are where the "
            f"function varies, and {100 * flat:.0f} % in an equally large region where it is flat."
        )
    cells, points = surface(fits[0].after), fits[0].points()
    request.out.mkdir(parents=True, exist_ok=True)
    paths = [request.out / f"{NAME}{suffix}.csv" for suffix in ("", "-points", "-surface")]
    write_rows(paths[0], concentrations, PointConcentration)
    write_rows(paths[1], points, PseudoPoint)
    write_rows(paths[2], cells, Cell)
    figure = eight_panels(*rows[0], cells, points, NEAR)
    return [*paths, *write_figure(figure, request.out, NAME)]


def draw_rows(n: int, seed: int) -> tuple[Float64[np.ndarray, "n 2"], Float64[np.ndarray, " n"]]:
    """Draw noisy rows of the function, uniformly over the domain."""
    generator = torch.Generator().manual_seed(seed)
    x = LOW + (HIGH - LOW) * torch.rand(n, 2, generator=generator, dtype=torch.float64)
    noise = torch.randn(n, generator=generator, dtype=torch.float64)
    return x.numpy(), (gramacy_surface(x) + NOISE * noise).numpy()


def fit(
    request: Request, X: Float64[np.ndarray, "N 2"], y: Float64[np.ndarray, " N"], seed: int
) -> BeforeAndAfter:
    """Fit a model with and without training, from the same start."""
    method = QUICK_METHOD if request.quick else METHOD
    before = replace(method, steps=0).fit(X, y, seed, request.device)
    return BeforeAndAfter(before, method.fit(X, y, seed, request.device))


def measure_concentration(
    functions: Sequence[Float64[np.ndarray, "K 2"]],
) -> tuple[float, float, float, float]:
    """Return the measures of a ``PointConcentration``.

    Args:
        functions: The points of each function.

    Returns:
        Share near, share mirrored, distance and spacing.
    """
    every = np.concatenate(functions)
    distances, mirrored = np.hypot(*every.T), np.hypot(*(LOW + HIGH - every).T)
    spacings = []
    for points in functions:
        apart = np.hypot(*(points[:, None] - points).transpose(2, 0, 1))
        np.fill_diagonal(apart, np.inf)
        spacings.append(apart.min(axis=0))
    return (
        float(np.mean(distances < NEAR)),
        float(np.mean(mirrored < NEAR)),
        float(np.mean(distances)),
        float(np.median(spacings)),
    )


def surface(fitted: FittedPublished) -> list[Cell]:
    """Return the truth, the prediction and the warp on a grid over the domain."""
    x, truth = _grid()
    warped, variance = fitted.warp(x)
    columns = (*x.T, truth, fitted.predict(x).mean, *warped.T, variance.mean(1))
    return [Cell(*cell) for cell in np.column_stack(columns).tolist()]


def function_rmse(fitted: FittedPublished) -> float:
    """Return the root mean square error of the prediction over the domain."""
    x, truth = _grid()
    return float(np.sqrt(np.mean(np.square(fitted.predict(x).mean - truth))))


def _grid() -> tuple[Float64[np.ndarray, "P 2"], Float64[np.ndarray, " P"]]:
    """Return grid positions, x₁ varying fastest, and the function there."""
    along = torch.linspace(LOW, HIGH, RESOLUTION, dtype=torch.float64)
    x = torch.stack(torch.meshgrid(along, along, indexing="xy"), dim=-1).reshape(-1, 2)
    return x.numpy(), gramacy_surface(x).numpy()
