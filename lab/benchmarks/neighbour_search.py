"""Time searches for nearest points: ours, scikit-learn's trees, and plain products in PyTorch.

    python lab/benchmarks/neighbour_search.py [--dimensions 2 8 26] [--points 10000 100000]

The points are uniform or in 50 clusters of correlated columns; queries come from the same
distribution. Times are microseconds of a query, without the building of the search; methods are
timed in turns, so that their ratios hold on a machine that is shared. Plain products are rounded,
and prove nothing. The results are stored after every set of points.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import torch
from scripting import add_device, add_out, result_path, script_parser
from sklearn.neighbors import NearestNeighbors
from timing import Rounds, Workload, compare, machine
from torch import Tensor

from sswim.distributed.processes import resolve_device
from sswim.search import Method, make_search

DIMENSIONS = (2, 8, 10, 26)
POINTS = (10_000, 100_000, 1_000_000)
KINDS = ("uniform", "clusters")
N_CLUSTERS = 50


def draw(kind: str, n: int, dimension: int) -> Tensor:
    """Return rows that are uniform, or in clusters of correlated columns."""
    generator = torch.Generator().manual_seed(0)
    if kind == "uniform":
        return torch.rand(n, dimension, dtype=torch.float64, generator=generator)
    options: dict[str, Any] = {"dtype": torch.float64, "generator": generator}
    centres = 3 * torch.randn(N_CLUSTERS, dimension, **options)
    factors = torch.randn(dimension, dimension, **options)
    rows = torch.randn(n, dimension, **options) @ factors / dimension**0.5
    return centres[torch.randint(N_CLUSTERS, (n,), generator=generator)] + rows


Find = Callable[[Tensor, int], object]
"""Finds the nearest points of queries."""


def plain_products(points: Tensor) -> Find:
    """Return a search by products in blocks and ``topk``."""
    squares = points.square().sum(-1)
    size = max(1, 2**28 // (8 * len(points)))

    def find(queries: Tensor, k: int) -> list[Tensor]:
        blocks = queries.split(size)
        products = (torch.addmm(squares, block, points.mT, alpha=-2) for block in blocks)
        return [each.topk(k, largest=False).indices for each in products]

    return find


def scikit_learn(algorithm: str, points: Tensor) -> Find:
    """Return a search of scikit-learn."""
    made = NearestNeighbors(algorithm=algorithm, n_jobs=torch.get_num_threads())
    made.fit(points.numpy())
    return lambda queries, k: made.kneighbors(queries.numpy(), k)


def ours(method: Method, points: Tensor) -> Find:
    """Return a search of sswim."""
    return make_search(points, method).nearest


def search(find: Find, queries: Tensor, k: int) -> None:
    """Search for the nearest points of all queries."""
    find(queries, k)


METHODS: dict[str, Callable[[Tensor], Find]] = {
    "tree": partial(ours, "tree"),
    "products": partial(ours, "products"),
    "sklearn kd_tree": partial(scikit_learn, "kd_tree"),
    "sklearn ball_tree": partial(scikit_learn, "ball_tree"),
    "sklearn brute": partial(scikit_learn, "brute"),
    "plain products": plain_products,
}
"""Searches by name; on a GPU there are products only."""

ON_GPU = ("products", "plain products")


def measure(
    kind: str, n_points: int, dimension: int, n_queries: int, k: int, device: torch.device
) -> dict[str, Any]:
    """Return microseconds of a query by every method, for one set of points."""
    rows = draw(kind, n_points + n_queries, dimension).to(device)
    points, queries = rows[:n_points], rows[n_points:]
    workloads: dict[str, Workload] = {
        name: partial(search, make(points), queries, k)
        for name, make in METHODS.items()
        if device.type == "cpu" or name in ON_GPU
    }
    comparison = compare(workloads, device, Rounds(3, 3, 0.0, 2, 10.0))
    microseconds = {
        name: round(1e6 * timing.seconds / n_queries, 2)
        for name, timing in comparison.timings.items()
    }
    return {"kind": kind, "points": n_points, "dimension": dimension, "microseconds": microseconds}


def main() -> None:
    """Measure, print and store the results."""
    parser = script_parser(__doc__)
    parser.add_argument("--dimensions", type=int, nargs="+", default=DIMENSIONS, help="dimensions")
    parser.add_argument("--points", type=int, nargs="+", default=POINTS, help="numbers of points")
    parser.add_argument("--queries", type=int, default=512, help="number of queries")
    parser.add_argument("--neighbours", type=int, default=64, help="number of neighbours")
    add_device(parser)
    add_out(parser, "results/neighbour-search.json")
    asked = parser.parse_args()
    device = resolve_device(asked.device)
    cases: list[dict[str, Any]] = []
    result = {
        "command": "python lab/benchmarks/neighbour_search.py",
        **machine(device, ("scipy", "scikit-learn")),
        "queries": asked.queries,
        "neighbours": asked.neighbours,
        "unit": "median microseconds of a query",
        "cases": cases,
    }
    names = " | ".join(METHODS)
    print(f"| points | dimension | kind | {names} |\n|---|---|---|{'---|' * len(METHODS)}")
    for n_points, dimension, kind in product(asked.points, asked.dimensions, KINDS):
        case = measure(kind, n_points, dimension, asked.queries, asked.neighbours, device)
        cases.append(case)
        cells = [str(case["microseconds"].get(name, "")) for name in METHODS]
        print(f"| {n_points} | {dimension} | {kind} | {' | '.join(cells)} |", flush=True)
        text = json.dumps(result, indent=2)
        result_path(asked.out, device.type).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
