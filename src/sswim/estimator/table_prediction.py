"""Predictions of a table that need not fit in memory, one file at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sswim.base.files import atomic_write, require_folder
from sswim.base.validation import require_coverage
from sswim.distributed.heartbeat import run_with_heartbeat
from sswim.distributed.processes import ALONE, Processes
from sswim.estimator.prediction_columns import NAMES, predicted_columns
from sswim.estimator.progress import prediction_progress
from sswim.estimator.regressor import SSWIMRegressor
from sswim.rows.prefetch import prefetched
from sswim.tables.chunked_table import TableChunk, chunk_rows, split_rows
from sswim.tables.file_table import FileTable, split_by_file
from sswim.tables.missing_values import complete_rows, keep_rows
from sswim.tables.open_table import open_table
from sswim.tables.schema import Schema
from sswim.tables.table_io import (
    TableError,
    append_columns,
    quote_names,
    require_columns,
    table_suffix,
)
from sswim.tables.unusable_rows import require_usable

SUFFIX = ".parquet"
"""Suffix of the files that are written."""

Job = tuple[FileTable, Path]
"""A file to predict, and the file to write."""


@dataclass(frozen=True)
class TablePrediction:
    """The settings of a table's prediction."""

    regressor: SSWIMRegressor
    schema: Schema
    coverage: float
    prefix: str
    drop_missing: bool

    @property
    def used(self) -> list[str]:
        """Names of the columns that the model needs."""
        return [column.name for column in self.schema.columns]

    def extended(self, schema: pa.Schema) -> pa.Schema:
        """Return a schema with the new columns; raise an error if their names are taken."""
        nothing = {self.prefix + name: np.empty(0) for name in NAMES}
        return append_columns(schema.empty_table(), nothing).schema

    def predict(self, chunk: TableChunk) -> pa.Table:
        """Return the complete rows of a chunk with the new columns."""
        table, numbers = chunk.table, np.arange(chunk.first, chunk.first + chunk.table.num_rows)
        if self.drop_missing:
            kept = complete_rows(table, self.used)
            table, numbers = keep_rows(table, kept), numbers[kept]
        # Fewer at a time where categories make the matrix wide.
        n_rows = chunk_rows(len(self.schema.feature_names))
        try:
            found = [self._columns(piece) for piece in split_rows(table, n_rows)]
        except TableError:
            require_usable(numbers, table.select(self.used), chunk.file, "its file")
            raise
        new = {
            self.prefix + name: np.concatenate([np.empty(0), *(each[name] for each in found)])
            for name in NAMES
        }
        return append_columns(table, new)

    def _columns(self, table: pa.Table) -> dict[str, np.ndarray]:
        return predicted_columns(self.regressor, self.schema.encode(table), self.coverage)


def predict_table(
    regressor: SSWIMRegressor,
    schema: Schema,
    source: Path,
    out: Path,
    *,
    coverage: float,
    prefix: str,
    drop_missing: bool,
    processes: Processes = ALONE,
    say: Callable[[str], object],
) -> int:
    """Write a table with the columns mean, std, median, lower and upper; return its number of rows.

    A folder becomes a folder with one Parquet file for each file, and a file becomes a Parquet
    file. A file appears when it is complete. Hive partition columns stay in the names of folders.

    Args:
        regressor: A fitted estimator with one target.
        schema: How the columns of the table become numbers.
        source: The table: a file, or a folder of Parquet or CSV files.
        out: The folder to write, empty or missing; or the file to write.
        coverage: Nominal coverage of the intervals from lower to upper.
        prefix: Prefix of the names of the new columns.
        drop_missing: Whether to leave out rows with missing values; else they are an error.
        processes: The processes that call this together; each predicts some of the files.
        say: Prints a line of progress; called in the first process only.
    """
    require_coverage(coverage)
    prediction = TablePrediction(regressor, schema, coverage, prefix, drop_missing)
    jobs: list[Job] = []
    processes.run_everywhere(lambda: jobs.extend(_jobs(source, out, prediction)))
    sizes = [file.size for file, _ in jobs]
    processes.require_same("files", {file.path: file.size for file, _ in jobs})
    if source.is_dir():
        processes.run_everywhere(lambda: _make_folder(out) if processes.is_first else None)
    mine = assign_by_size(sizes, processes.size)[processes.rank]
    say = say if processes.is_first else _ignore
    advance = prediction_progress(say, sum(sizes[number] for number in mine))
    rows: Counter[str] = Counter()

    def predict() -> Generator[None, None, None]:
        for number in mine:
            yield from _predict_file(*jobs[number], prediction, rows, advance)

    run_with_heartbeat(processes, predict())
    rows = sum(processes.all_gather(rows), Counter())
    if rows["left out"]:
        say(f"Left out {rows['left out']} of {rows.total()} rows with missing values.")
    return rows["predicted"]


