"""Fit tables with text and dates as they are, beside boosted trees with native categories.

    python lab/benchmarks/real_tables.py
    python lab/benchmarks/real_tables.py --tables nycflights13 --methods sswim --device cuda
    python lab/benchmarks/real_tables.py --table

Every method gets the same data frame: text columns, dates as text, and numbers. LightGBM and
CatBoost get text as their own categories and dates as seconds, month, weekday and hour. Two thirds
of the rows train, the others test. One line is written for every table and method.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scripting import (
    add_device,
    add_results,
    append_line,
    read_lines,
    rmse,
    script_parser,
    shows_stored,
    table_line,
)
from sswim_lab.datasets import find
from timing import machine

from sswim import SSWIMRegressor
from sswim.tables import TableNote

MAX_TREES, PATIENCE = 2000, 50

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RealTable:
    """A table as people have it."""

    target: str
    drop: tuple[str, ...]
    """Columns that leak the target, or say what another column says."""


TABLES = {
    "abalone": RealTable("Rings", ()),
    "bikeshare": RealTable("cnt", ("instant", "casual", "registered")),
    "nycflights13": RealTable(
        "arr_delay",
        (
            *("dep_time", "dep_delay", "arr_time", "air_time"),
            *("year", "month", "day", "hour", "minute"),
        ),
    ),
}


@dataclass(frozen=True)
class Predictions:
    """Means and log densities of the test rows, and what the fit was."""

    mean: Array
    log_density: Array
    n_inputs: int
    fit_seconds: float


def read_split(name: str, seed: int) -> tuple[pd.DataFrame, Array, pd.DataFrame, Array]:
    """Return frames and targets of training and test rows."""
    table = TABLES[name]
    frame = pd.read_parquet(find(name)).drop(columns=list(table.drop))
    order = np.random.default_rng(seed).permutation(len(frame))
    n_train = 2 * len(frame) // 3
    parts = (frame.iloc[order[:n_train]], frame.iloc[order[n_train:]])
    (x, y), (x_test, y_test) = (
        (part.drop(columns=table.target), part[table.target].to_numpy(np.float64)) for part in parts
    )
    return x, y, x_test, y_test


def fit_sswim(
    x: pd.DataFrame, y: Array, x_test: pd.DataFrame, y_test: Array, seed: int, device: str
) -> Predictions:
    """Fit the default to the frame as it is."""
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableNote)
        model = SSWIMRegressor(random_state=seed, device=device).fit(x, y)
    seconds = time.perf_counter() - begin
    found = [model.predict_distribution(part) for part in _parts(x_test)]
    mean = np.concatenate([each.mean.cpu().numpy()[:, 0] for each in found])
    ends = np.cumsum([0, *(len(each.mean) for each in found)])
    log_density = [
        each.log_density(torch.tensor(y_test[a:b, None]).to(each.mean.device)).cpu().numpy()[:, 0]
        for each, a, b in zip(found, ends[:-1], ends[1:], strict=True)
    ]
    return Predictions(mean, np.concatenate(log_density), len(model.input_names_), seconds)


def fit_lightgbm(
    x: pd.DataFrame, y: Array, x_test: pd.DataFrame, y_test: Array, seed: int, device: str
) -> Predictions:
    """Fit LightGBM with native categories; the density is Gaussian of the held-out variance."""
    import lightgbm  # noqa: PLC0415 (an optional dependency)

    x, x_test = _as_categories(_with_dates(x), _with_dates(x_test))
    begin = time.perf_counter()
    kept, held = _hold_out(len(y), seed)
    train = lightgbm.Dataset(x.iloc[kept], y[kept])
    model = lightgbm.train(
        {"objective": "regression", "seed": seed, "verbosity": -1},
        train,
        num_boost_round=MAX_TREES,
        valid_sets=[lightgbm.Dataset(x.iloc[held], y[held], reference=train)],
        callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
    )
    variance = float(np.mean(np.square(y[held] - np.asarray(model.predict(x.iloc[held])))))
    seconds = time.perf_counter() - begin
    mean = np.asarray(model.predict(x_test))
    return Predictions(mean, _gaussian(y_test, mean, variance), x.shape[1], seconds)


def fit_catboost(
    x: pd.DataFrame, y: Array, x_test: pd.DataFrame, y_test: Array, seed: int, device: str
) -> Predictions:
    """Fit CatBoost with native categories; the density is Gaussian of the held-out variance."""
    import catboost  # noqa: PLC0415 (an optional dependency)

    x, x_test = _with_dates(x), _with_dates(x_test)
    texts = [name for name in x if not pd.api.types.is_numeric_dtype(x[name])]
    x, x_test = (each.assign(**{n: each[n].astype(str) for n in texts}) for each in (x, x_test))
    begin = time.perf_counter()
    kept, held = _hold_out(len(y), seed)
    model = catboost.CatBoostRegressor(
        iterations=MAX_TREES,
        early_stopping_rounds=PATIENCE,
        cat_features=texts,
        random_seed=seed,
        allow_writing_files=False,
        verbose=False,
    )
    model.fit(x.iloc[kept], y[kept], eval_set=(x.iloc[held], y[held]))
    variance = float(np.mean(np.square(y[held] - model.predict(x.iloc[held]))))
    seconds = time.perf_counter() - begin
    mean = np.asarray(model.predict(x_test))
    return Predictions(mean, _gaussian(y_test, mean, variance), x.shape[1], seconds)


METHODS: dict[str, Callable[..., Predictions]] = {
    "sswim": fit_sswim,
    "lightgbm": fit_lightgbm,
    "catboost": fit_catboost,
}


def measure(name: str, method: str, seed: int, device: str) -> dict[str, Any]:
    """Return the scores of one method on one table."""
    x, y, x_test, y_test = read_split(name, seed)
    begin = time.perf_counter()
    found = METHODS[method](x, y, x_test, y_test, seed, device)
    return {
        "table": name,
        "method": method,
        "seed": seed,
        "rmse": rmse(found.mean - y_test),
        "mnlp": float(-found.log_density.mean()),
        "fit_seconds": round(found.fit_seconds, 2),
        "seconds": round(time.perf_counter() - begin, 2),
        "n_columns": x.shape[1],
        "n_inputs": found.n_inputs,
        "n_train": len(y),
        "n_test": len(y_test),
        "device": device,
        "machine": machine(torch.device("cuda" if device == "cuda" else "cpu")),
    }


def _parts(frame: pd.DataFrame) -> list[pd.DataFrame]:
    return [frame.iloc[first : first + 20_000] for first in range(0, len(frame), 20_000)]


def _gaussian(y: Array, mean: Array, variance: float) -> Array:
    return -0.5 * (np.log(2 * np.pi * variance) + np.square(y - mean) / variance)


def _hold_out(n_rows: int, seed: int) -> tuple[Any, Any]:
    order = np.random.default_rng(seed).permutation(n_rows)
    return order[n_rows // 10 :], order[: n_rows // 10]


def _with_dates(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose texts of dates are seconds, month, weekday and hour."""
    frame = frame.copy()
    for name in ("dteday", "time_hour"):
        if name in frame:
            times = pd.to_datetime(frame.pop(name))
            frame[f"{name} seconds"] = (
                times.dt.tz_localize(None) - pd.Timestamp("1970-01-01")
            ).dt.total_seconds()
            frame[f"{name} month"] = times.dt.month
            frame[f"{name} weekday"] = times.dt.day_of_week
            frame[f"{name} hour"] = times.dt.hour
    return frame


