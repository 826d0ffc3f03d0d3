"""Rank the inputs of synthetic tables, of which ten in thirty matter, in several ways.

    python lab/benchmarks/relevance.py --seeds 2
    python lab/benchmarks/relevance.py --table
    python lab/benchmarks/relevance.py --picture docs/images/relevance-ways.png

The ways are ``SSWIMRegressor.relevance``, two others that were tried for it (mean squared slopes of
the posterior mean, and the mean local metric of the warps), and permutation importance, that of
sswim and that of LightGBM. One line is written for every table, with the values of all inputs and
what they are worth:

- ``error``: share of the true ten that are not among the ten highest.
- ``precision``: average precision of the ranking.
- ``irrelevant``: share of the twenty inputs that do not matter, in the sum of all.
- ``distance``: half the sum of absolute differences between the shares and those of the true
  function's total effects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from numpy.typing import NDArray
from scripting import (
    add_results,
    append_line,
    markdown_table,
    read_lines,
    rmse,
    script_parser,
    shows_stored,
)
from sklearn.metrics import average_precision_score
from sswim_lab.peers.trees import LightGBM

from sswim import SSWIMRegressor
from sswim.plotting import CYCLE, axes

Array = NDArray[np.float64]

N_INPUTS = 30
N_RELEVANT = 10
CORRELATION = 0.7
"""Correlation of neighbouring inputs where they are correlated."""
NOISE = 0.3
"""Standard deviation of the noise, in units of that of the function."""


def _additive(x: Array) -> Array:
    """Sum functions of one input each: slopes, waves, bends and steps."""
    return (
        x[:, 0]
        - x[:, 1]
        + np.sin(2 * x[:, 2])
        + np.cos(2 * x[:, 3])
        + np.abs(x[:, 4])
        + np.square(x[:, 5])
        + np.tanh(3 * x[:, 6])
        + np.exp(0.7 * x[:, 7])
        + np.maximum(x[:, 8], 0) * 1.5
        + np.sin(x[:, 9])
    )


def _interactions(x: Array) -> Array:
    """Sum products of pairs, none of which has an effect by itself."""
    return (
        x[:, 0] * x[:, 1]
        + np.sin(x[:, 2]) * x[:, 3] * 1.5
        + np.tanh(x[:, 4] * x[:, 5]) * 1.5
        + x[:, 6] * x[:, 7]
        + np.sin(x[:, 8] * x[:, 9]) * 1.5
    )


def _nonstationary(x: Array) -> Array:
    """Sum functions that vary fast in one region and slowly in another, or in one region only."""
    return (
        np.sin(np.exp(1 + 0.5 * x[:, 0]))
        + np.where(x[:, 1] > 0, 1.5 * np.sin(2 * x[:, 2]), 0.5 * x[:, 2])
        + np.exp(-2 * np.square(x[:, 3] - 0.5)) * 2
        + np.tanh(4 * x[:, 4]) * x[:, 5]
        + np.maximum(x[:, 6], 0) * x[:, 7]
        + x[:, 8]
        + np.square(np.maximum(x[:, 9], 0))
    )


FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "additive": _additive,
    "interactions": _interactions,
    "nonstationary": _nonstationary,
}
"""Functions of the first ten inputs."""


@dataclass(frozen=True)
class Case:
    """One synthetic table."""

    function: str
    correlated: bool
    n_rows: int
    seed: int


@dataclass(frozen=True)
class Table:
    """Rows to learn from, further rows to score, and which inputs matter."""

    train_x: Array
    train_y: Array
    test_x: Array
    test_y: Array
    relevant: NDArray[np.bool_]
    shares: Array
    """Shares of the inputs in the total effects of the true function."""


def make_table(case: Case, n_test: int = 500) -> Table:
    """Draw a table; which inputs matter is drawn too."""
    names = sorted(FUNCTIONS)
    random = np.random.default_rng(
        [case.seed, names.index(case.function), case.correlated, case.n_rows]
    )
    n_rows = case.n_rows + n_test
    x = random.normal(size=(n_rows, N_INPUTS))
    if case.correlated:  # each input follows the one before it
        for place in range(1, N_INPUTS):
            own = np.sqrt(1 - CORRELATION**2) * x[:, place]
            x[:, place] = CORRELATION * x[:, place - 1] + own
    order = random.permutation(N_INPUTS)  # neighbours in the chain may matter or not

    def function(rows: Array) -> Array:
        return FUNCTIONS[case.function](rows[:, order[:N_RELEVANT]])

    values = function(x)
    y = values + NOISE * values.std() * random.normal(size=n_rows)
    effects = np.zeros(N_INPUTS)
    for place in range(N_INPUTS):
        changed = x.copy()
        changed[:, place] = x[random.permutation(n_rows), place]
        effects[place] = np.mean(np.square(function(changed) - values))
    relevant = np.isin(np.arange(N_INPUTS), order[:N_RELEVANT])
    n = case.n_rows
    return Table(x[:n], y[:n], x[n:], y[n:], relevant, effects / effects.sum())


SIZES = (500, 1000)
SLOPE_ROWS = 200
"""Number of rows at which slopes and metrics are computed."""
PERMUTED_ROWS = 200
"""Number of test rows among which columns are shuffled."""
N_REPEATS = 2
"""Number of times that each column is shuffled."""

SCORES = ("error", "precision", "irrelevant", "distance")


def relevance(model: SSWIMRegressor, table: Table) -> Array:
    """Return the relevance of inputs."""
    return model.relevance().relevance


def squared_slopes(model: SSWIMRegressor, table: Table) -> Array:
    """Return the mean squared slopes of the posterior mean, in units of the inputs' spreads."""
    points = torch.from_numpy(table.train_x[:SLOPE_ROWS])[:, None].requires_grad_()
    model.posterior(points).mean.sum().backward()
    assert points.grad is not None
    slopes = points.grad[:, 0].numpy() * table.train_x.std(0)
    return np.square(slopes).mean(0)


