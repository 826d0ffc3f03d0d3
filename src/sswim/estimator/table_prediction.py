"""Predictions of a table that need not fit in memory, one file at a time."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from sswim.base.validation import require_level
from sswim.distributed.processes import ALONE, Processes, run_with_heartbeat
from sswim.estimator.base import BaseRegressor
from sswim.estimator.fitted import IntervalMethod
from sswim.estimator.inputs import finite
from sswim.estimator.progress import prediction_progress
from sswim.files.output_files import require_folder, resolve_link
from sswim.rows.source import prefetched
from sswim.tables import (
    AS_FOUND,
    ChunkedTable,
    CsvOptions,
    Schema,
    TableChunk,
    TableError,
    TableNote,
    complete_rows,
    copy_file,
    keep_rows,
    naming_infinite,
    open_table,
    quote_names,
    require_columns,
    require_copy,
    require_new_names,
    rows_per_chunk,
    split_rows,
    table_suffix,
)

NAMES = ("mean", "std", "median", "lower", "upper")


def predicted_columns(
    regressor: BaseRegressor,
    X: Any,
    level: float,
    method: IntervalMethod = "model",
) -> dict[str, Float64[np.ndarray, " N"]]:
    """Predict the columns ``NAMES`` of rows.

    Args:
        regressor: A fitted estimator with one target.
        X: Inputs of the rows in any form that the estimator reads.
        level: Probability of the intervals from lower to upper.
        method: Whether median, lower and upper are the model's, or conformal.
    """
    require_level(level)
    inputs = regressor._reader.read(regressor, X)
    mixture = regressor.predict_distribution(inputs)
    probabilities = [0.5, 0.5 * (1 - level), 0.5 * (1 + level)]
    if method == "model":
        quantiles = finite(mixture.quantiles(probabilities))[:, 0].cpu().numpy()
    else:
        quantiles = regressor.predict_quantiles(inputs, probabilities, method=method)
        quantiles = quantiles.reshape(-1, len(probabilities))
    moments = (mixture.mean, mixture.standard_deviation)
    columns = (finite(values).cpu().numpy()[:, 0] for values in moments)
    return dict(zip(NAMES, (*columns, *quantiles.T), strict=True))


SUFFIX = ".parquet"
"""Suffix of the files that are written."""

Job = tuple[ChunkedTable, Path]
"""A file to predict, and the file to write."""


@dataclass(frozen=True)
class TablePrediction:
    """How a table is predicted; ``write`` predicts it."""

    regressor: BaseRegressor
    """A fitted estimator with one target."""
    schema: Schema
    """How the columns of the table become numbers."""
    level: float
    """Probability of the intervals from lower to upper."""
    prefix: str
    """Prefix of the names of the new columns."""
    drop_missing: bool
    """Whether to leave out rows with missing values; else these are imputed."""
    csv: CsvOptions = AS_FOUND
    """How CSV files are read."""
    no_formulas: bool = False
    """Whether cells of a CSV file that a spreadsheet would run become plain text."""
    method: IntervalMethod = "model"
    """Whether median, lower and upper are the model's, or conformal."""

    def write(
        self,
        source: Path,
        out: Path,
        say: Callable[[str], object],
        processes: Processes = ALONE,
    ) -> int:
        """Write a table with the columns ``NAMES``; return its number of rows.

        A folder becomes a folder with one Parquet file for each file, and a file becomes a Parquet
        file. A CSV file may also become a CSV file, in which all that it has stays byte for byte. A
        file appears when it is complete. Hive partition columns stay in the names of folders.

        Args:
            source: The table: a file, or a folder of Parquet or CSV files.
            out: The folder to write, empty or missing; or the file to write.
            say: Prints a line of progress; called in the first process only.
            processes: The processes that call this together; each predicts some of the files.
        """
        require_level(self.level)
        jobs: list[Job] = []
        processes.run_everywhere(lambda: jobs.extend(self._jobs(source, out)))
        sizes = [file.n_rows for file, _ in jobs]
        paths = [file.name for file, _ in jobs]
        processes.require_same("files", dict(zip(paths, sizes, strict=True)))
        if source.is_dir():
            processes.run_everywhere(lambda: _make_folder(out) if processes.is_first else None)
        mine = assign_by_size(sizes, processes.size)[processes.rank]
        notes = dict.fromkeys(note for file, _ in jobs for note in file.notes)
        for note in notes if processes.is_first else ():
            warnings.warn(note, TableNote, stacklevel=2)
        advance = prediction_progress(
            say if processes.is_first else None, sum(sizes[number] for number in mine)
        )
        rows: Counter[str] = Counter()

        def predict() -> Generator[None, None, None]:
            for number in mine:
                yield from self._write_file(*jobs[number], rows, advance)

        run_with_heartbeat(processes, predict())
        rows = sum(processes.all_gather(rows), Counter())
        if rows["left out"] and processes.is_first:
            say(f"Left out {rows['left out']} of {rows.total()} rows with missing values.")
        return rows["predicted"]

    def _jobs(self, source: Path, out: Path) -> list[Job]:
        """Return the files to predict; raise the errors that can be found without reading rows."""
        in_folder = source.is_dir()
        if not in_folder:
            require_copy(source, out)
            require_folder(out)
        table = open_table(source, csv=self.csv.for_model(self.schema.text_names))
        require_columns(table.schema, self.schema.used)
        require_new_names(table.schema.names, [self.prefix + name for name in NAMES])
        files = table.split()
        jobs = [(file, _output_file(file, source, out) if in_folder else out) for file in files]
        counts = Counter(written for _, written in jobs)
        if same := [file.name for file, written in jobs if counts[written] > 1]:
            raise TableError(
                f"Files must differ in more than their suffix, because all become {SUFFIX} files. "
                f"Got {quote_names(same)}; rename some of them."
            )
        return jobs

    def _write_file(
        self,
        file: ChunkedTable,
        out: Path,
        rows: Counter[str],
        advance: Callable[[int], None],
    ) -> Generator[None, None, None]:
        """Write one file, a chunk at a time, and count predicted and left-out rows."""
        out.parent.mkdir(parents=True, exist_ok=True)
        with closing(prefetched(file.chunks(self.schema.used))) as chunks:

            def predicted() -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
                for chunk in chunks:
                    kept, columns = self._predict(chunk)
                    yield kept, columns
                    rows["predicted"] += int(kept.sum())
                    rows["left out"] += int((~kept).sum())
                    advance(len(kept))

            names = [self.prefix + name for name in NAMES]
            yield from copy_file(file, out, names, predicted(), no_formulas=self.no_formulas)

    def _predict(self, chunk: TableChunk) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return which rows of a chunk are predicted, and their new columns."""
        table, numbers = chunk.table, np.arange(chunk.first, chunk.first + chunk.table.num_rows)
        kept = np.ones(len(numbers), dtype=bool)
        if self.drop_missing:
            kept = complete_rows(table, self.schema.used)
            table, numbers = keep_rows(table, kept), numbers[kept]
        # Fewer at a time where categories make the matrix wide.
        n_rows = rows_per_chunk(len(self.schema.feature_names))
        parts = []
        with naming_infinite(numbers, table.select(self.schema.used), chunk.file, "its file"):
            for piece in split_rows(table, n_rows):
                inputs = self.regressor._reader.impute(self.schema.encode(piece))
                parts.append(predicted_columns(self.regressor, inputs, self.level, self.method))
        return kept, {
            self.prefix + name: np.concatenate([np.empty(0), *(part[name] for part in parts)])
            for name in NAMES
        }


def assign_by_size(sizes: Sequence[int], n_workers: int) -> list[list[int]]:
    """Assign items, largest first, to the least-loaded worker; return the items of each worker."""
    assigned: list[list[int]] = [[] for _ in range(n_workers)]
    loads = [0] * n_workers
    for number in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        least = loads.index(min(loads))
        assigned[least].append(number)
        loads[least] += sizes[number]
    return assigned


def _output_file(file: ChunkedTable, source: Path, out: Path) -> Path:
    """Return the file to write for a file of a folder."""
    path = out / Path(file.name).relative_to(source)
    suffix = table_suffix(path)
    return path if suffix == SUFFIX else path.with_name(path.name[: -len(suffix)] + SUFFIX)


def _make_folder(path: Path) -> None:
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise TableError(
            "The predictions of a folder must go to a folder that is empty or does not exist. Got "
            f"{str(path)!r}, which is {'not empty' if path.is_dir() else 'a file'}; choose another."
        )
    resolve_link(path).mkdir(parents=True, exist_ok=True)