def assign_by_size(sizes: Sequence[int], n_workers: int) -> list[list[int]]:
    """Assign items, largest first, to the least-loaded worker; return the items of each worker."""
    assigned: list[list[int]] = [[] for _ in range(n_workers)]
    loads = [0] * n_workers
    for number in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        least = loads.index(min(loads))
        assigned[least].append(number)
        loads[least] += sizes[number]
    return assigned


def _jobs(source: Path, out: Path, prediction: TablePrediction) -> list[Job]:
    """Return the files to predict; raise the errors that can be found without reading rows."""
    in_folder = source.is_dir()
    if not in_folder:
        _require_parquet(out)
        require_folder(out)
    table = open_table(source)
    require_columns(table.schema, prediction.used)
    prediction.extended(table.schema)
    files = split_by_file(table, used={*prediction.used, prediction.schema.target})
    jobs = [(file, _output_file(file, source, out) if in_folder else out) for file in files]
    counts = Counter(written for _, written in jobs)
    if same := [file.path for file, written in jobs if counts[written] > 1]:
        raise TableError(
            f"Files must differ in more than their suffix, because all become {SUFFIX} files. Got "
            f"{quote_names(same)}; rename some of them."
        )
    return jobs


def _output_file(file: FileTable, source: Path, out: Path) -> Path:
    """Return the file to write for a file of a folder."""
    path = out / Path(file.path).relative_to(source)
    suffix = table_suffix(path)
    return path if suffix == SUFFIX else path.with_name(path.name[: -len(suffix)] + SUFFIX)


def _predict_file(
    file: FileTable,
    out: Path,
    prediction: TablePrediction,
    rows: Counter[str],
    advance: Callable[[int], None],
) -> Generator[None, None, None]:
    """Write one file, a chunk at a time, and count predicted and left-out rows."""
    own = file.schema()
    schema = prediction.extended(own)
    others = [name for name in prediction.used if name not in own.names]
    out.parent.mkdir(parents=True, exist_ok=True)
    with (
        _writing(out, schema) as writer,
        closing(prefetched(file.table.chunks([*own.names, *others]))) as chunks,
    ):
        for chunk in chunks:
            table = prediction.predict(chunk)
            if table.num_rows:
                writer.write_table(table.select(schema.names).cast(schema))
            rows["predicted"] += table.num_rows
            rows["left out"] += chunk.table.num_rows - table.num_rows
            if file.has_row_count:
                advance(chunk.table.num_rows)
            yield
    if not file.has_row_count:
        advance(file.size)


@contextmanager
def _writing(path: Path, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    try:
        with atomic_write(path) as temporary, pq.ParquetWriter(temporary, schema) as writer:
            yield writer
    except (OSError, pa.ArrowException) as error:
        raise TableError(f"The table cannot be written to {str(path)!r}: {error}") from error


def _make_folder(path: Path) -> None:
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise TableError(
            "The predictions of a folder must go to a folder that is empty or does not exist. Got "
            f"{str(path)!r}, which is {'not empty' if path.is_dir() else 'a file'}; choose another."
        )
    path.mkdir(parents=True, exist_ok=True)


def _require_parquet(path: Path) -> None:
    if table_suffix(path) != SUFFIX:
        raise TableError(
            f"Predictions of a table that is read in chunks must be written to a {SUFFIX} file. "
            f"Got {str(path)!r}."
        )


def _ignore(text: str) -> None:
    """Print nothing: the first process speaks for all."""
