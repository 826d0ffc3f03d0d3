"""Blocks of a map: cross-validation that leaves near rows out together, and errors of blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float64, Int64
from sklearn.base import clone
from sklearn.model_selection import BaseCrossValidator, KFold
from sklearn.utils import _safe_indexing, check_random_state

from sswim.base.validation import RandomState, UserError, require_integer
from sswim.estimator.base import BaseRegressor
from sswim.estimator.evaluation import Scores, sum_scores
from sswim.estimator.progress import in_words
from sswim.maps.grid_columns import Name, require_cells, sphere_coordinates
from sswim.tables import (
    AS_FOUND,
    KEEP_ALL,
    CsvOptions,
    LeftOut,
    Schema,
    open_table,
    read_rows,
    split_geometry,
)


class BlockKFold(BaseCrossValidator):  # type: ignore[misc]
    """Cross-validation folds of whole blocks of a map.

    Neighbouring rows of a map are alike, so that random folds leave out rows whose neighbours stay
    in the training rows, and their errors are too small. Here the map is cut into blocks, and each
    fold leaves out whole blocks. It works wherever scikit-learn takes ``cv``. Folds have about
    equal numbers of rows: blocks go, one after the other, to the fold with fewest rows.

    Args:
        spacing: Side of a block, in units of the coordinates. It is adjusted so that a whole number
            of blocks covers the range of the rows, or the sphere.
        shape: Numbers of blocks from south to north and from west to east, instead of ``spacing``;
            not on the sphere.
        n_splits: Number of folds.
        shuffle: Whether blocks come in random order; else from south-west to north-east.
        random_state: An integer for reproducible folds.
        coordinates: The two columns of X, east and north: their names or their numbers. By default
            the points of a GeoDataFrame, or the first two columns.
        geographic: Whether the coordinates are longitude and latitude in degrees. Blocks then lie
            on the sphere and have about equal areas, and longitudes that differ by 360° are the
            same. A GeoDataFrame in degrees is geographic whatever this says.
    """

    def __init__(
        self,
        spacing: int | float | None = None,
        shape: tuple[int, int] | None = None,
        *,
        n_splits: int = 5,
        shuffle: bool = True,
        random_state: RandomState = None,
        coordinates: tuple[int, int] | tuple[str, str] | None = None,
        geographic: bool = False,
    ) -> None:
        self.spacing = spacing
        self.shape = shape
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state
        self.coordinates = coordinates
        self.geographic = geographic

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds."""
        return self.n_splits

    def blocks(self, X: Any) -> Int64[np.ndarray, " N"]:
        """Return the number of the block that each row is in, counted from 0 without gaps."""
        require_integer("n_splits", self.n_splits, 2)
        require_cells("Blocks", self.spacing, self.shape, least=1)
        points, is_geographic = _coordinates(X, self.coordinates)
        if self.geographic or is_geographic:
            if self.spacing is None:
                raise UserError(
                    "Blocks of the sphere need their spacing, in degrees. Got a shape; give "
                    "spacing instead."
                )
            numbers = _sphere_blocks(points, self.spacing)
        else:
            # The rectangle around the points is cut into equal blocks.
            low, extent = points.min(0), np.ptp(points, axis=0)
            counts = np.array((self.shape or (1, 1))[::-1], dtype=np.float64)
            if self.spacing is not None:
                counts = np.maximum(np.round(extent / self.spacing), 1)
            size = np.where(extent > 0, extent, 1.0) / counts
            column, row = np.minimum(np.floor((points - low) / size), counts - 1).T
            numbers = (row * counts[0] + column).astype(np.int64)
        _, blocks = np.unique(numbers, return_inverse=True)
        return blocks.astype(np.int64)

    def _iter_test_indices(
        self, X: Any = None, y: Any = None, groups: Any = None
    ) -> Iterator[Int64[np.ndarray, " n"]]:
        """Yield the rows that each fold leaves out."""
        blocks = self.blocks(X)
        sizes = np.bincount(blocks)
        if len(sizes) < self.n_splits:
            raise UserError(
                f"There must be at least as many blocks with rows as folds. Got {len(sizes)} "
                f"blocks for {self.n_splits} folds; choose smaller blocks or fewer folds."
            )
        order = np.arange(len(sizes))
        if self.shuffle:
            order = check_random_state(self.random_state).permutation(order)
        folds, loads = np.empty(len(sizes), dtype=np.int64), np.zeros(self.n_splits, dtype=np.int64)
        for block in order:
            folds[block] = np.argmin(loads)
            loads[folds[block]] += sizes[block]
        for fold in range(self.n_splits):
            yield np.flatnonzero(folds[blocks] == fold)


