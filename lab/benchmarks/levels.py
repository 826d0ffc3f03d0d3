"""Compare indicators of levels with the mean targets of levels, by the number of levels.

    python lab/benchmarks/levels.py --workers 2
    python lab/benchmarks/levels.py --table

The two columns of a data set that tell most about the target are cut into quantiles, and each
quantile becomes a text without an order. The default then sees them as one indicator per level, as
the mean target of the level, or as both. One line is written for every data set, number of levels
and encoding; ``--table`` averages over the data sets.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from arguments import script_parser
from json_lines import append_line, read_lines
from markdown_tables import table_line
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sswim_lab.datasets import split

from sswim import SSWIMRegressor
from sswim.tables import levels

RESULTS = Path("results/levels.jsonl")
SETS = ("concrete", "airfoil", "abalone", "winered", "powerplant", "kin8nm", "creep", "elevators")
LEVELS = (4, 8, 16, 32, 64)
ENCODINGS = ("indicators", "means", "both")
N_TRAIN, N_TEST = 1000, 500

Array = NDArray[np.float64]


def with_levels(x: Array, y: Array, n_train: int, n_levels: int, seed: int) -> pa.Table:
    """Return a table whose two most telling columns are texts of so many levels."""
    random = np.random.default_rng(seed)
    telling = [
        abs(float(spearmanr(column[:n_train], y[:n_train]).statistic)) if np.ptp(column) else 0.0
        for column in x.T
    ]
    chosen = np.argsort(telling)[-2:]
    columns: dict[str, Any] = {}
    for number, column in enumerate(x.T):
        columns[f"x{number}"] = column
        if number in chosen:
            edges = np.unique(np.quantile(column[:n_train], np.linspace(0, 1, n_levels + 1)[1:-1]))
            names = random.permutation(len(edges) + 1)
            columns[f"x{number}"] = [f"level {names[each]}" for each in np.digitize(column, edges)]
    return pa.table(columns)


def measure(name: str, n_levels: int, encoding: str, seed: int) -> dict[str, Any]:
    """Return the scores of the default on one table."""
    torch.set_num_threads(1)
    data = split(name, seed)
    x = np.concatenate((data.train_x[:N_TRAIN], data.test_x[:N_TEST]))
    y = np.concatenate((data.train_y[:N_TRAIN], data.test_y[:N_TEST]))
    n_train = min(N_TRAIN, len(data.train_y))
    table = with_levels(x, y, n_train, n_levels, seed)
    levels.MAX_INDICATORS = 0 if encoding == "means" else 10**9
    levels.MEAN_ROWS = 10**9 if encoding == "indicators" else 0
    levels.RARE_SHARE = levels.RARE_ROWS = 0
    train, test = table.slice(0, n_train), table.slice(n_train)
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SSWIMRegressor(random_state=seed, device="cpu").fit(train, y[:n_train])
        seconds = time.perf_counter() - begin
        mixture = model.predict_distribution(test)
    targets = torch.tensor(y[n_train:, None])
    spread = y[:n_train].std()
    return {
        "set": name,
        "levels": n_levels,
        "encoding": encoding,
        "seed": seed,
        "rmse": float((mixture.mean - targets).square().mean().sqrt() / spread),
        "mnlp": float(-mixture.log_density(targets).mean() - np.log(spread)),
        "seconds": round(seconds, 2),
        "n_inputs": len(model.input_names_),
    }


def markdown(results: Iterable[dict[str, Any]]) -> str:
    """Return how encodings compare with indicators over all data sets, as a table in Markdown."""
    lines = {(e["set"], e["levels"], e["seed"], e["encoding"]): e for e in results}
    found = [
        table_line(["levels", "encoding", "tables", "RMSE ratio", "MNLP difference", "inputs"]),
        table_line(["---"] * 6),
    ]
    for n_levels, encoding in product(LEVELS, ENCODINGS[1:]):
        pairs = [
            (line, lines[(*key[:3], "indicators")])
            for key, line in lines.items()
            if key[1] == n_levels and key[3] == encoding and (*key[:3], "indicators") in lines
        ]
        if pairs:
            ratios = [np.log(ours["rmse"] / theirs["rmse"]) for ours, theirs in pairs]
            gains = [ours["mnlp"] - theirs["mnlp"] for ours, theirs in pairs]
            inputs = [ours["n_inputs"] / theirs["n_inputs"] for ours, theirs in pairs]
            figures = [f"{np.exp(np.mean(ratios)):.3f}", f"{np.mean(gains):+.3f}"]
            row = [n_levels, encoding, len(pairs), *figures, f"× {np.mean(inputs):.2f}"]
            found.append(table_line([str(each) for each in row]))
    return "\n".join(found)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is not in the results yet, or print these."""
    parser = script_parser(__doc__)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--levels", nargs="+", type=int, default=LEVELS)
    parser.add_argument("--encodings", nargs="+", default=ENCODINGS, choices=ENCODINGS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="print the results")
    given = parser.parse_args(arguments)
    if given.table:
        print(markdown(read_lines(given.out)))
        return
    done = {(e["set"], e["levels"], e["encoding"], e["seed"]) for e in read_lines(given.out)}
    jobs = list(product(given.sets, given.levels, given.encodings, given.seeds))
    with ProcessPoolExecutor(given.workers, get_context("spawn")) as pool:
        for found in as_completed(pool.submit(measure, *job) for job in jobs if job not in done):
            append_line(given.out, found.result())
            print(found.result(), flush=True)


if __name__ == "__main__":
    main()
