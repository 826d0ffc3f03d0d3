"""Compare surrogates for Bayesian optimisation with and without additive members.

    python lab/benchmarks/surrogate_kinds.py [--table]

Surrogates with and without additive members are fitted to Sobol points of known functions, and
scored on 500 others: RMSE in units of the spread of the function, and MNLP of the values in these
units. Runs that are in the result file are not repeated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from arguments import add_out, script_parser
from json_lines import append_line, read_lines
from markdown_tables import scores_cell, table_line
from sswim_lab.optimisation.methods import sobol_points

from sswim.surrogate.fitting import KINDS, fit_surrogate

N_ROWS, N_TEST = (30, 60), 500
N_FREQUENCIES = 600
VARIANTS = {
    "without": tuple(kind for kind in KINDS if not kind.additive),
    "with": KINDS,
}


@dataclass(frozen=True)
class Function:
    """A function of points of the unit cube."""

    dimension: int
    evaluate: Callable[[np.ndarray], np.ndarray]


def _ishigami(x: np.ndarray) -> np.ndarray:
    first, second, third = np.pi * (2 * x - 1).T
    return np.sin(first) + 7 * np.sin(second) ** 2 + 0.1 * third**4 * np.sin(first)


def _friedman(x: np.ndarray) -> np.ndarray:
    waves = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2
    return waves + 10 * x[:, 3] + 5 * x[:, 4]


def _schwefel(x: np.ndarray) -> np.ndarray:
    scaled = 1000 * x - 500
    return -(scaled * np.sin(np.sqrt(np.abs(scaled)))).sum(-1)


def _rastrigin(x: np.ndarray) -> np.ndarray:
    scaled = 10.24 * x - 4
    return (scaled**2 - 10 * np.cos(2 * np.pi * scaled)).sum(-1)


def _griewank(x: np.ndarray) -> np.ndarray:
    scaled = 20 * x - 8
    waves = np.cos(scaled / np.sqrt(np.arange(1, x.shape[1] + 1))).prod(-1)
    return (scaled**2).sum(-1) / 4000 - waves


def _dixon_price(x: np.ndarray) -> np.ndarray:
    scaled = 20 * x - 10
    numbers = np.arange(2, x.shape[1] + 1)
    steps = (numbers * (2 * scaled[:, 1:] ** 2 - scaled[:, :-1]) ** 2).sum(-1)
    return (scaled[:, 0] - 1) ** 2 + steps


def _borehole(x: np.ndarray) -> np.ndarray:
    low = np.array([0.05, 100, 63070, 990, 63.1, 700, 1120, 9855])
    high = np.array([0.15, 50000, 115600, 1110, 116, 820, 1680, 12045])
    radius, reach, upper, upper_head, lower, lower_head, length, rate = (low + (high - low) * x).T
    log_ratio = np.log(reach / radius)
    leak = 2 * length * upper / (log_ratio * radius**2 * rate)
    return 2 * np.pi * upper * (upper_head - lower_head) / (log_ratio * (1 + leak + upper / lower))


def _robot_arm(x: np.ndarray) -> np.ndarray:
    angles, lengths = np.cumsum(2 * np.pi * x[:, :4], axis=-1), x[:, 4:]
    return np.hypot((lengths * np.cos(angles)).sum(-1), (lengths * np.sin(angles)).sum(-1))


def gp_draw(dimension: int, scale: float, order: int, seed: int) -> Function:
    """Return a draw of a GP that is a sum of functions of so many inputs each."""
    draws = np.random.RandomState(seed)
    frequencies = draws.standard_normal((N_FREQUENCIES, dimension)) / scale
    for row in frequencies:
        row[draws.permutation(dimension)[order:]] = 0
    phases = draws.uniform(0, 2 * np.pi, N_FREQUENCIES)
    weights = draws.standard_normal(N_FREQUENCIES)
    return Function(dimension, lambda x: np.cos(x @ frequencies.T + phases) @ weights)


FUNCTIONS = {
    "sum of 5 draws": gp_draw(5, 0.2, 1, seed=4),
    "sum of 5 fast draws": gp_draw(5, 0.1, 1, seed=14),
    "sum of 8 draws": gp_draw(8, 0.3, 1, seed=34),
    "sum over pairs of 5": gp_draw(5, 0.35, 2, seed=5),
    "ishigami": Function(3, _ishigami),
    "friedman": Function(5, _friedman),
    "schwefel": Function(3, _schwefel),
    "rastrigin": Function(4, _rastrigin),
    "griewank": Function(5, _griewank),
    "dixon-price": Function(4, _dixon_price),
    "borehole": Function(8, _borehole),
    "robot arm": Function(8, _robot_arm),
    "draw of 2 inputs": gp_draw(2, 0.2, 2, seed=1),
    "draw of 4 inputs": gp_draw(4, 0.4, 4, seed=2),
    "draw of 6 inputs": gp_draw(6, 0.7, 6, seed=3),
}


def scores(function: Function, n_rows: int, variant: str) -> dict[str, float]:
    """Fit a surrogate, and return its RMSE and MNLP."""
    train, test = (
        sobol_points(function.dimension, n, seed) for n, seed in ((n_rows, 1), (N_TEST, 7))
    )
    targets, truth = (torch.from_numpy(function.evaluate(each)) for each in (train, test))
    spread = truth.std(correction=0)
    generator = torch.Generator().manual_seed(0)
    surrogate = fit_surrogate(
        torch.from_numpy(train), targets / spread, None, generator, kinds=VARIANTS[variant]
    )
    with torch.no_grad():
        mean, covariance = surrogate.joint(torch.from_numpy(test)[:, None])
        variance = covariance[..., 0]
        mapped, slope = surrogate.target_map.forward(truth[:, None] / spread)
        misfit = (mapped - mean).square() / variance + (2 * math.pi * variance).log()
        errors = surrogate.target_map.inverse(mean)[:, 0] - truth / spread
        density = 0.5 * misfit - slope.log()
    return {"rmse": float(errors.square().mean().sqrt()), "mnlp": float(density.mean())}


def main() -> None:
    """Score all surrogates that the result file lacks, or print the table."""
    parser = script_parser(__doc__)
    parser.add_argument("--table", action="store_true", help="print the table instead")
    add_out(parser, "results/surrogate-kinds.jsonl")
    asked = parser.parse_args()
    out = Path(asked.out)
    stored = {(each["function"], each["rows"], each["variant"]): each for each in read_lines(out)}
    if asked.table:
        print_table(stored)
        return
    for name, function in FUNCTIONS.items():
        for n_rows in N_ROWS:
            for variant in VARIANTS:
                if (name, n_rows, variant) in stored:
                    continue
                line = {"function": name, "inputs": function.dimension, "rows": n_rows}
                line |= {"variant": variant, **scores(function, n_rows, variant)}
                append_line(out, line)
                print(line, flush=True)


def print_table(stored: dict[tuple[str, int, str], dict[str, float]]) -> None:
    """Print RMSE and MNLP of every function, by rows and variant."""
    cells = [(n_rows, variant) for n_rows in N_ROWS for variant in VARIANTS]
    heads = [f"{n_rows} rows, {variant}" for n_rows, variant in cells]
    print(table_line(["function", "inputs", *heads]))
    print(table_line(["---"] * (2 + len(cells))))
    for name, function in FUNCTIONS.items():
        found = [stored[name, *cell] for cell in cells]
        scored = [scores_cell(each["rmse"], each["mnlp"]) for each in found]
        print(table_line([name, str(function.dimension), *scored]))


if __name__ == "__main__":
    main()
