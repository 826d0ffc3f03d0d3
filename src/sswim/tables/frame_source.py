"""The rows of a table in memory as numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float64

from sswim.rows.memory_source import MemorySource
from sswim.rows.rows import as_rows
from sswim.tables.chunked_table import CHUNK_ROWS, split_rows
from sswim.tables.schema_file import schema_to_dict
from sswim.tables.schema_learning import Piece, learn_schema


class FrameSource(MemorySource):
    """The rows of a data frame, or of a small table, as numbers.

    Args:
        table: The input columns.
        targets: Targets of the rows.
        target: Name of the target column, if there is one.
        weight: How many times each row counts.
        deviation: Known standard deviation of the columns.
        text: Columns of text that are levels, whatever their texts look like.
        coordinates: Columns of longitude and latitude, in degrees.
        dtype: Precision of the inputs.
        flat_targets: Whether the targets were given as (N,).
        has_names: Whether the columns were given with names.
        n_left_out: Number of rows that were left out before.
        notes: What was said of the table already.
        crs: Coordinate reference system of the rows, as well-known text, if they have one.
    """

    def __init__(
        self,
        table: pa.Table,
        targets: Float64[np.ndarray, "N T"],
        *,
        target: str = "",
        weight: Float64[np.ndarray, " N"] | None = None,
        deviation: Float64[np.ndarray, "N C"] | None = None,
        text: Collection[str] = (),
        coordinates: tuple[str, str] | None = None,
        dtype: torch.dtype = torch.float64,
        flat_targets: bool = True,
        has_names: bool = True,
        n_left_out: int = 0,
        notes: tuple[str, ...] = (),
        crs: str = "",
    ) -> None:
        def pieces() -> Iterator[Piece]:
            first = 0
            for part in split_rows(table, CHUNK_ROWS):
                rows = slice(first, first + part.num_rows)
                numbers = np.arange(rows.start, rows.stop)
                yield Piece(numbers, part, targets[rows], None if weight is None else weight[rows])
                first = rows.stop

        learnt = learn_schema(pieces, table.schema, target, text=text, coordinates=coordinates)
        inputs = np.concatenate([learnt.encode(each.numbers, each.table) for each in pieces()])
        variance = None if deviation is None else learnt.schema.input_variance(deviation)
        rows = as_rows(inputs, targets, weight, variance, dtype)
        super().__init__(rows, learnt.schema.feature_names, flat_targets=flat_targets)
        self.schema = replace(learnt.schema, crs=crs)
        self.imputer = learnt.imputer
        self.isotropic = learnt.schema.isotropic
        self.notes = (*notes, *learnt.notes)
        self.n_left_out = n_left_out
        self.n_rows = n_left_out + table.num_rows
        self.columns = tuple(learnt.schema.names) if has_names else None
        self.table_schema = schema_to_dict(self.schema)
