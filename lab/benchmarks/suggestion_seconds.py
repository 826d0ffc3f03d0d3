"""How long does a suggestion take, given 100 evaluations?

    python lab/benchmarks/suggestion_seconds.py [--rows 100] [--threads 2]

Every method of ``sswim bench optimisation`` that has a model suggests a point several times, in
turn with the others, and the medians are stored. The processor should have nothing else to do.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

import numpy as np
import torch
from scripting import add_out, append_line, script_parser
from sswim_lab.optimisation.methods import method_named, sobol_points
from sswim_lab.optimisation.problems import problem_named
from sswim_lab.peers.protocol import silenced

PROBLEMS = ("gramacy", "hartmann6", "rosenbrock")
METHODS = ("sswim-nei", "gp-nei", "gp-warp-nei", "sswim-ts", "gp-ts", "gp-warp-ts")


def seconds(name: str, n_rows: int, repeats: int) -> dict[str, float]:
    """Return the median seconds of a suggestion of every method, after one that warms up."""
    problem = problem_named(name)
    points = sobol_points(problem.dimension, n_rows, 0)
    values = np.array([problem(point) for point in points])
    found: dict[str, list[float]] = {method: [] for method in METHODS}
    for repeat in range(repeats + 1):
        for method, times in found.items():
            began = time.perf_counter()
            with silenced():
                method_named(method).suggest(points, values, repeat)
            times.append(time.perf_counter() - began)
    return {method: round(median(times[1:]), 3) for method, times in found.items()}


def main() -> None:
    """Measure all methods on a few problems, and append the medians."""
    parser = script_parser(__doc__)
    parser.add_argument("--rows", type=int, default=100, help="evaluations so far")
    parser.add_argument("--repeats", type=int, default=3, help="suggestions of every method")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    add_out(parser, "results/suggestion-seconds.jsonl")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    for problem in PROBLEMS:
        line = {"problem": problem, "rows": asked.rows, "threads": asked.threads}
        line |= {"seconds": seconds(problem, asked.rows, asked.repeats)}
        append_line(Path(asked.out), line)
        print(line, flush=True)


if __name__ == "__main__":
    main()
