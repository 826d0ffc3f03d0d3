"""A function of two inputs that moves in one corner only: its warp, and where pseudo-points go.

The model is the published one with one warp, whose pseudo-points start uniformly. How much they
gather where the function moves depends on the numbers p and t, which are set by hand; those here
were chosen for this function. Twice the published number of steps lets the points finish moving.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import numpy as np
import torch
from jaxtyping import Float64

from sswim.lab.bench.dataclass_csv import write_rows
from sswim.lab.datasets.synthetic import gramacy_surface
from sswim.lab.paper.figures.choices import require_no_choice
from sswim.lab.paper.figures.pictures import write_picture
from sswim.lab.paper.figures.surfaces import Cell, PseudoPoint, eight_panels
from sswim.lab.paper.request import Request
from sswim.lab.peers.published import FittedPublished, PublishedSSWIM

NAME = "figure-gramacy"
LOW, HIGH = -2.0, 6.0
"""Of both inputs."""
NOISE = 0.02
N_ROWS, QUICK_ROWS = 600, 100
REPEATS = 5
METHOD = PublishedSSWIM(
    1,
    n_components=256,
    n_pseudo=100,
    kernel="rbf",  # the function is as smooth as that
    warp_spread=0.1,
    top_spread=0.1,
    steps=300,
)
QUICK_METHOD = replace(METHOD, n_components=32, n_pseudo=20, steps=5)
NEAR = 2.5
"""The distance from the origin beyond which the function is within 0.005 of zero."""
RESOLUTION = 50
"""Positions along each side of a surface."""


@dataclass(frozen=True)
class Gathering:
    """Where the pseudo-points of a repeat are."""

    repeat: int
    when: str
    """Before training, or after it."""
    share_near: float
    """Of the points, nearer to the origin than ``NEAR``: there the function moves."""
    share_mirrored: float
    """Of the points, as near to where the origin is mirrored in the centre: there it is flat."""
    distance: float
    """From the origin: the mean."""
    spacing: float
    """From a point to the nearest other one of the same function: the median."""
    rmse: float
    """Of the prediction, as an error of the function without noise."""


@dataclass(frozen=True)
class Fitted:
    """A model before training and after it, of the same draws."""

    before: FittedPublished
    after: FittedPublished

    def gatherings(self, repeat: int) -> list[Gathering]:
        """Where its pseudo-points are."""
        return [
            Gathering(repeat, when, *gathering(pseudo_inputs(fitted)), error(fitted))
            for when, fitted in (("before", self.before), ("after", self.after))
        ]

    def points(self) -> list[PseudoPoint]:
        """Its pseudo-points."""
        pairs = zip(pseudo_inputs(self.before), pseudo_inputs(self.after), strict=True)
        return [
            PseudoPoint(function, *before, *after)
            for function, (befores, afters) in zip("gh", pairs, strict=True)
            for before, after in zip(befores.tolist(), afters.tolist(), strict=True)
        ]


def run(request: Request) -> list[Path]:
    """Fit, measure all repeats and draw the first; it takes a minute, and is done anew."""
    require_no_choice(request, NAME)
    rows = [
        draw_rows(QUICK_ROWS if request.quick else N_ROWS, repeat)
        for repeat in range(request.repeats or (1 if request.quick else REPEATS))
    ]
    fits = [fit(request, *each, repeat) for repeat, each in enumerate(rows)]
    gatherings = [each for repeat, fitted in enumerate(fits) for each in fitted.gatherings(repeat)]
    for when in ("before", "after"):
        its = [each for each in gatherings if each.when == when]
        near, flat = (
            fmean(each.share_near for each in its),
            fmean(each.share_mirrored for each in its),
        )
        request.notify(
            f"{when.capitalize()} training {100 * near:.0f} % of the pseudo-points are where the "
            f"function moves, and {100 * flat:.0f} % on as large a part across, where it is flat."
        )
    cells, points = surface(fits[0].after), fits[0].points()
    request.out.mkdir(parents=True, exist_ok=True)
    paths = [request.out / f"{NAME}{suffix}.csv" for suffix in ("", "-points", "-surface")]
    write_rows(paths[0], gatherings, Gathering)
    write_rows(paths[1], points, PseudoPoint)
    write_rows(paths[2], cells, Cell)
    figure = eight_panels(*rows[0], cells, points, NEAR)
    return [*paths, *write_picture(figure, request.out, NAME)]


def draw_rows(n: int, seed: int) -> tuple[Float64[np.ndarray, "n 2"], Float64[np.ndarray, " n"]]:
    """Rows of the function with noise, uniformly over the domain."""
    generator = torch.Generator().manual_seed(seed)
    x = LOW + (HIGH - LOW) * torch.rand(n, 2, generator=generator, dtype=torch.float64)
    noise = torch.randn(n, generator=generator, dtype=torch.float64)
    return x.numpy(), (gramacy_surface(x) + NOISE * noise).numpy()


def fit(
    request: Request, X: Float64[np.ndarray, "N 2"], y: Float64[np.ndarray, " N"], seed: int
) -> Fitted:
    """The same start, with and without training."""
    method = QUICK_METHOD if request.quick else METHOD
    before = replace(method, steps=0).fit(X, y, seed, request.device)
    return Fitted(before, method.fit(X, y, seed, request.device))


def pseudo_inputs(fitted: FittedPublished) -> list[Float64[np.ndarray, "K 2"]]:
    """Those of g and of h, in the units of the inputs."""
    scales = fitted.scales
    return [scales.centre + scales.spread * points for points in fitted.pseudo_inputs()]


def gathering(
    functions: Sequence[Float64[np.ndarray, "K 2"]],
) -> tuple[float, float, float, float]:
    """The measures of a ``Gathering`` of the points of some functions."""
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
    """What there is to show, over the domain."""
    x, truth = _grid()
    scales = fitted.scales
    warped, variance = fitted.warp(x)
    warped, variance = scales.centre + scales.spread * warped, scales.spread**2 * variance
    columns = (*x.T, truth, fitted.predict(x).mean, *warped.T, variance.mean(1))
    return [Cell(*cell) for cell in np.column_stack(columns).tolist()]


def error(fitted: FittedPublished) -> float:
    """The root mean square error of the function over the domain."""
    x, truth = _grid()
    return float(np.sqrt(np.mean(np.square(fitted.predict(x).mean - truth))))


def _grid() -> tuple[Float64[np.ndarray, "P 2"], Float64[np.ndarray, " P"]]:
    """Positions, x₁ within x₂, and the function there."""
    along = torch.linspace(LOW, HIGH, RESOLUTION, dtype=torch.float64)
    x = torch.stack(torch.meshgrid(along, along, indexing="xy"), dim=-1).reshape(-1, 2)
    return x.numpy(), gramacy_surface(x).numpy()
