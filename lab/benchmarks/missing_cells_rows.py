"""Shared by the scripts: rows of which cells are missing, and ways to fill them in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sswim_lab.datasets import Split, split

from sswim.rows.imputer import learn_imputer

SETS = (
    "concrete",
    "airfoil",
    "abalone",
    "winered",
    "powerplant",
    "kin8nm",
    "parkinsons",
    "creep",
    "elevators",
    "protein",
)
WIDE = ("pumadyn32nm", "ailerons", "supercond")
"""Data sets of 32, 40 and 81 inputs, to see whether many indicators harm."""
N_TRAIN, N_TEST = 700, 500
MECHANISMS = ("random", "target", "rare at fit", "predict only")
RARE = 0.05
"""Rate of the training rows over that of the test rows where cells are rarely missing at fit."""
SIGNIFICANT = 3.0
"""Correlation of an indicator with the rank of the target, in standard errors, to select it."""

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


Cell = tuple[str, float, str]
"""Data set, rate, mechanism."""


@dataclass(frozen=True)
class Way:
    """A way to give missing cells to the estimator."""

    fill: Literal["mean", "gaussian", "none"]
    """Method that fills the cells in; with "none" the estimator gets NaN."""
    indicators: Literal["none", "all", "selected"] = "none"
    std_at_fit: bool = False
    std_at_predict: bool = False


@dataclass(frozen=True)
class Rows:
    """Training and test rows of which cells are missing, and the test rows with all cells."""

    train_x: Array
    train_y: Array
    test_x: Array
    test_y: Array
    complete_x: Array


@dataclass(frozen=True)
class Inputs:
    """Inputs as the estimator gets them, and their standard deviations."""

    train: Array
    train_std: Array
    test: Array
    test_std: Array
    complete: Array
    n_indicators: int


def make_rows(cell: Cell) -> Rows:
    """Return the rows of a data set without some of their cells."""
    name, rate, mechanism = cell
    found: Split = split(name, 0)
    train, test = slice(N_TRAIN), slice(N_TEST)
    x, y = found.train_x[train], found.train_y[train]
    new_x, new_y = found.test_x[test], found.test_y[test]
    random = np.random.default_rng([(*SETS, *WIDE).index(name), round(1000 * rate)])
    share = {"rare at fit": RARE, "predict only": 0.0}.get(mechanism, 1.0)
    gone = removed(x, y, share * rate, mechanism, random)
    new_gone = removed(new_x, new_y, rate, mechanism, random)
    return Rows(np.where(gone, np.nan, x), y, np.where(new_gone, np.nan, new_x), new_y, new_x)


def removed(x: Array, y: Array, rate: float, mechanism: str, random: np.random.Generator) -> Mask:
    """Return which cells to remove; at least one of every column is left."""
    chance = 2 * rate * rank(y) if mechanism == "target" else np.full(len(y), rate)
    gone = random.random(x.shape) < chance[:, None]
    gone[random.integers(len(y)), gone.all(0)] = False
    return gone


def rank(values: Array) -> Array:
    """Return the ranks of values, from 0 to 1; equal values in the order of the rows."""
    return values.argsort(kind="stable").argsort(kind="stable") / (len(values) - 1)


def prepare(way: Way, rows: Rows) -> Inputs:
    """Fill the missing cells and append indicators of them."""
    if way.fill == "none":
        x, new = rows.train_x, rows.test_x
        return Inputs(x, np.zeros_like(x), new, np.zeros_like(new), rows.complete_x, 0)
    gone, new_gone = np.isnan(rows.train_x), np.isnan(rows.test_x)
    if way.fill == "gaussian":
        imputer = learn_imputer(rows.train_x)
        train, variance = imputer.fill(rows.train_x)
        test, new_variance = imputer.fill(rows.test_x)
    else:
        mean = np.nanmean(rows.train_x, 0)
        train, test = np.where(gone, mean, rows.train_x), np.where(new_gone, mean, rows.test_x)
        variance, new_variance = np.zeros(train.shape), np.zeros(test.shape)
    chosen = indicators(way, rows)

    def append(values: Array, more: Mask) -> Array:
        return np.column_stack((values, more[:, chosen].astype(np.float64)))

    return Inputs(
        train=append(train, gone),
        train_std=append(np.sqrt(variance), np.zeros_like(gone)),
        test=append(test, new_gone),
        test_std=append(np.sqrt(new_variance), np.zeros_like(new_gone)),
        complete=append(rows.complete_x, np.zeros_like(new_gone)),
        n_indicators=int(chosen.sum()),
    )


def indicators(way: Way, rows: Rows) -> Mask:
    """Return which columns have an indicator."""
    gone = np.isnan(rows.train_x)
    chosen: Mask = gone.any(0) & np.full(gone.shape[1], way.indicators != "none")
    if way.indicators == "selected":
        chosen &= tells_about(gone, rows.train_y)
    return chosen


def tells_about(gone: Mask, y: Array) -> Mask:
    """Return which indicators correlate significantly with the rank of the target."""
    indicator = gone - gone.mean(0)
    ranks = rank(y) - 0.5
    spread = np.sqrt(np.square(indicator).sum(0) * np.square(ranks).sum())
    correlation = np.abs(ranks @ indicator) / np.where(spread > 0, spread, np.inf)
    return correlation * np.sqrt(len(y)) > SIGNIFICANT