def mean_metric(model: SSWIMRegressor, table: Table) -> Array:
    """Return the mean diagonal of the local metric, in units of the inputs' spreads."""
    metric = model.local_metric(table.train_x[:SLOPE_ROWS]).metric
    return np.diagonal(metric, axis1=1, axis2=2).mean(0) * table.train_x.var(0)


def permutation(model: SSWIMRegressor, table: Table) -> Array:
    """Return the rise of the RMSE when an input is shuffled among test rows."""
    x, y = table.test_x[:PERMUTED_ROWS], table.test_y[:PERMUTED_ROWS]
    found = model.permutation_importance(x, y, n_repeats=N_REPEATS).columns
    return np.array([each.rmse.mean for each in sorted(found, key=lambda each: int(each.name[1:]))])


WAYS: dict[str, Callable[[SSWIMRegressor, Table], Array]] = {
    "relevance": relevance,
    "squared slopes": squared_slopes,
    "local metric": mean_metric,
    "permutation": permutation,
}


def tree_permutation(predict: Callable[[Array], Array], table: Table) -> Array:
    """Return the rise of LightGBM's RMSE when an input is shuffled among test rows."""
    x, y = table.test_x[:PERMUTED_ROWS], table.test_y[:PERMUTED_ROWS]
    before = rmse(predict(x) - y)
    rises = np.zeros((N_REPEATS, x.shape[1]))
    for repeat, place in np.ndindex(*rises.shape):
        changed = x.copy()
        order = np.random.default_rng([0, place, repeat]).permutation(len(x))
        changed[:, place] = x[order, place]
        rises[repeat, place] = rmse(predict(changed) - y) - before
    return rises.mean(0)


def score(values: Array, table: Table) -> dict[str, float]:
    """Return what the values of inputs are worth; see the top of this script."""
    highest = np.argsort(-values, kind="stable")[:N_RELEVANT]
    shares = np.maximum(values, 0) / np.maximum(values, 0).sum()
    return {
        "error": 1 - float(table.relevant[highest].mean()),
        "precision": float(average_precision_score(table.relevant, values)),
        "irrelevant": float(shares[~table.relevant].sum()),
        "distance": 0.5 * float(np.abs(shares - table.shares).sum()),
    }


def measure(case: Case) -> dict[str, Any]:
    """Return what each way is worth on one table."""
    table = make_table(case)
    model = SSWIMRegressor(random_state=case.seed).fit(table.train_x, table.train_y)
    line: dict[str, Any] = asdict(case)
    trees = LightGBM().fit(table.train_x, table.train_y, case.seed, "cpu")
    spread = table.test_y.std()
    line["rmse"] = rmse(np.asarray(model.predict(table.test_x)) - table.test_y) / spread
    line["tree_rmse"] = rmse(trees.predict(table.test_x).mean - table.test_y) / spread
    line["relevant"] = np.flatnonzero(table.relevant).tolist()
    line["ways"] = {}
    for name, way in WAYS.items():
        started = process_time()
        values = way(model, table)
        seconds = process_time() - started
        line["ways"][name] = _found(values, table, seconds)
    started = process_time()
    values = tree_permutation(lambda x: trees.predict(x).mean, table)
    line["ways"]["permutation, LightGBM"] = _found(values, table, process_time() - started)
    return line


