"""How the columns of a table become the inputs and the targets of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float64, Int64

from sswim.rows.encoded import Encoded
from sswim.tables.columns import Column, NumberColumn
from sswim.tables.sphere_column import SphereColumn
from sswim.tables.table_io import TableError, quote_names, require_columns
from sswim.tables.target_encoding import FoldMeans, LevelMeansColumn


@dataclass(frozen=True)
class Schema:
    """The columns that a model was trained on, and how they become numbers."""

    target: str
    """Name of the target column; empty if the targets did not come from a table."""
    columns: tuple[Column, ...]
    """The columns, in the order in which they were given."""
    sphere: SphereColumn | None = None
    """How two of the columns become a point on the sphere, if they do."""
    crs: str = ""
    """Coordinate reference system of the points of ``fit`` as well-known text, if they had one."""

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [column.name for column in self.columns]

    @property
    def used(self) -> list[str]:
        """Names of the columns that a row must have."""
        return [column.name for column in self.columns if column.kind != "ignored"]

    def require_target(self) -> str:
        """Return the name of the target column; raise an error if the model does not know it."""
        if not self.target:
            raise TableError(
                "The model must know the name of its target column. This one was fitted to inputs "
                'and targets apart; fit it to a table that has both, as in fit(frame, "price").'
            )
        return self.target

    @property
    def text_names(self) -> list[str]:
        """Names of the columns whose cells in a CSV file count as they are written.

        These are levels, and numbers with groups of thousands: 00123 and 1.234 would become others.
        """
        return [
            column.name
            for column in self.columns
            if column.kind in ("category", "levels")
            or (isinstance(column, NumberColumn) and len(column.text_format) > 1)
        ]

    @property
    def feature_names(self) -> list[str]:
        """Names of the inputs of the model."""
        ours = [name for column in self._inputs for name in column.inputs]
        return [*(self.sphere.inputs if self.sphere else []), *ours]

    @property
    def indicators(self) -> Bool[np.ndarray, " D"]:
        """Whether an input says that a value is missing; such an input is always known."""
        found = [False] * (len(self.sphere.inputs) if self.sphere else 0)
        for column in self._inputs:
            n_values = len(column.inputs) - column.has_missing
            found += [False] * n_values + [True] * column.has_missing
        return np.array(found, dtype=bool)

    @property
    def told(self) -> Bool[np.ndarray, " D"]:
        """Whether an input is of a column with an input that says that the value is missing.

        The model has then learnt how uncertain such rows are.
        """
        found = [False] * (len(self.sphere.inputs) if self.sphere else 0)
        for column in self._inputs:
            found += [column.has_missing] * len(column.inputs)
        return np.array(found, dtype=bool)

    @property
    def level_means(self) -> Bool[np.ndarray, " D"]:
        """Whether an input is the mean target of a level: a row of training has another there."""
        found = [False] * (len(self.sphere.inputs) if self.sphere else 0)
        for column in self._inputs:
            n_means = len(column.other) if isinstance(column, LevelMeansColumn) else 0
            found += [True] * n_means + [False] * (len(column.inputs) - n_means)
        return np.array(found, dtype=bool)

    def inputs_of(self, name: str) -> Bool[np.ndarray, " D"]:
        """Return which inputs a column becomes by itself, without mean targets of levels."""
        if name not in self.names:
            raise TableError(
                f"A group must be a column of the fit. Got {name!r}; the columns are "
                f"{quote_names(self.names)}."
            )
        found = [False] * (len(self.sphere.inputs) if self.sphere else 0)
        for column in self._inputs:
            found += [column.name == name] * len(column.inputs)
        return np.array(found, dtype=bool) & ~self.level_means

    @property
    def isotropic(self) -> tuple[tuple[int, ...], ...]:
        """Groups of inputs that share a unit."""
        return ((0, 1, 2),) if self.sphere else ()

    @property
    def _inputs(self) -> list[Column]:
        """The columns that become inputs by themselves."""
        both = () if self.sphere is None else (self.sphere.longitude, self.sphere.latitude)
        return [column for column in self.columns if column.name not in both]

    def encode(
        self,
        table: pa.Table,
        fold_means: Mapping[str, FoldMeans] | None = None,
        folds: Int64[np.ndarray, " N"] | None = None,
    ) -> Encoded:
        """Return the inputs of a table, which may have further columns and any order of them.

        Args:
            table: The rows.
            fold_means: Mean targets of levels without those of each fold, for rows of training.
            folds: The fold of each row of training.
        """
        require_columns(table.schema, self.used)
        blocks = [] if self.sphere is None else [self._on_sphere(table, self.sphere)]
        for column in self._inputs:
            if column.kind == "ignored":
                continue
            values = table.column(column.name)
            if fold_means and isinstance(column, LevelMeansColumn):
                blocks.append(column.encode(values, fold_means[column.name], folds))
            else:
                blocks.append(column.encode(values))
        return Encoded(np.concatenate([np.empty((table.num_rows, 0)), *blocks], axis=1))

    def _on_sphere(self, table: pa.Table, sphere: SphereColumn) -> Float64[np.ndarray, "N 3"]:
        degrees = [
            column.encode(table.column(column.name))[:, 0]
            for name in (sphere.longitude, sphere.latitude)
            for column in self.columns
            if column.name == name
        ]
        return sphere.encode(*degrees)

    def input_variance(self, deviation: Float64[np.ndarray, "N C"]) -> Float64[np.ndarray, "N D"]:
        """Return the variance of the inputs, given the standard deviation of the columns.

        Only numbers may have one, and it counts in their units.
        """
        variance = np.zeros((len(deviation), len(self.feature_names)))
        given = dict(zip(self.names, deviation.T, strict=True))
        place = len(self.sphere.inputs) if self.sphere else 0
        for column in self._inputs:
            if isinstance(column, NumberColumn):
                variance[:, place] = np.square(given.pop(column.name))
            place += len(column.inputs)
        if others := [name for name, values in given.items() if values.any()]:
            raise TableError(
                "X_std must be zero for columns that are not plain numbers. Got "
                f"{quote_names(others)}."
            )
        return variance


def input_names(schema: pa.Schema, target: str, drop: Any) -> list[str]:
    """Return the names of all columns except the target and the dropped ones."""
    require_columns(schema, [target, *drop])
    if target in drop:
        raise TableError(f"The target must not be dropped. Got {target!r} for both.")
    names = [name for name in schema.names if name != target and name not in drop]
    if not names:
        raise TableError(
            f"At least one input column must remain. Got a table with {quote_names(schema.names)}, "
            f"without the target {target!r} and the dropped columns."
        )
    return names
