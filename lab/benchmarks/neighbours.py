"""Time and memory of models that predict by neighbours.

    python lab/benchmarks/neighbours.py --device cpu     # 10,000 rows, and 10^6 predictions
    python lab/benchmarks/neighbours.py --device cuda    # 10^6 rows as well
    python lab/benchmarks/neighbours.py --table

Results are appended to results/neighbour-speed-<device>.jsonl. The tables show accuracy instead:
means over repeats of `sswim bench accuracy`.
"""

from __future__ import annotations

import resource
import time
from collections import defaultdict

import numpy as np
import torch
from numpy.typing import NDArray
from scripting import (
    RESULTS,
    add_device,
    add_out,
    append_line,
    read_rows,
    result_path,
    script_parser,
)

from sswim import NeighbourGPRegressor
from sswim.distributed.processes import resolve_device

FILES = (RESULTS / "neighbours.csv", RESULTS / "neighbours-peers.csv")
MODELS = [f"neighbours{depth}{form}" for form in ("", "-scores") for depth in (0, 1, 2)]
PEERS = ["exact-gp-well-trained", "gpboost-vecchia"]
VARIANTS = ["neighbours1-gaussian", "neighbours1-expected"]

Scores = dict[tuple[str, str], list[tuple[float, float]]]


def read_scores() -> Scores:
    """Return RMSE and MNLP of every repeat, by set and method."""
    found: Scores = defaultdict(list)
    for file in FILES:
        for row in read_rows(file):
            if not row["failure"]:
                scores = (float(row["rmse"]), float(row["mnlp"]))
                found[row["set"], row["method"]].append(scores)
    return found


def cell(scores: list[tuple[float, float]]) -> str:
    """Return the means over repeats, and their number if it is not five."""
    if not scores:
        return "–"
    rmse, mnlp = np.mean(scores, axis=0)
    digits = 4 if rmse < 0.1 else 3
    number = "" if len(scores) == 5 else f" ({len(scores)})"
    return f"{rmse:.{digits}f} / {mnlp:.2f}{number}".replace("-", "−")


def print_table(scores: Scores, methods: list[str]) -> None:
    """Print a Markdown table with a row for each set."""
    print("| set |", " | ".join(f"`{name}`" for name in methods), "|")
    print("|---|" + "---|" * len(methods))
    for name in dict.fromkeys(each for each, _ in scores):
        print(f"| {name} |", " | ".join(cell(scores[name, method]) for method in methods), "|")
    print()


def print_tables() -> None:
    """Print both tables."""
    scores = read_scores()
    print_table(scores, [*MODELS, *PEERS])
    print_table(scores, ["neighbours1", *VARIANTS])


N_INPUTS = 10


def make_rows(n_rows: int, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw rows of a function whose smoothness changes, with noise."""
    random = np.random.default_rng(seed)
    x = random.uniform(-2, 2, (n_rows, N_INPUTS))
    y = np.sin(np.exp(x[:, 0])) + x[:, 1] * np.tanh(3 * x[:, 2]) + 0.5 * x[:, 3]
    return x, y + 0.1 * random.normal(size=n_rows)


def peak_gib(device: torch.device) -> float:
    """Return the most memory that was used so far."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    """Measure fits and predictions of several sizes."""
    parser = script_parser(__doc__)
    add_device(parser)
    add_out(parser, "results/neighbour-speed-<device>.jsonl")
    parser.add_argument("--rows", type=int, nargs="*", help="numbers of rows to fit")
    parser.add_argument("--n-predict", type=int, default=10**6, help="number of predictions")
    parser.add_argument("--n-neighbors", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--table", action="store_true", help="print the tables of the bench")
    arguments = parser.parse_args()
    if arguments.table:
        print_tables()
        return
    device = resolve_device(arguments.device)
    out = result_path(arguments.out, device.type)
    sizes = arguments.rows or ([10**4, 10**5] + ([10**6] if device.type == "cuda" else []))
    test_x, test_y = make_rows(arguments.n_predict, seed=1)
    for n_rows in sizes:
        x, y = make_rows(n_rows)
        for repeat in range(arguments.repeats):
            model = NeighbourGPRegressor(
                depth=1, n_neighbors=arguments.n_neighbors, random_state=repeat, device=device.type
            )
            begin = time.perf_counter()
            steps: list[float] = []
            model.set_params(callback=lambda _, step, steps=steps: steps.append(step.seconds))
            model.fit(x, y)
            fit_seconds = time.perf_counter() - begin
            model.predict(test_x[:1000], return_std=True)  # builds the index
            n_predict = arguments.n_predict if n_rows == 10**5 else min(10**4, len(test_x))
            begin = time.perf_counter()
            mean, _ = model.predict(test_x[:n_predict], return_std=True)
            predict_seconds = time.perf_counter() - begin
            gaps = np.diff(steps)
            append_line(
                out,
                {
                    "rows": n_rows,
                    "inputs": N_INPUTS,
                    "depth": 1,
                    "n_neighbors": arguments.n_neighbors,
                    "repeat": repeat,
                    "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
                    "threads": torch.get_num_threads(),
                    "fit_seconds": round(fit_seconds, 3),
                    "median_step_ms": round(1e3 * float(np.median(gaps)), 3),
                    "lookup_seconds": round(float(gaps[gaps > 5 * np.median(gaps)].sum()), 3),
                    "predictions": n_predict,
                    "predict_seconds": round(predict_seconds, 3),
                    "peak_gib": round(peak_gib(device), 2),
                    "rmse": round(float(np.sqrt(np.mean((mean - test_y[:n_predict]) ** 2))), 4),
                },
            )


if __name__ == "__main__":
    main()