def _sphere_blocks(
    points: Float64[np.ndarray, "N 2"], spacing: int | float
) -> Int64[np.ndarray, " N"]:
    """Return the number of each point's block of the sphere.

    Bands of latitude are cut into blocks that are as wide, in kilometres, as they are high: near
    the poles there are fewer of them, each of more degrees of longitude. The cuts begin at the
    meridian of Greenwich, and no block is narrower than the others at the date line.

    Args:
        points: Longitudes and latitudes in degrees; longitudes may have any number of turns.
        spacing: Height of a band in degrees, adjusted so that a whole number fits.
    """
    low, high = float(points[:, 1].min()), float(points[:, 1].max())
    if low < -90 or high > 90:
        raise UserError(
            f"Latitudes must lie between −90° and 90°. Got {low:g} to {high:g}; are longitude and "
            "latitude in this order?"
        )
    n_bands = max(round(180 / spacing), 1)
    height = 180 / n_bands
    band = np.minimum(np.floor((points[:, 1] + 90) / height), n_bands - 1).astype(np.int64)
    middles = np.deg2rad(-90 + height * (np.arange(n_bands) + 0.5))
    counts = np.maximum(np.round(360 * np.cos(middles) / height), 1).astype(np.int64)
    first = np.cumsum(counts) - counts
    # The remainder of −1e-15 is 360, hence the minimum.
    part = np.floor(np.mod(points[:, 0], 360.0) / 360.0 * counts[band])
    return first[band] + np.minimum(part, counts[band] - 1).astype(np.int64)


def _coordinates(
    X: Any, coordinates: tuple[int, int] | tuple[str, str] | None
) -> tuple[Float64[np.ndarray, "N 2"], bool]:
    """Return east and north of rows, and whether these are known to be degrees on the sphere.

    Args:
        X: An array, a pandas, polars or Arrow frame, or a GeoDataFrame.
        coordinates: Names or numbers of the two columns. By default the points of a GeoDataFrame,
            or the first two columns.
    """
    if coordinates is not None and len(set(coordinates)) != 2:
        raise UserError(f"coordinates must be two different columns. Got {coordinates!r}.")
    geo, is_geographic = split_geometry(X), False
    if geo is not None:
        X, coordinates = geo.frame, coordinates or geo.coordinates
        is_geographic = geo.is_geographic and coordinates == geo.coordinates
    chosen: Sequence[int | str] = coordinates or (0, 1)
    names = getattr(X, "column_names", getattr(X, "columns", None))
    if names is None:
        X = np.asarray(X)
        if X.ndim != 2:
            raise UserError(f"X must have two dimensions. Got X.shape={X.shape}.")
    n_columns = X.shape[1] if names is None else len(names)
    columns = []
    for column in chosen:
        if isinstance(column, str):
            if names is None:
                raise UserError(
                    f"An array has no column names. Got coordinates with {column!r}; give their "
                    "numbers, or a data frame."
                )
            if column not in list(names):
                raise UserError(
                    f"The frame must have a column {column!r}, as coordinates say. It has "
                    f"{', '.join(map(repr, names))}."
                )
        elif not 0 <= column < n_columns:
            raise UserError(
                f"coordinates must be two of the {n_columns} columns, counted from 0. Got {column}."
            )
        key = column if names is None or isinstance(column, str) else names[column]
        try:
            columns.append(np.asarray(X[:, key] if names is None else X[key], dtype=np.float64))
        except (TypeError, ValueError) as error:
            raise UserError(
                f"Coordinates must be numbers. Got column {key!r}, whose values are not."
            ) from error
    values = np.stack(columns, axis=-1)
    if n_bad := int((~np.isfinite(values).all(1)).sum()):
        raise UserError(
            f"Coordinates must be finite numbers. Got {n_bad} rows with missing or infinite ones; "
            "remove these rows first."
        )
    return values, is_geographic


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
    regressor: BaseRegressor,
    X: Any,
    y: Any,
    spacing: int | float,
    *,
    n_folds: int = 5,
    coordinates: Sequence[Name] | None = None,
    level: float = 0.9,
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
        level: Probability of the intervals.
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
    scores = {}
    for name, folds in (("blocks", by_blocks), ("random", at_random)):
        sums = []
        for number, (train, test) in enumerate(folds.split(X), start=1):
            began = perf_counter()
            fitted = clone(regressor).set_params(verbose=False, callback=None)
            fitted.fit(_safe_indexing(X, train), _safe_indexing(y, train))
            part = sum_scores(fitted, _safe_indexing(X, test), _safe_indexing(y, test), level)
            sums.append(part)
            if say is not None:
                seconds = in_words(perf_counter() - began)
                rmse = part.scores().rmse
                say(f"{name}, fold {number} of {n_folds}: RMSE {rmse:.4g}, {seconds}")
        scores[name] = reduce(add, sums).scores()
    return BlockEvaluation(**scores, n_blocks=len(np.unique(by_blocks.blocks(X))))


def evaluate_table_blocks(
    regressor: BaseRegressor,
    schema: Schema,
    path: str | Path,
    spacing: int | float,
    *,
    n_folds: int = 5,
    coordinates: Sequence[Name] | None = None,
    level: float = 0.9,
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
        level: Probability of the intervals.
        left_out: Which rows are left out.
        csv: How CSV files are read.
        say: Prints a line after each fit.
    """
    table = open_table(path, csv=csv.for_model(schema.text_names))
    parts = list(read_rows(table, schema.used, schema.require_target(), left_out))
    scores = evaluate_blocks(
        regressor,
        pa.concat_tables([part.table for part in parts]),
        np.concatenate([part.targets[:, 0] for part in parts]),
        spacing,
        n_folds=n_folds,
        coordinates=coordinates,
        level=level,
        say=say,
    )
    n_left_out = sum(part.n_left_out for part in parts)
    return replace(
        scores,
        blocks=replace(scores.blocks, n_left_out=n_left_out),
        random=replace(scores.random, n_left_out=n_left_out),
    )
