"""Scores of a fitted estimator on a table that need not fit in memory."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from sswim.distributed.heartbeat import run_with_heartbeat
from sswim.distributed.processes import ALONE, Processes
from sswim.estimator.evaluation import Scores, ScoreSums, sum_scores
from sswim.estimator.regressor import SSWIMRegressor
from sswim.rows.encoded import Encoded
from sswim.rows.prefetch import prefetched
from sswim.tables.chunked_table import chunk_rows
from sswim.tables.csv_options import AS_FOUND, CsvOptions
from sswim.tables.open_table import open_table
from sswim.tables.schema import Schema
from sswim.tables.table_io import TableError
from sswim.tables.table_rows import KEEP_ALL, LeftOut, TargetedRows, read_rows
from sswim.tables.table_source import TableNote
from sswim.tables.unusable_rows import require_finite


def evaluate_table(
    regressor: SSWIMRegressor,
    schema: Schema,
    path: str | Path,
    coverage: float = 0.9,
    left_out: LeftOut = KEEP_ALL,
    processes: Processes = ALONE,
    memory: int | None = None,
    csv: CsvOptions = AS_FOUND,
) -> Scores:
    """Score predictions of a table.

    Args:
        regressor: A fitted estimator with one target.
        schema: How the columns of the table become numbers.
        path: A file, or a folder of Parquet or CSV files.
        coverage: Nominal coverage of the intervals.
        left_out: Which rows are left out because values are missing.
        processes: The processes that call this together; each reads its share of the rows.
        memory: Size in bytes up to which a file is read whole; None to read everything in chunks.
        csv: How CSV files are read.
    """
    target = schema.require_target()
    sums: list[ScoreSums] = []
    n_left_out = 0

    def read() -> Generator[None, None, None]:
        nonlocal n_left_out
        table = open_table(path, memory, csv.for_model(schema.text_names))
        for note in table.notes if processes.is_first else ():
            warnings.warn(note, TableNote, stacklevel=2)
        rows = read_rows(table, schema.used, target, left_out, processes.share)
        with closing(prefetched(rows)) as chunks:
            for chunk in chunks:
                n_left_out += chunk.n_left_out
                for piece in _pieces(schema, chunk):
                    part = sum_scores(regressor, piece.inputs, piece.targets, coverage)
                    sums[:] = [reduce(add, sums, part)]
                yield

    run_with_heartbeat(processes, read())
    found = [part for each in processes.all_gather(sums) for part in each]
    if not found:
        raise TableError(
            "At least one row must have a value in each column that is used. Got none such in "
            f"{str(path)!r}."
        )
    return replace(reduce(add, found).scores(), n_left_out=sum(processes.all_gather(n_left_out)))


@dataclass(frozen=True)
class _Piece:
    """Some encoded rows with their targets."""

    inputs: Encoded
    targets: Float64[np.ndarray, "n 1"]


def _pieces(schema: Schema, rows: TargetedRows) -> Iterator[_Piece]:
    """Encode rows, fewer at a time where categories make the matrix wide."""
    n_rows = chunk_rows(len(schema.feature_names))
    for first in range(0, len(rows.numbers), n_rows):
        part = slice(first, first + n_rows)
        table = rows.table.slice(first, n_rows)
        try:
            yield _Piece(schema.encode(table), rows.targets[part])
        except TableError:
            require_finite(rows.numbers[part], table, rows.file)
            raise
