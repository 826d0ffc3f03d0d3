"""Searches for the optima of the problems of ``sswim bench optimisation``.

    python lab/benchmarks/optimisation_optima.py [--problems gramacy,pde]

It prints the entries of ``lab/src/sswim_lab/optimisation/optima.py``. All problems take about 20
minutes of one core.
"""

from __future__ import annotations

import argparse

import numpy as np
from jaxtyping import Float64
from scipy.optimize import minimize
from sswim_lab.optimisation.methods import sobol_points
from sswim_lab.optimisation.optima import OPTIMA, Optimum
from sswim_lab.optimisation.problems import PROBLEMS, Problem, problem_named

MAX_DESCENTS = 8
"""Descents from the best point, each with a new simplex, until one gains nothing."""


def main() -> None:
    """Print the optimum of each problem."""
    parser = argparse.ArgumentParser(description="Search for the optima of the problems.")
    parser.add_argument("--problems", default=",".join(PROBLEMS), help="names, with commas")
    for name in parser.parse_args().problems.split(","):
        problem = problem_named(name)
        print(f'    "{name}": {search(problem, *efforts(problem))!r},', flush=True)


def efforts(problem: Problem) -> tuple[int, int, int]:
    """Return the numbers of points, of descents and of their steps that a problem is worth."""
    if problem.name == "pde" or problem.name.startswith("lightgbm"):
        return 1024, 3, 200  # an evaluation takes a tenth of a second
    return 16384, 30, 1000


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


if __name__ == "__main__":
    main()
