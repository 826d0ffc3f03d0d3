"""The rows of a table that can be used, with their targets, and random samples of them."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float64, Int64

from sswim.distributed.processes import ALL_ROWS, ALONE, Processes, Share, run_with_heartbeat
from sswim.rows.summary import smallest_keys
from sswim.tables.csv_dialect import AS_FOUND, CsvOptions
from sswim.tables.schema import Schema
from sswim.tables.table import (
    ChunkedTable,
    TableError,
    quote_names,
    require_columns,
    rows_per_chunk,
)
from sswim.tables.table_io import open_table
from sswim.tables.values import (
    NUMBER_FORMATS,
    as_numbers,
    is_text,
    kind_of,
    missing_values,
    without_string_views,
)


@dataclass(frozen=True)
class LeftOut:
    """Which rows are left out because values are missing."""

    any_missing: bool = False
    """Rows without a value in some column that is used."""
    target_missing: bool = False
    """Rows without a target; otherwise these are an error."""

    @property
    def needs_targets(self) -> bool:
        """Whether rows without a target are an error."""
        return not (self.target_missing or self.any_missing)


KEEP_ALL = LeftOut()


@dataclass(frozen=True)
class TargetedRows:
    """Some rows with their targets."""

    numbers: Int64[np.ndarray, " n"]
    """Row numbers within the whole table."""
    table: pa.Table
    """The input columns."""
    targets: Float64[np.ndarray, "n T"]
    weight: Float64[np.ndarray, " n"] | None = None
    n_left_out: int = 0
    """Number of rows that were left out of the same chunk."""
    file: str = ""
    """File that the rows come from."""

    def pieces(self, n_inputs: int) -> Iterator[TargetedRows]:
        """Cut the rows into pieces, which are smaller where they become many inputs."""
        size = rows_per_chunk(n_inputs)
        for first in range(0, len(self.numbers), size):
            part = slice(first, first + size)
            yield replace(
                self,
                numbers=self.numbers[part],
                table=self.table.slice(first, size),
                targets=self.targets[part],
            )


def read_rows(
    table: ChunkedTable,
    names: Sequence[str],
    target: str,
    left_out: LeftOut = KEEP_ALL,
    share: Share = ALL_ROWS,
) -> Iterator[TargetedRows]:
    """Read the rows of a share that have a target; raise at the end if some have none.

    Args:
        table: The table.
        names: Input columns.
        target: Target column.
        left_out: Which rows are left out.
        share: Share of the rows that this process reads.
    """
    require_columns(table.schema, [*names, target])
    n_rows = n_missing = 0
    marks = _first_format(table, target)
    for chunk in table.chunks([*names, target], share):
        numbers = np.arange(chunk.first, chunk.first + chunk.table.num_rows)
        with naming_infinite(numbers, chunk.table, chunk.file):
            kept, rows, targets, n_without = select_rows(
                chunk.table, names, target, left_out, marks
            )
        n_rows, n_missing = n_rows + len(numbers), n_missing + n_without
        if n_without and left_out.needs_targets:
            continue  # an error, but all are counted first
        n_left_out = len(numbers) - len(kept)
        yield TargetedRows(
            numbers[kept], rows, targets[:, None], n_left_out=n_left_out, file=chunk.file
        )
    if left_out.needs_targets:
        require_targets(n_missing, n_rows, target)


def select_rows(
    table: pa.Table,
    names: Sequence[str],
    target: str,
    left_out: LeftOut,
    marks: str | None = None,
) -> tuple[Int64[np.ndarray, " n"], pa.Table, Float64[np.ndarray, " n"], int]:
    """Return which rows are kept, their input columns and targets, and how many had no target."""
    targets = target_numbers(table, target, marks)
    keep = np.isfinite(targets)
    n_missing = int((~keep).sum())
    if left_out.any_missing:
        keep &= complete_rows(table, names)
    rows = keep_rows(table.select(list(names)), keep)
    return np.flatnonzero(keep), rows, targets[keep], n_missing


def complete_rows(table: pa.Table, names: Collection[str]) -> Bool[np.ndarray, " N"]:
    """Return whether each row has a value in all of the columns."""
    require_columns(table.schema, names)
    complete = np.ones(table.num_rows, dtype=bool)
    for name in names:
        complete &= ~missing_values(table.column(name)).to_numpy()
    return complete


def keep_rows(table: pa.Table, kept: Bool[np.ndarray, " N"]) -> pa.Table:
    """Return the rows where ``kept`` is true."""
    table = without_string_views(table)
    try:
        return table if kept.all() else table.filter(pa.array(kept))
    except pa.ArrowNotImplementedError as error:  # string views inside lists
        raise TableError(f"Rows of this table cannot be left out: {error}") from error


def require_any_complete(n_kept: int, table: pa.Table, names: Collection[str]) -> None:
    """Raise an error if no row is kept.

    Args:
        n_kept: Number of rows that are kept.
        table: All rows.
        names: Columns that a row must have a value in to be kept.
    """
    if not n_kept:
        counts = {name: pc.sum(missing_values(table.column(name))).as_py() for name in names}
        some = ", ".join(f"{name!r} ({count} rows)" for name, count in counts.items() if count)
        raise TableError(
            f"At least one row must be complete. Got missing values in {some}, in all of the rows "
            "together; leave out the emptiest of these columns with --drop."
        )


def require_targets(n_missing: int, n_rows: int, target: str) -> None:
    """Raise an error if targets are missing."""
    if n_missing:
        raise TableError(
            f"Every row must have a target. Got {n_missing} of {n_rows} rows without one in column "
            f"{target!r}; leave such rows out with --drop-missing-target."
        )


def require_finite(
    numbers: Int64[np.ndarray, " n"], table: pa.Table, file: str, scope: str = "all rows"
) -> None:
    """Raise an error that names the first row with an infinite number, if there is one.

    Args:
        numbers: Numbers of the rows.
        table: Columns that are used.
        file: File that the rows come from.
        scope: What the rows are numbered within.
    """
    bad = np.stack([_is_infinite(column).to_numpy() for column in table.columns])
    if bad.any():
        row = int(bad.any(axis=0).argmax())
        names = [table.column_names[place] for place in np.flatnonzero(bad[:, row])]
        raise TableError(
            f"Numbers must be finite. Got an infinite one in {quote_names(names)} in row "
            f"{numbers[row] + 1:,} of {scope}, counted from 1, which is in {file!r}; correct or "
            "remove such rows first."
        )


@contextmanager
def naming_infinite(
    numbers: Int64[np.ndarray, " n"], table: pa.Table, file: str, scope: str = "all rows"
) -> Iterator[None]:
    """Name the first row with an infinite number in an error of the body, if there is one."""
    try:
        yield
    except TableError:
        require_finite(numbers, table, file, scope)
        raise


def _is_infinite(values: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_floating(values.type):
        return pc.fill_null(pc.is_inf(values.cast(pa.float64())), False)
    return pa.chunked_array([pa.repeat(False, len(values))])


def target_numbers(
    table: pa.Table, target: str, marks: str | None = None
) -> Float64[np.ndarray, " N"]:
    """Return the targets of a table, NaN where they are missing.

    Args:
        table: The table.
        target: Target column.
        marks: Marks of the format of targets that are text; by default the one that suits most.
    """
    values = table.column(target)
    if is_text(values.type):
        texts = values.cast(pa.large_string()).combine_chunks()
        numbers = NUMBER_FORMATS[marks or target_format(table, target) or "."].parse(texts)
        bad = pc.and_(numbers.is_null(), texts.is_valid())
        if (pc.sum(bad).as_py() or 0) <= 0.2 * len(texts):
            values = numbers
        else:
            some = quote_names(texts.filter(bad).unique().to_pylist())
            raise TableError(f"The target {target!r} must hold numbers. Got text: {some}.")
    if kind_of(values.type) != "number" and not pa.types.is_null(values.type):
        raise TableError(f"The target {target!r} must hold numbers. Got type {values.type}.")
    if pa.types.is_duration(values.type):
        raise TableError(
            f"The target {target!r} must hold numbers. Got type {values.type}; divide it by a unit "
            "of time, such as a second."
        )
    numbers = as_numbers(values)
    if n_infinite := int(np.isinf(numbers).sum()):
        raise TableError(
            f"Numbers must be finite. Got {n_infinite} infinite values in column {target!r}; "
            "correct or remove these rows first."
        )
    return numbers


def target_format(table: pa.Table, target: str) -> str | None:
    """Return the marks of the format of most targets that are text; None if they are no text."""
    values = table.column(target)
    if not is_text(values.type):
        return None
    texts = values.cast(pa.large_string()).drop_null().unique()
    misfits = {m: format_.parse(texts).null_count for m, format_ in NUMBER_FORMATS.items()}
    return min(misfits, key=misfits.__getitem__)  # the first of the best


def _first_format(table: ChunkedTable, target: str) -> str | None:
    """Return the format of the first targets of a table, in which all shares are read."""
    if not is_text(table.schema.field(target).type):
        return None
    first = next(iter(table.chunks([target])), None)
    return None if first is None else target_format(first.table, target)


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


@dataclass(frozen=True)
class TableSample:
    """A random sample of the usable rows of a table."""

    rows: TargetedRows
    """The sample, in the order of the table."""
    n_rows: int
    """Number of usable rows of the table."""
    n_left_out: int
    """Number of rows that were left out because values are missing."""
    notes: tuple[str, ...] = ()
    """What the user may want to know about how the table is read."""


def sample_table(
    schema: Schema,
    path: str | Path,
    size: int,
    *,
    random_state: int = 0,
    left_out: LeftOut = KEEP_ALL,
    processes: Processes = ALONE,
    memory: int | None = None,
    csv: CsvOptions = AS_FOUND,
) -> TableSample:
    """Draw a random sample of the usable rows of a table; it does not depend on the processes.

    Args:
        schema: How the columns of the table become numbers.
        path: A file, or a folder of Parquet or CSV files.
        size: Largest number of rows; smaller tables are returned whole.
        random_state: Seed of the sample.
        left_out: Which rows are left out because values are missing.
        processes: The processes that call this together; each reads its share of the rows.
        memory: Size in bytes up to which a file is read whole; None to read everything in chunks.
        csv: How CSV files are read.
    """
    sample: list[TargetedRows] = []
    notes: list[str] = []
    n_rows = n_left_out = 0
    target = schema.require_target()

    def read() -> Generator[None, None, None]:
        nonlocal n_rows, n_left_out
        table = open_table(path, memory, csv.for_model(schema.text_names))
        notes[:] = table.notes
        for rows in read_rows(table, schema.used, target, left_out, processes.share):
            n_rows, n_left_out = n_rows + len(rows.numbers), n_left_out + rows.n_left_out
            sample[:] = [_sample_rows([*sample, rows], size, random_state)]
            yield

    run_with_heartbeat(processes, read())
    parts = [rows for part in processes.all_gather(sample) for rows in part if len(rows.numbers)]
    if not parts:
        raise TableError(
            "At least one row must have a value in each column that is used. Got none such in "
            f"{str(path)!r}."
        )
    rows = _sample_rows(parts, size, random_state)
    counts = processes.all_gather((n_rows, n_left_out))
    n_rows, n_left_out = (sum(column) for column in zip(*counts, strict=True))
    return TableSample(rows, n_rows, n_left_out, tuple(notes))


def _sample_rows(parts: Sequence[TargetedRows], size: int, random_state: int) -> TargetedRows:
    """Return the rows of a few parts whose numbers have the smallest keys, in order."""
    numbers = np.concatenate([part.numbers for part in parts])
    chosen = smallest_keys(numbers, size, random_state)
    chosen = chosen[np.argsort(numbers[chosen])]  # several processes may have read them
    table = pa.concat_tables([part.table for part in parts], promote_options="permissive")
    targets = np.concatenate([part.targets for part in parts])
    return TargetedRows(numbers[chosen], table.take(chosen), targets[chosen])
