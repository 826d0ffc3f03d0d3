"""How a fitted estimator reads inputs: arrays, data frames and tables."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool, Float64
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from sswim.base.errors import UserError
from sswim.base.frame_kinds import is_frame, is_geo_frame
from sswim.estimator.input_checks import as_numpy, deviation_of, without_times
from sswim.rows.encoded import Encoded, impute
from sswim.rows.gaussian_imputer import GaussianImputer, learn_imputer
from sswim.rows.rows import Rows
from sswim.rows.source import Source

if TYPE_CHECKING:
    import pyarrow as pa

    from sswim.tables.schema import Schema


@dataclass(frozen=True)
class InputReader:
    """Reads rows of later calls in the way in which the rows of ``fit`` were read."""

    imputer: GaussianImputer
    """Fills in missing inputs."""
    columns: tuple[str, ...] | None = None
    """Names of the columns, if they have any."""
    inputs: tuple[str, ...] | None = None
    """Names of the inputs that the columns become, if they have any."""
    schema: Schema | None = None
    """How columns become inputs; None for arrays of plain numbers, which are the inputs."""

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.imputer.mean) if self.schema is None else len(self.schema.columns)

    @property
    def n_inputs(self) -> int:
        """Number of inputs of the model."""
        return len(self.imputer.mean) if self.schema is None else len(self.schema.feature_names)

    @property
    def level_means(self) -> Bool[np.ndarray, " D"]:
        """Whether an input is the mean target of a level: a row of training has another there."""
        if self.schema is None:
            return np.zeros(self.n_inputs, dtype=bool)
        return self.schema.level_means

    def inputs_of(self, column: str) -> Bool[np.ndarray, " D"]:
        """Return which inputs a column becomes, without mean targets of levels."""
        if self.schema is not None:
            return self.schema.inputs_of(column)
        raise UserError(
            f"Groups may be named by a column where fit got a data frame or a table. Got "
            f"{column!r}; give one label for each row."
        )

    def require_plain(self) -> None:
        """Raise unless the inputs are the columns themselves, all of them plain numbers."""
        if self.schema is None:
            return
        encoded = [
            f"{column.name!r} ({column.kind}{', missing values' if column.has_missing else ''})"
            for column in self.schema.columns
            if column.kind != "number" or column.has_missing
        ]
        if self.schema.sphere is not None:
            encoded.append(f"{self.schema.sphere.longitude!r} and its latitude (sphere)")
        if encoded:
            raise UserError(
                "Tensors are inputs of a model of plain numbers. This one was fitted to columns "
                f"that become inputs in another way: {', '.join(encoded)}. Fit it to an array of "
                "numbers, or use predict(X, return_cov=True) and sample_y(X) with a frame."
            )

    def __post_init__(self) -> None:
        n_indicators = 0 if self.schema is None else int(self.schema.indicators.sum())
        if len(self.imputer.mean) + n_indicators != self.n_inputs:
            raise ValueError(
                f"an imputer of {len(self.imputer.mean)} inputs for a schema of {self.n_inputs}, "
                f"{n_indicators} of which say that a value is missing"
            )

    def read(self, estimator: BaseEstimator, X: Any, X_std: Any = None) -> Encoded:
        """Return the inputs of rows, with missing values imputed.

        Args:
            estimator: The fitted estimator.
            X: Inputs: an array, a data frame, the path of a table, or encoded inputs.
            X_std: Known standard deviation of the columns: a number, (D,) or (N, D).
        """
        if isinstance(X, Encoded):
            return self._impute(X)
        if self.schema is None:
            if isinstance(X, str | os.PathLike):
                raise UserError(
                    "A model of arrays does not know the columns of a table. Got a path; fit the "
                    "model to a data frame or a table."
                )
            inputs = validate_data(
                estimator,
                without_times("X", as_numpy(X)),
                dtype=np.float64,
                reset=False,
                ensure_all_finite="allow-nan",
            )
            deviation = deviation_of(X_std, inputs.shape)
            variance = None if deviation is None else np.square(deviation)
            return self._impute(Encoded(inputs, variance))
        table = self._table(X, self.schema)
        encoded = self.schema.encode(table)
        deviation = deviation_of(X_std, (table.num_rows, len(self.schema.names)))
        if deviation is not None:
            encoded = Encoded(encoded.inputs, self.schema.input_variance(deviation))
        return self._impute(encoded)

    def split_target(self, X: Any, target: str) -> tuple[pa.Table, Float64[np.ndarray, " N"]]:
        """Return a frame or a table, and the targets in one of its columns."""
        if self.schema is None or not (is_frame(X) or isinstance(X, str | os.PathLike)):
            raise UserError(
                "y may be the name of a column where X is a data frame or the path of a table. "
                f"Got y={target!r}."
            )
        from sswim.tables.table_rows import target_numbers  # noqa: PLC0415 (it loads pyarrow)

        table = self._table(X, self.schema, target)
        return table, target_numbers(table, target)

    def read_table(self, X: Any) -> pa.Table:
        """Return the rows of a frame, a table or an array as a table, before they are encoded."""
        assert self.schema is not None
        return self._table(X, self.schema)

    def _impute(self, encoded: Encoded) -> Encoded:
        if self.schema is None:
            return impute(encoded, self.imputer)
        return impute(encoded, self.imputer, self.schema.indicators, self.schema.told)

    def _table(self, X: Any, schema: Schema, *others: str) -> pa.Table:
        """Return rows of any form as a table; of a path, the columns of the schema and others."""
        from sswim.tables.csv_options import AS_FOUND  # noqa: PLC0415
        from sswim.tables.frames import array_table, as_table  # noqa: PLC0415 (it loads pyarrow)
        from sswim.tables.geo_frame import split_geometry  # noqa: PLC0415
        from sswim.tables.open_table import open_table  # noqa: PLC0415
        from sswim.tables.table_io import require_columns  # noqa: PLC0415

        if isinstance(X, str | os.PathLike):
            import pyarrow as pa  # noqa: PLC0415

            csv = AS_FOUND.for_model(schema.text_names)
            opened = open_table(Path(X), csv=csv)
            names = [*schema.used, *others]
            require_columns(opened.schema, names)
            X = pa.concat_tables(
                [pa.table({}), *(chunk.table for chunk in opened.chunks(names))],
                promote_options="permissive",
            )
        if is_geo_frame(X):
            geo = split_geometry(X, schema.crs or None)
            assert geo is not None
            X = geo.frame
        table = as_table(X) if is_frame(X) else array_table(as_numpy(X), schema.names)
        if not table.num_rows:
            raise UserError("X must have at least one row. Found array with 0 sample(s).")
        return table


def learn_reader(source: Source, sample: Rows) -> InputReader:
    """Return how rows like those of a source are read.

    Args:
        source: The rows of ``fit``.
        sample: Some of these rows, or all.
    """
    imputer = source.imputer
    if imputer is None:
        imputer = learn_imputer(sample.inputs.mean.to(torch.float64).numpy())
    if source.table_schema is None:
        return InputReader(imputer, source.names, source.names)
    schema = read_schema(source.table_schema)
    return InputReader(imputer, source.columns, source.names, schema)


def read_schema(content: dict[str, Any] | None) -> Schema | None:
    """Return the schema of a dictionary that a model file holds."""
    if content is None:
        return None
    from sswim.tables.schema_file import schema_from_dict  # noqa: PLC0415 (it loads pyarrow)

    return schema_from_dict(content)
