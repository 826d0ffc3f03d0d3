"""Searches for the optima of the problems of ``sswim bench optimisation``.

    python lab/benchmarks/optimisation_optima.py [--problems gramacy,pde]

It prints the entries of ``lab/src/sswim_lab/optimisation/optima.py``. All problems take about 20
minutes of one core.
"""

from __future__ import annotations

import argparse

from sswim_lab.optimisation.problem import Problem
from sswim_lab.optimisation.problems import PROBLEMS, problem_named
from sswim_lab.optimisation.reference_search import search


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


if __name__ == "__main__":
    main()
