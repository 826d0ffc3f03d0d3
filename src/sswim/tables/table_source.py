"""Sources of the rows of a table: in memory, or read in chunks; and random samples of them."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from jaxtyping import Bool, Float64, Int64

from sswim.distributed.processes import ALL_ROWS, ALONE, Processes, Share, run_with_heartbeat
from sswim.rows.rows import as_rows
from sswim.rows.source import Chunk, MemorySource, Source, as_chunk
from sswim.tables.csv_dialect import AS_FOUND, CsvOptions
from sswim.tables.schema import Schema, schema_to_dict
from sswim.tables.schema_learning import LearntSchema, TargetedRows, learn_schema, sample_rows
from sswim.tables.table import (
    CHUNK_ROWS,
    TableError,
    quote_names,
    require_columns,
    rows_per_chunk,
)
from sswim.tables.table_io import ChunkedTable, open_table, read_small_table
from sswim.tables.values import (
    NUMBER_FORMATS,
    as_numbers,
    finite_numbers,
    is_text,
    kind_of,
    missing_values,
    parse_texts,
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
    marks = None
    if is_text(table.schema.field(target).type):  # all shares are read in one format
        for chunk in table.chunks([target]):
            marks = target_format(chunk.table, target)
            break
    for chunk in table.chunks([*names, target], share):
        numbers = np.arange(chunk.first, chunk.first + chunk.table.num_rows)
        with naming_infinite(numbers, chunk.table, chunk.file):
            rows, n_without = select_rows(chunk.table, names, target, left_out, marks)
        n_rows, n_missing = n_rows + len(numbers), n_missing + n_without
        if not (n_without and left_out.needs_targets):  # an error, but all are counted first
            yield replace(rows, numbers=numbers[rows.numbers], file=chunk.file)
    if left_out.needs_targets:
        require_targets(n_missing, n_rows, target)


def select_rows(
    table: pa.Table,
    names: Sequence[str],
    target: str,
    left_out: LeftOut,
    marks: str | None = None,
) -> tuple[TargetedRows, int]:
    """Return the rows of a table that are kept, and how many had no target."""
    targets = target_numbers(table, target, marks)
    keep = np.isfinite(targets)
    n_missing = int((~keep).sum())
    if left_out.any_missing:
        keep &= complete_rows(table, names)
    inputs = keep_rows(table.select(list(names)), keep)
    n_left_out = int((~keep).sum())
    rows = TargetedRows(np.flatnonzero(keep), inputs, targets[keep, None], n_left_out=n_left_out)
    return rows, n_missing


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
    bad = np.zeros((table.num_columns, table.num_rows), dtype=bool)
    for place, values in enumerate(table.columns):
        if pa.types.is_floating(values.type):
            bad[place] = np.isinf(as_numbers(values))
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
        numbers = parse_texts(texts, marks or target_format(table, target))
        bad = pc.and_(numbers.is_null(), texts.is_valid())
        if (pc.sum(bad).as_py() or 0) > 0.2 * len(texts):
            some = quote_names(texts.filter(bad).unique().to_pylist())
            raise TableError(f"The target {target!r} must hold numbers. Got text: {some}.")
        values = numbers
    got = f"The target {target!r} must hold numbers. Got type {values.type}"
    if kind_of(values.type) != "number" and not pa.types.is_null(values.type):
        raise TableError(f"{got}.")
    if pa.types.is_duration(values.type):
        raise TableError(f"{got}; divide it by a unit of time, such as a second.")
    return finite_numbers(target, values)


def target_format(table: pa.Table, target: str) -> str:
    """Return the marks of the format of most targets, which are text."""
    texts = table.column(target).cast(pa.large_string()).drop_null().unique()
    # The first of the best.
    return min(NUMBER_FORMATS, key=lambda marks: parse_texts(texts, marks).null_count)


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
            sample[:] = [sample_rows([*sample, rows], size, random_state)]
            yield

    run_with_heartbeat(processes, read())
    parts = [rows for part in processes.all_gather(sample) for rows in part if len(rows.numbers)]
    if not parts:
        raise TableError(
            "At least one row must have a value in each column that is used. Got none such in "
            f"{str(path)!r}."
        )
    rows = sample_rows(parts, size, random_state)
    counts = processes.all_gather((n_rows, n_left_out))
    n_rows, n_left_out = (sum(column) for column in zip(*counts, strict=True))
    return TableSample(rows, n_rows, n_left_out, tuple(notes))


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
        crs: str = "",
    ) -> None:
        given = TargetedRows(np.arange(table.num_rows), table, targets, weight)
        learnt = learn_schema(
            lambda: given.pieces(CHUNK_ROWS),
            table.schema,
            target,
            text=text,
            coordinates=coordinates,
        )
        pieces = given.pieces(CHUNK_ROWS)
        inputs = np.concatenate([learnt.encode(rows.numbers, rows.table) for rows in pieces])
        variance = None if deviation is None else learnt.schema.input_variance(deviation)
        rows = as_rows(inputs, targets, weight, variance, dtype)
        super().__init__(rows, learnt.schema.feature_names, flat_targets=flat_targets)
        self.schema = replace(learnt.schema, crs=crs)
        self.imputer = learnt.imputer
        self.isotropic = learnt.schema.isotropic
        self.notes = learnt.notes
        self.n_left_out = 0
        self.n_rows = table.num_rows
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
        self.schema = learnt.schema
        self.imputer = learnt.imputer
        self.isotropic = learnt.schema.isotropic
        self.names = tuple(learnt.schema.feature_names)
        self.columns = tuple(learnt.schema.names)
        self.n_left_out = 0
        self.n_rows = table.n_rows
        self.notes = (*table.notes, *learnt.notes)
        self.table = table
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
            for piece in rows.pieces(rows_per_chunk(len(schema.feature_names))):
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
            rows, n_missing = select_rows(small.table, names, target, left_out)
            if left_out.needs_targets:
                require_targets(n_missing, small.n_rows, target)
            if not len(rows.numbers):
                gaps = {name: small.table.column(name) for name in [*names, target]}
                counts = {name: pc.sum(missing_values(gaps[name])).as_py() for name in gaps}
                some = ", ".join(f"{name!r} ({n} rows)" for name, n in counts.items() if n)
                raise TableError(
                    f"At least one row must be complete. Got missing values in {some}, in all of "
                    "the rows together; leave out the emptiest of these columns with --drop."
                )
            source = FrameSource(
                rows.table,
                rows.targets,
                target=target,
                text=text,
                coordinates=coordinates,
                dtype=dtype,
            )
            source.notes = (*small.notes, *source.notes)
            source.n_rows, source.n_left_out = small.n_rows, rows.n_left_out
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