def _as_categories(x: pd.DataFrame, x_test: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return frames whose text columns are categories, those of the training rows."""
    for name in x:
        if not pd.api.types.is_numeric_dtype(x[name]):
            levels = pd.CategoricalDtype(sorted(x[name].unique()))
            x = x.assign(**{name: x[name].astype(levels)})
            known = x_test[name].where(x_test[name].isin(levels.categories))
            x_test = x_test.assign(**{name: known.astype(levels)})
    return x, x_test


def markdown(lines: Iterable[dict[str, Any]]) -> str:
    """Return the results as a table in Markdown."""
    found = [
        table_line(["table", "method", "columns → inputs", "RMSE", "MNLP", "fit (s)", "on"]),
        table_line(["---"] * 7),
    ]
    for line in sorted(lines, key=lambda each: (each["table"], each["method"])):
        inputs = f"{line['n_columns']} → {line['n_inputs']}"
        scores = [f"{line[key]:.4g}" for key in ("rmse", "mnlp", "fit_seconds")]
        found.append(table_line([line["table"], line["method"], inputs, *scores, line["device"]]))
    return "\n".join(found)


def main() -> None:
    """Measure what is not in the results yet, or print these."""
    parser = script_parser(__doc__)
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=TABLES)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--seed", type=int, default=0)
    add_results(parser, "results/real-tables.jsonl")
    add_device(parser)
    given = parser.parse_args()
    if shows_stored(given, markdown):
        return
    done = {(line["table"], line["method"], line["seed"]) for line in read_lines(given.out)}
    for name in given.tables:
        for method in given.methods:
            if (name, method, given.seed) not in done:
                device = given.device if method == "sswim" else "cpu"
                line = measure(name, method, given.seed, device)
                append_line(given.out, line)
                print(line, flush=True)


if __name__ == "__main__":
    main()
