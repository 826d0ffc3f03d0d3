"""A schema together with what is needed to encode the rows that it was learnt from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from jaxtyping import Float64, Int64

from sswim.rows.encoded import impute
from sswim.rows.gaussian_imputer import GaussianImputer
from sswim.tables.levels import fold_numbers
from sswim.tables.schema import Schema
from sswim.tables.target_encoding import FoldMeans


@dataclass(frozen=True)
class LearntSchema:
    """A schema, and what was learnt with it."""

    schema: Schema
    imputer: GaussianImputer
    """Imputer of the inputs that are not indicators."""
    fold_means: Mapping[str, FoldMeans]
    """Mean targets of the levels of columns, without those of each fold."""
    notes: tuple[str, ...] = ()
    """What the user may want to know about the columns."""

    def encode(
        self, numbers: Int64[np.ndarray, " N"], table: pa.Table
    ) -> Float64[np.ndarray, "N D"]:
        """Return the inputs of rows of training, with missing values imputed.

        They count as known: uncertain inputs make training many times slower, and their predictions
        are no better (``benchmarks/missing_cells.py``).

        Args:
            numbers: Numbers of the rows within the table.
            table: The rows.
        """
        encoded = self.schema.encode(table, self.fold_means, fold_numbers(numbers))
        indicators = self.schema.indicators
        return impute(encoded, self.imputer, indicators, np.ones_like(indicators)).inputs
