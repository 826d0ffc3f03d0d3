"""Scores of a fitted estimator on a table that need not fit in memory."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path

from sswim.distributed.heartbeat import run_with_heartbeat
from sswim.distributed.processes import ALONE, Processes
from sswim.estimator.evaluation import Scores, ScoreSums, sum_scores
from sswim.estimator.regressor import SSWIMRegressor
from sswim.rows.prefetch import prefetched
from sswim.tables.open_table import open_table
from sswim.tables.schema import Schema
from sswim.tables.table_io import TableError
from sswim.tables.table_source import TableSource


def evaluate_table(
    regressor: SSWIMRegressor,
    schema: Schema,
    path: str | Path,
    coverage: float = 0.9,
    drop_missing: bool = False,
    processes: Processes = ALONE,
    memory: int | None = None,
) -> Scores:
    """Score predictions of a table.

    Args:
        regressor: A fitted estimator with one target.
        schema: How the columns of the table become numbers.
        path: A file, or a folder of Parquet or CSV files.
        coverage: Nominal coverage of the intervals.
        drop_missing: Whether to leave out rows with missing values; else they are an error.
        processes: The processes that call this together; each reads its share of the rows.
        memory: Size in bytes up to which a file is read whole; None to read everything in chunks.
    """
    sums: list[ScoreSums] = []
    n_left_out = 0

    def read() -> Generator[None, None, None]:
        nonlocal n_left_out
        source = TableSource(open_table(path, memory), schema, drop_missing)
        with closing(prefetched(source.counted_chunks(processes.share))) as chunks:
            for chunk, n_incomplete in chunks:
                n_left_out += n_incomplete
                if chunk is not None:
                    part = sum_scores(regressor, chunk.inputs, chunk.targets, coverage)
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
