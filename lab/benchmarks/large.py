"""Compare sswim, trained from Parquet files, with LightGBM on two large real tables.

    python lab/benchmarks/large.py prism_elevation default "more features" "all rows" lightgbm
    python lab/benchmarks/large.py nycflights13 default "more features" "all rows" lightgbm

Training rows are written to a folder of Parquet files and read from there. A method that is in the
results already is skipped.
"""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from scripting import append_row, read_rows, rmse, script_parser, table_line
from sswim_lab.datasets import Split, Table, load, split
from sswim_lab.peers.trees import LightGBM
from timing import machine

from sswim import Recipe
from sswim.distributed.processes import resolve_device
from sswim.estimator import BaseRegressor, make_estimator
from sswim.estimator.evaluation import evaluate

FILES, COVERAGE = 8, 0.9
METHODS: dict[str, dict[str, Any]] = {
    "default": {},
    "neighbours of the default": {
        "recipe": Recipe(
            kinds=("mean", "neighbours-0-smooth", "neighbours-0-rough", "neighbours-1")
        )
    },
    "more features": {
        "n_components": 4096,
        "n_members": 1,
        "recipe": Recipe(kinds=("features-2",)),
    },
    "all rows": {
        "depth": 2,
        "n_components": 1024,
        "n_pseudo": 256,
        "warps": "joint",
        "noise": "input-dependent",
        "learning_rate": 0.06,
    },
}
"""Settings of sswim: the default; its kinds that predict by neighbours; one member of it with many
features; and one model of a given depth, whose hyper-parameters are learnt from all rows rather
than from a sample."""


def write_training_rows(folder: Path, rows: Split, table: Table) -> None:
    """Write the training rows as a table in several Parquet files."""
    for number, part in enumerate(np.array_split(np.arange(len(rows.train_y)), FILES)):
        columns = {name: rows.train_x[part, n] for n, name in enumerate(table.inputs)}
        columns[table.target] = rows.train_y[part]
        pq.write_table(pa.table(columns), folder / f"part-{number}.parquet")


def fit_sswim(
    settings: dict[str, Any], rows: Split, table: Table, device: str
) -> tuple[BaseRegressor, float]:
    """Return a fitted regressor and the seconds of its fit."""
    with tempfile.TemporaryDirectory() as folder:
        write_training_rows(Path(folder), rows, table)
        began = time.perf_counter()
        regressor = make_estimator(**settings, random_state=0, device=device)
        regressor.fit(folder, table.target, memory="64GiB")
        return regressor, time.perf_counter() - began


def score_sswim(regressor: BaseRegressor, rows: Split) -> dict[str, float]:
    """Return the scores of sswim on the test rows."""
    scores = evaluate(regressor, rows.test_x, rows.test_y, COVERAGE)
    return {"rmse": scores.rmse, "mnlp": scores.mnlp, "coverage_of_90": scores.coverage}


def score_lightgbm(rows: Split) -> tuple[dict[str, float], float]:
    """Return the scores of LightGBM on the test rows and the seconds of its fit."""
    began = time.perf_counter()
    fitted = LightGBM().fit(rows.train_x, rows.train_y, 0, "cpu")
    seconds = time.perf_counter() - began
    found, y = fitted.predict(rows.test_x), rows.test_y
    low, high = found.interval(COVERAGE)
    return {
        "coverage_of_90": float(np.mean((low <= y) & (y <= high))),
        "rmse": rmse(found.mean - y),
        "mnlp": float(-np.mean(found.log_density(y))),
    }, seconds


def markdown(found: list[dict[str, str]]) -> str:
    """Return the results as a Markdown table."""
    lines = [
        "| table | method | RMSE | MNLP | coverage of 90 % intervals | fit, s | on |",
        "| --- | --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for row in found:
        cells = [
            row["data_set"],
            row["method"],
            f"{float(row['rmse']):.4g}",
            f"{float(row['mnlp']):.3f}",
            f"{float(row['coverage_of_90']):.1%}",
            f"{float(row['fit_seconds']):.0f}",
            row["device"],
        ]
        lines.append(table_line(cells))
    return "\n".join(lines)


def main() -> None:
    """Measure the missing methods and append them to the results."""
    parser = script_parser(__doc__)
    parser.add_argument("data_set", help="name of the data set")
    parser.add_argument(
        "methods", nargs="+", choices=[*METHODS, "lightgbm"], help="methods to compare"
    )
    parser.add_argument("--out", type=Path, default=Path("results/large.csv"), help="result file")
    parser.add_argument("--device", default="auto", help="device to fit on")
    parser.add_argument(
        "--predictions", type=Path, help="folder in which to store predictions of all rows"
    )
    arguments = parser.parse_args()
    name = arguments.data_set
    table, rows = load(name), split(name, 0)
    for method in arguments.methods:
        done = read_rows(arguments.out)
        if any((row["data_set"], row["method"]) == (name, method) for row in done):
            continue
        device = torch.device("cpu")
        if method == "lightgbm":
            scores, seconds = score_lightgbm(rows)
        else:
            regressor, seconds = fit_sswim(METHODS[method], rows, table, arguments.device)
            device = resolve_device(arguments.device)
            scores = score_sswim(regressor, rows)
            if arguments.predictions is not None:
                mean, std = regressor.predict(table.x, return_std=True)
                path = arguments.predictions / f"{name}-{method.replace(' ', '-')}.npz"
                np.savez_compressed(path, mean=mean.astype("f4"), std=std.astype("f4"))
        facts = {
            "data_set": name,
            "method": method,
            "settings": json.dumps(
                METHODS.get(method, LightGBM().settings()), sort_keys=True, default=asdict
            ),
            "train_rows": len(rows.train_y),
            "test_rows": len(rows.test_y),
            **{key: round(value, 6) for key, value in scores.items()},
            "fit_seconds": round(seconds, 1),
        }
        append_row(arguments.out, {**facts, **machine(device, ["lightgbm"])})
        print(facts, flush=True)


if __name__ == "__main__":
    main()