def _found(values: Array, table: Table, seconds: float) -> dict[str, Any]:
    rounded = [float(f"{value:.4g}") for value in values]
    return {"values": rounded, "seconds": seconds, **score(values, table)}


def table_of(found: Sequence[dict[str, Any]]) -> str:
    """Return the means over all tables, and the errors for each function, as a Markdown table."""
    names = list(FUNCTIONS)
    titles = ["way", *(f"error, {name}" for name in names), "error, all", "average precision"]
    titles += ["irrelevant share", "distance", "CPU seconds"]
    lines = []
    for way in found[0]["ways"]:
        cells = []
        for name in names:
            part = [each["ways"][way]["error"] for each in found if each["function"] == name]
            cells.append(f"{np.mean(part):.3f}" if part else "–")
        mean = {
            key: float(np.mean([each["ways"][way][key] for each in found]))
            for key in (*SCORES, "seconds")
        }
        cells += [f"{mean['error']:.3f}", f"{mean['precision']:.3f}", f"{mean['irrelevant']:.1%}"]
        cells += [f"{mean['distance']:.2f}", f"{mean['seconds']:.1f}"]
        lines.append([way, *cells])
    rows = ", ".join(str(size) for size in sorted({each["n_rows"] for each in found}))
    errors = [np.mean([each[key] for each in found]) for key in ("rmse", "tree_rmse")]
    return (
        f"{markdown_table(titles, lines)}\n\n"
        f"{len(found)} tables of {rows} rows. Mean RMSE on test rows over the target's spread: "
        f"sswim {errors[0]:.3f}, LightGBM {errors[1]:.3f}."
    )


def draw(found: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw the shares of inputs that matter, and of those that do not, for each way."""
    ways = list(found[0]["ways"])
    figure, panels = plt.subplots(
        1, len(ways), figsize=(11, 3.2), sharey=True, layout="constrained"
    )
    for ax, way in zip(panels, ways, strict=True):
        axes(ax)
        shares = np.stack([_sorted_shares(each, way) for each in found])
        places = np.arange(1, shares.shape[1] + 1)
        for row in shares:
            ax.plot(places, row, color="#404040", lw=0.4, alpha=0.25)
        mean = shares.mean(0)
        ax.bar(places[:N_RELEVANT], mean[:N_RELEVANT], color=CYCLE[0], lw=0, label="matter")
        ax.bar(places[N_RELEVANT:], mean[N_RELEVANT:], color=CYCLE[1], lw=0, label="do not")
        ax.set(title=way, xlabel="input, by rank in its group", ylim=(0, 0.35))
    panels[0].set_ylabel("share")
    panels[0].legend(frameon=False, fontsize="small")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _sorted_shares(line: dict[str, Any], way: str) -> Array:
    """Return the shares of inputs that matter from high to low, then those of the others."""
    values = np.maximum(np.array(line["ways"][way]["values"]), 0)
    shares = values / values.sum()
    matters = np.isin(np.arange(len(shares)), line["relevant"])
    return np.concatenate([-np.sort(-shares[matters]), -np.sort(-shares[~matters])])


def main() -> None:
    """Measure the tables that the results lack, or show what was found."""
    parser = script_parser(__doc__)
    parser.add_argument("--seeds", type=int, default=2, help="number of tables of each kind")
    add_results(parser, "results/relevance.jsonl", picture=True)
    arguments = parser.parse_args()
    if shows_stored(arguments, table_of, draw):
        return
    keys = ("function", "correlated", "n_rows", "seed")
    done = {tuple(each[key] for key in keys) for each in read_lines(arguments.out)}
    for seed in range(arguments.seeds):
        for n_rows in SIZES:
            for correlated in (False, True):
                for function in FUNCTIONS:
                    if (function, correlated, n_rows, seed) not in done:
                        case = Case(function, correlated, n_rows, seed)
                        append_line(arguments.out, measure(case))


if __name__ == "__main__":
    main()
