"""Errors of a map: scores of blocks that were left out, beside those of random rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.base import clone
from sklearn.model_selection import BaseCrossValidator, KFold
from sklearn.utils import _safe_indexing

from sswim.base.errors import UserError
from sswim.estimator.evaluation import Scores, sum_scores
from sswim.estimator.progress import in_words
from sswim.estimator.regressor import SSWIMRegressor
from sswim.maps.block_k_fold import BlockKFold
from sswim.maps.grid_columns import Name, sphere_coordinates
from sswim.tables.csv_options import AS_FOUND, CsvOptions
from sswim.tables.open_table import open_table
from sswim.tables.schema import Schema
from sswim.tables.table_rows import KEEP_ALL, LeftOut, read_rows


@dataclass(frozen=True)
class BlockEvaluation:
    """Scores of the same settings, fitted again without each fold of rows."""

    blocks: Scores
    """Scores of rows that were left out in whole blocks of the map."""
    random: Scores
    """Scores of rows that were left out at random, whose neighbours stayed."""
    n_blocks: int
    """Number of blocks that have rows."""


def evaluate_blocks(
    regressor: SSWIMRegressor,
    X: Any,
    y: Any,
    spacing: int | float,
    *,
    n_folds: int = 5,
    coordinates: Sequence[Name] | None = None,
    coverage: float = 0.9,
    random_state: int = 0,
    say: Callable[[str], object] | None = None,
) -> BlockEvaluation:
    """Fit a model's settings again on folds of blocks and on random folds, and score both.

    Args:
        regressor: A fitted estimator, whose settings are used.
        X: Inputs, (N, D): an array or a frame.
        y: Targets, (N,).
        spacing: Side of a block; in degrees for a model on the sphere.
        n_folds: Number of folds of each sort.
        coordinates: The two columns of the map. By default those that the model has on the sphere.
        coverage: Nominal coverage of the intervals.
        random_state: Seed of the folds.
        say: Prints a line after each fit.
    """
    on_sphere = sphere_coordinates(regressor)
    chosen = on_sphere if coordinates is None else tuple(coordinates)
    if chosen is None:
        raise UserError(
            "Blocks need the two columns of the map. Got a model without coordinates; give "
            "coordinates, or --coordinates."
        )
    by_blocks = BlockKFold(
        spacing,
        n_splits=n_folds,
        random_state=random_state,
        coordinates=chosen,  # type: ignore[arg-type]
        geographic=chosen == on_sphere,
    )
    at_random = KFold(n_folds, shuffle=True, random_state=random_state)
    n_blocks = len(np.unique(by_blocks.blocks(X)))
    return BlockEvaluation(
        _cross_validate(regressor, X, y, by_blocks, coverage, "blocks", say),
        _cross_validate(regressor, X, y, at_random, coverage, "random", say),
        n_blocks,
    )


def evaluate_table_blocks(
    regressor: SSWIMRegressor,
    schema: Schema,
    path: str | Path,
    spacing: int | float,
    *,
    n_folds: int = 5,
    coordinates: Sequence[Name] | None = None,
    coverage: float = 0.9,
    left_out: LeftOut = KEEP_ALL,
    csv: CsvOptions = AS_FOUND,
    say: Callable[[str], object] | None = None,
) -> BlockEvaluation:
    """Do what ``evaluate_blocks`` does for a table, which must fit in memory.

    Args:
        regressor: A fitted estimator with one target, whose settings are used.
        schema: The columns that it uses; what they become is learnt again without each fold.
        path: A file, or a folder of Parquet or CSV files.
        spacing: Side of a block.
        n_folds: Number of folds of each sort.
        coordinates: The two columns of the map.
        coverage: Nominal coverage of the intervals.
        left_out: Which rows are left out.
        csv: How CSV files are read.
        say: Prints a line after each fit.
    """
    table = open_table(path, csv=csv.for_model(schema.text_names))
    parts = list(read_rows(table, schema.used, schema.require_target(), left_out))
    found = evaluate_blocks(
        regressor,
        pa.concat_tables([part.table for part in parts]),
        np.concatenate([part.targets[:, 0] for part in parts]),
        spacing,
        n_folds=n_folds,
        coordinates=coordinates,
        coverage=coverage,
        say=say,
    )
    n_left_out = sum(part.n_left_out for part in parts)
    return replace(
        found,
        blocks=replace(found.blocks, n_left_out=n_left_out),
        random=replace(found.random, n_left_out=n_left_out),
    )


def _cross_validate(
    regressor: SSWIMRegressor,
    X: Any,
    y: Any,
    folds: BaseCrossValidator,
    coverage: float,
    name: str,
    say: Callable[[str], object] | None,
) -> Scores:
    """Return the scores of all rows, each predicted by a fit without its fold."""
    sums = []
    for number, (train, test) in enumerate(folds.split(X), start=1):
        began = perf_counter()
        fitted = clone(regressor).set_params(verbose=False, callback=None)
        fitted.fit(_safe_indexing(X, train), _safe_indexing(y, train))
        part = sum_scores(fitted, _safe_indexing(X, test), _safe_indexing(y, test), coverage)
        sums.append(part)
        if say is not None:
            seconds = in_words(perf_counter() - began)
            say(
                f"{name}, fold {number} of {folds.get_n_splits()}: RMSE "
                f"{part.scores().rmse:.4g}, {seconds}"
            )
    return reduce(add, sums).scores()
