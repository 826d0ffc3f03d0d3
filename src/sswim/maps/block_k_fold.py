"""Cross-validation by blocks of a map: near rows are left out together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Int64
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state

from sswim.base.errors import UserError
from sswim.base.random_state import RandomState
from sswim.base.validation import require_integer
from sswim.maps.blocks import plane_blocks, sphere_blocks
from sswim.maps.coordinates import coordinate_columns


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
        self._check_settings()
        columns = coordinate_columns(X, self.coordinates)
        if self.geographic or columns.is_geographic:
            if self.spacing is None:
                raise UserError(
                    "Blocks of the sphere need their spacing, in degrees. Got a shape; give "
                    "spacing instead."
                )
            numbers = sphere_blocks(columns.values, self.spacing)
        else:
            numbers = plane_blocks(columns.values, self.spacing, self.shape)
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
        fold = _assign_in_turn(sizes, order, self.n_splits)[blocks]
        for number in range(self.n_splits):
            yield np.flatnonzero(fold == number)

    def _check_settings(self) -> None:
        """Validate the settings."""
        require_integer("n_splits", self.n_splits, 2)
        if (self.spacing is None) == (self.shape is None):
            raise UserError(
                "Blocks need either a spacing or a shape. "
                f"Got spacing={self.spacing!r} and shape={self.shape!r}."
            )
        if self.spacing is not None and not (np.isfinite(self.spacing) and self.spacing > 0):
            raise UserError(f"spacing must be a positive number. Got {self.spacing!r}.")
        if self.shape is not None:
            for name, number in zip(("shape[0]", "shape[1]"), self.shape, strict=True):
                require_integer(name, number, 1)


def _assign_in_turn(
    sizes: Int64[np.ndarray, " blocks"], order: Int64[np.ndarray, " blocks"], n_folds: int
) -> Int64[np.ndarray, " blocks"]:
    """Assign blocks, in an order, each to the fold with fewest rows; return the fold of each."""
    folds, loads = np.empty(len(sizes), dtype=np.int64), np.zeros(n_folds, dtype=np.int64)
    for block in order:
        folds[block] = np.argmin(loads)
        loads[folds[block]] += sizes[block]
    return folds
