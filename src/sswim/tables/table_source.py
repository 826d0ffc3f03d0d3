"""Sources of the rows of a table: in memory, or read in chunks."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float64

from sswim.distributed.processes import ALL_ROWS, ALONE, Processes, Share
from sswim.rows.rows import as_rows
from sswim.rows.source import Chunk, MemorySource, Source, as_chunk
from sswim.tables.csv_dialect import AS_FOUND, CsvOptions
from sswim.tables.schema import Schema, schema_to_dict
from sswim.tables.schema_learning import LearntSchema, learn_schema
from sswim.tables.table import CHUNK_ROWS, ChunkedTable, split_rows
from sswim.tables.table_io import open_table, read_small_table
from sswim.tables.table_rows import (
    KEEP_ALL,
    LeftOut,
    TargetedRows,
    input_names,
    naming_infinite,
    read_rows,
    require_any_complete,
    require_finite,
    require_targets,
    select_rows,
)


class TableNote(UserWarning):
    """Something that the user may want to know about how a table is read."""


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

    schema: Schema

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
        def pieces() -> Iterator[TargetedRows]:
            first = 0
            for part in split_rows(table, CHUNK_ROWS):
                rows = slice(first, first + part.num_rows)
                numbers = np.arange(rows.start, rows.stop)
                part_weight = None if weight is None else weight[rows]
                yield TargetedRows(numbers, part, targets[rows], part_weight)
                first = rows.stop

        learnt = learn_schema(pieces, table.schema, target, text=text, coordinates=coordinates)
        inputs = np.concatenate([learnt.encode(rows.numbers, rows.table) for rows in pieces()])
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


class TableSource(Source):
    """The rows of a table as numbers.

    Args:
        table: The table.
        learnt: How its columns become numbers.
        left_out: Which rows are left out. The other rows keep their numbers.
    """

    schema: Schema

    def __init__(
        self, table: ChunkedTable, learnt: LearntSchema, left_out: LeftOut = KEEP_ALL
    ) -> None:
        self.table = table
        self.schema = learnt.schema
        self.imputer = learnt.imputer
        self.isotropic = learnt.schema.isotropic
        self.names = tuple(learnt.schema.feature_names)
        self.columns = tuple(learnt.schema.names)
        self.notes = (*table.notes, *learnt.notes)
        self.n_left_out = 0
        self.n_rows = table.n_rows
        self._learnt = learnt
        self._left_out = left_out

    def facts(self) -> dict[str, Any]:
        """Return the columns and the size of the table."""
        size = {"rows": self.table.n_rows, "bytes": self.table.nbytes}
        return {**schema_to_dict(self.schema), "left_out": repr(self._left_out), **size}

    def chunks(self, share: Share = ALL_ROWS) -> Iterator[Chunk]:
        """Read the rows of a share, in smaller chunks where categories make the matrix wide."""
        schema = self.schema
        for rows in read_rows(self.table, schema.names, schema.target, self._left_out, share):
            for piece in rows.pieces(len(schema.feature_names)):
                with naming_infinite(piece.numbers, piece.table, piece.file):
                    inputs = self._learnt.encode(piece.numbers, piece.table)
                yield as_chunk(piece.numbers, inputs, piece.targets)


def open_source(
    path: str | Path,
    target: str,
    *,
    drop: Collection[str] = (),
    text: Collection[str] = (),
    coordinates: tuple[str, str] | None = None,
    drop_missing: bool = False,
    drop_missing_target: bool = False,
    memory: int | None = None,
    csv: CsvOptions = AS_FOUND,
    processes: Processes = ALONE,
    dtype: torch.dtype = torch.float64,
) -> FrameSource | TableSource:
    """Open a table as a source, and learn its columns.

    Args:
        path: A file, or a folder of Parquet or CSV files.
        target: Column to predict.
        drop: Columns to ignore. All others are inputs.
        text: Columns of text that are levels, whatever their texts look like.
        coordinates: Columns of longitude and latitude, in degrees.
        drop_missing: Whether to leave out rows with any missing value; otherwise missing inputs
            are imputed.
        drop_missing_target: Whether to leave out rows without a target; otherwise they are an
            error.
        memory: Size in bytes up to which a file is read whole. By default all is read in chunks.
        csv: How CSV files are read.
        processes: Processes that call this together, with the same arguments.
        dtype: Precision of the inputs of a file that is read whole.
    """
    left_out = LeftOut(drop_missing, drop_missing_target)
    csv = replace(csv, text=(*csv.text, *text))
    given = {"target": target, "drop": sorted(drop), "text": sorted(text), "left": repr(left_out)}
    more = {"memory": memory, "coordinates": coordinates, "csv": repr(csv)}
    processes.require_same("command", {**given, **more})
    source: FrameSource | TableSource
    with processes.shared_errors():
        small = read_small_table(path, memory, csv)
        table = open_table(path, csv=csv) if small is None else small
        _tell(table.notes, processes)  # they may explain an error that follows
        names = input_names(table.schema, target, drop)
        if small is not None:
            kept, rows, targets, n_missing = select_rows(small.table, names, target, left_out)
            if left_out.needs_targets:
                require_targets(n_missing, small.n_rows, target)
            require_any_complete(len(kept), small.table, [*names, target])
            source = FrameSource(
                rows,
                targets[:, None],
                target=target,
                text=text,
                coordinates=coordinates,
                dtype=dtype,
                n_left_out=small.n_rows - len(kept),
                notes=small.notes,
            )
    if small is None:

        def pieces() -> Iterator[TargetedRows]:
            for rows in read_rows(table, names, target, left_out, processes.share):
                require_finite(rows.numbers, rows.table, rows.file)
                yield rows

        columns = pa.schema([table.schema.field(name) for name in names])
        learnt = learn_schema(
            pieces, columns, target, text=text, coordinates=coordinates, processes=processes
        )
        source = TableSource(table, learnt, left_out)
    _tell([note for note in source.notes if note not in table.notes], processes)
    return source


def _tell(notes: Sequence[str], processes: Processes) -> None:
    """Warn of what the user may want to know, in the first process only."""
    for note in notes if processes.is_first else ():
        warnings.warn(note, TableNote, stacklevel=3)
