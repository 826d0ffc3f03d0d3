"""Rows of tables that need not fit in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int64

from sswim.distributed.processes import ALONE, Processes
from sswim.distributed.share import WHOLE, Share
from sswim.rows.source import Chunk, Source
from sswim.tables.schema import Schema, complete_rows, is_missing, keep_rows, require_columns
from sswim.tables.schema_learning import learn_schema
from sswim.tables.table_io import TableError, quote_names
from sswim.tables.table_parts import Tables, part_rows, pieces


class TableSource(Source):
    """The rows of a table as numbers.

    Args:
        tables: The table.
        schema: How its columns become numbers.
        drop_missing: Leave rows with missing values out, rather than refuse them. The others keep
            their numbers.
    """

    def __init__(self, tables: Tables, schema: Schema, drop_missing: bool = False) -> None:
        self.tables = tables
        self.schema = schema
        self.drop_missing = drop_missing
        self.names = tuple(schema.feature_names)
        self.table_schema = schema.to_dict()
        self._columns = [*(column.name for column in schema.columns), schema.target]
        require_columns(tables.schema, self._columns)

    def facts(self) -> dict[str, Any]:
        """The columns, and the size of the table."""
        size = {"rows": self.tables.n_rows, "bytes": self.tables.nbytes}
        return {**self.schema.to_dict(), "drop_missing": self.drop_missing, **size}

    def chunks(self, share: Share = WHOLE) -> Iterator[Chunk]:
        """The rows of a share; fewer at a time where categories make the matrix wide."""
        n_rows = part_rows(len(self.schema.feature_names))
        for part in self.tables.parts(self._columns, share):
            first = part.first
            for piece in pieces(part.table, n_rows):
                chunk = self._chunk(first, piece, part.place)
                if chunk is not None:
                    yield chunk
                first += piece.num_rows

    def _chunk(self, first: int, table: pa.Table, place: str) -> Chunk | None:
        """Some rows from a file; None if none of them is kept."""
        numbers = np.arange(first, first + table.num_rows)
        if self.drop_missing:
            kept = complete_rows(table, self._columns)
            numbers, table = numbers[kept], keep_rows(table, kept)
            if not len(numbers):
                return None
        try:
            return Chunk(numbers, self.schema.encode(table), self.schema.targets(table)[:, None])
        except TableError:
            require_usable(numbers, table.select(self._columns), place)
            raise


def learn_source(
    tables: Tables,
    target: str,
    drop: Collection[str] = (),
    drop_missing: bool = False,
    processes: Processes = ALONE,
) -> TableSource:
    """The rows of a table, of which every column but the target and the dropped ones is an input.

    What its columns hold, all processes find out together.
    """
    share = processes.share
    schema = learn_schema(tables, target, drop, share, processes.all_gather, drop_missing)
    return TableSource(tables, schema, drop_missing)


def require_usable(
    numbers: Int64[np.ndarray, " n"], table: pa.Table, place: str, among: str = "all rows"
) -> None:
    """Name the first row that cannot be used, if it is for a value that is missing or infinite.

    Args:
        numbers: Of the rows.
        table: Their columns that are used.
        place: The file.
        among: Of what the rows are numbered.
    """
    for is_bad, rule, got, advice in (
        (
            is_missing,
            "Every row must have a value in each column that is used",
            "none",
            "fill it in, or leave such rows out with --drop-missing",
        ),
        (
            _is_infinite,
            "Numbers must be finite",
            "an infinite one",
            "mend or remove such rows first",
        ),
    ):
        bad = np.stack([is_bad(column).to_numpy() for column in table.columns])
        if bad.any():
            row = int(bad.any(axis=0).argmax())
            names = [
                name for name, value in zip(table.column_names, bad[:, row], strict=True) if value
            ]
            raise TableError(
                f"{rule}. Got {got} in {quote_names(names)} in row {numbers[row] + 1:,} of {among}, "
                f"counted from 1, which is in {place!r}; {advice}."
            )


def _is_infinite(values: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_floating(values.type):
        return pc.is_inf(values.cast(pa.float64()))
    return pa.chunked_array([pa.repeat(False, len(values))])
