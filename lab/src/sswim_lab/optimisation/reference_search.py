"""A long search for the least value of a problem, which no method of the benchmark can afford."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64
from scipy.optimize import minimize

from sswim_lab.optimisation.first_points import sobol_points
from sswim_lab.optimisation.optima import OPTIMA, Optimum
from sswim_lab.optimisation.problem import Problem

MAX_DESCENTS = 8
"""Descents from the best point, each with a new simplex, until one gains nothing."""


def search(
    problem: Problem, n_points: int, n_descents: int, n_steps: int, *, seed: int = 0
) -> Optimum:
    """Return the least value that is found from many points.

    Args:
        problem: The function to minimise.
        n_points: Number of points of a Sobol sequence.
        n_descents: Number of the best points from which Nelder and Mead's method descends; the
            stored optimum, if there is one, is another.
        n_steps: Evaluations of every descent.
        seed: Seed of the Sobol sequence.
    """
    points = sobol_points(problem.dimension, n_points, seed)
    values = [problem(point) for point in points]
    starts = [points[position] for position in np.argsort(values)[:n_descents]]
    if problem.name in OPTIMA:
        starts.append(np.array(OPTIMA[problem.name].point))
    best = min((_descend(problem, start, n_steps) for start in starts), key=lambda each: each.value)
    for _ in range(MAX_DESCENTS):
        again = _descend(problem, np.array(best.point), n_steps)
        if again.value >= best.value:
            break
        best = again
    return best


def _descend(problem: Problem, start: Float64[np.ndarray, " D"], n_steps: int) -> Optimum:
    """Return the least value near a point, which may be its own."""
    found = minimize(
        problem,
        start,
        method="Nelder-Mead",
        bounds=[(0.0, 1.0)] * problem.dimension,
        options={"maxfev": n_steps, "xatol": 1e-10, "fatol": 1e-14, "adaptive": True},
    )
    best = found.x if found.fun < problem(start) else start
    return Optimum(problem(best), tuple(map(float, best)))
