"""Figures of scores against a number in which variants of the published method differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from sswim_lab.bench.accuracy import Row
from sswim_lab.bench.methods import DEPTHS, N_PSEUDO, QUICK_SUFFIX
from sswim_lab.bench.results import write_rows
from sswim_lab.bench.summary import count_failures, group_rows, mean_score
from sswim_lab.paper.experiment import Request, run_fits, sets_to_run
from sswim_lab.paper.figures.curves import (
    Curve,
    Metric,
    require_methods,
    small_multiples,
    write_figure,
)

SETS = ("airfoil", "concrete", "elevators", "parkinsons", "supercond", "protein")
"""Default data sets."""


@dataclass(frozen=True)
class Point:
    """A variant on a data set: means and standard deviations over the repeats that worked."""

    set: str
    method: str
    x: int
    """The number in which variants differ."""
    rmse: float
    rmse_sd: float
    mnlp: float
    mnlp_sd: float
    repeats: int
    failures: int


@dataclass(frozen=True)
class VariantsFigure:
    """A figure of scores against a number in which variants of a method differ."""

    name: str
    label: str
    """Label of the number."""
    methods: Mapping[str, int]
    """The number by the variant's name."""
    quick: Sequence[int]
    """The numbers of a quick run."""
    ticks: Sequence[int]
    logarithmic: bool = False

    def run(self, request: Request) -> list[Path]:
        """Run the fits that are missing, draw all results and return the paths."""
        own = self._own_methods(request)
        require_methods(request, self.name, own)
        sets = sets_to_run(request, SETS, SETS[:1])
        rows = run_fits(request, sets, request.methods or tuple(own))
        points = summarise(rows, dict.fromkeys((*SETS, *sets)), own)
        if not points:
            request.notify(f"{self.name} is not drawn, because no fit worked.")
            return []
        path = request.out / f"{self.name}.csv"
        write_rows(path, points, Point)
        ticks = self.quick if request.quick else self.ticks
        figure = draw(points, self.label, ticks, logarithmic=self.logarithmic)
        return [path, *write_figure(figure, request.out, self.name)]

    def _own_methods(self, request: Request) -> Mapping[str, int]:
        if request.quick:
            return {
                f"{name}{QUICK_SUFFIX}": x for name, x in self.methods.items() if x in self.quick
            }
        return self.methods


def summarise(rows: Iterable[Row], sets: Iterable[str], methods: Mapping[str, int]) -> list[Point]:
    """Return the points of data sets and methods with a fit that worked."""
    groups, points = group_rows(rows), []
    for name in sets:
        for method, x in methods.items():
            tried = groups.get((name, method), [])
            rmse, mnlp = mean_score(tried, "rmse"), mean_score(tried, "mnlp")
            if rmse is None or mnlp is None:
                continue
            scores = (rmse.value, rmse.std, mnlp.value, mnlp.std)
            points.append(Point(name, method, x, *scores, rmse.n, count_failures(tried)))
    return points


def draw(points: Sequence[Point], label: str, ticks: Sequence[int], *, logarithmic: bool) -> Figure:
    """Draw the curves of all data sets."""
    by_set: dict[str, list[Point]] = {}
    for point in sorted(points, key=lambda point: point.x):
        by_set.setdefault(point.set, []).append(point)
    curves: dict[str, dict[Metric, Curve]] = {}
    for name in dict.fromkeys(point.set for point in points):
        of_set = by_set[name]
        x = np.array([point.x for point in of_set], dtype=np.float64)
        numbers = np.array([(p.rmse, p.rmse_sd, p.mnlp, p.mnlp_sd) for p in of_set]).T
        curves[name] = {"rmse": Curve(x, *numbers[:2]), "mnlp": Curve(x, *numbers[2:])}
    return small_multiples(curves, label, ticks, logarithmic=logarithmic)


PSEUDO_POINTS = VariantsFigure(
    "figure-pseudo-points",
    "pseudo-points",
    {f"paper-k{n}": n for n in N_PSEUDO},
    quick=(10, 40),
    ticks=N_PSEUDO[1::2],
    logarithmic=True,
)
"""Accuracy of one warp against the number of pseudo-points."""

DEPTH = VariantsFigure(
    "figure-depth",
    "warps",
    {f"paper-depth{n}": n for n in DEPTHS},
    quick=(0, 1),
    ticks=DEPTHS,
)
"""Accuracy against the number of warps."""
