"""Permutation importance: how much worse predictions become when a column is shuffled among rows.

A column of the table is shuffled as it is, before text becomes levels and gaps are filled in. What
rises is what the model draws from that column alone: of two columns that say the same, either can
be shuffled with little harm.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sswim.base.validation import require_integer
from sswim.distributed.processes import ALONE, Processes, run_with_heartbeat
from sswim.estimator.evaluation import Scores, sum_scores
from sswim.estimator.inputs import as_numpy
from sswim.estimator.progress import prediction_progress
from sswim.rows.imputer import Encoded
from sswim.rows.summary import smallest_keys
from sswim.tables import AS_FOUND, KEEP_ALL, CsvOptions, LeftOut, Schema, chunk_rows, sample_table

if TYPE_CHECKING:
    from sswim.estimator.insight_methods import InsightMethods
    from sswim.estimator.regressor import SSWIMRegressor

MAX_ROWS = 10_000
"""Largest number of rows that are shuffled; of more, a random sample is."""


@dataclass(frozen=True)
class Rise:
    """How much a score rises when a column is shuffled."""

    mean: float
    """Mean over the repeats."""
    deviation: float
    """Standard deviation over the repeats."""


@dataclass(frozen=True)
class ColumnImportance:
    """How much worse predictions become when one column is shuffled."""

    name: str
    rmse: Rise
    """Rise of the root mean square error, in the units of the target."""
    mnlp: Rise
    """Rise of the mean negative log probability, in nats."""


@dataclass(frozen=True)
class Importance:
    """Permutation importance of the columns of a table."""

    columns: tuple[ColumnImportance, ...]
    """The columns, that with the largest rise of the RMSE first."""
    scores: Scores
    """Scores of the same rows as they are."""
    n_rows: int
    """Number of usable rows of the table, of which ``scores.n_rows`` were shuffled."""


def permutation_importance(
    regressor: SSWIMRegressor,
    schema: Schema,
    path: str | Path,
    *,
    n_repeats: int = 5,
    random_state: int = 0,
    left_out: LeftOut = KEEP_ALL,
    processes: Processes = ALONE,
    memory: int | None = None,
    csv: CsvOptions = AS_FOUND,
    say: Callable[[str], object] | None = None,
) -> Importance:
    """Shuffle each column of a table in turn, and compare scores with those of the table.

    Args:
        regressor: A fitted estimator with one target.
        schema: How the columns of the table become numbers.
        path: A file, or a folder of Parquet or CSV files.
        n_repeats: Number of times that each column is shuffled.
        random_state: Seed of the shuffles.
        left_out: Which rows are left out because values are missing.
        processes: The processes that call this together, and share the work.
        memory: Size in bytes up to which a file is read whole; None to read everything in chunks.
        csv: How CSV files are read.
        say: Prints a line of progress; called in the first process only.
    """
    sample = sample_table(
        schema, path, MAX_ROWS, left_out=left_out, processes=processes, memory=memory, csv=csv
    )
    rows = sample.rows
    found = _shuffle_columns(
        schema.used,
        partial(_score_table, regressor, schema, rows.table, rows.targets),
        len(rows.targets),
        n_repeats,
        random_state,
        processes,
        say,
    )
    return replace(found, n_rows=sample.n_rows)


def importance_of_rows(
    regressor: InsightMethods, X: Any, y: Any, *, n_repeats: int, random_state: int
) -> Importance:
    """Shuffle each column of an array, frame or table in memory; see ``permutation_importance``.

    Args:
        regressor: A fitted estimator.
        X: Inputs, (N, D).
        y: Targets, (N,) or (N, T), or the name of the target column of a frame or table.
        n_repeats: Number of times that each column is shuffled.
        random_state: Seed of the shuffles.
    """
    rows = regressor._check_rows(X, y, None)  # errors about X and y come first
    n_rows, targets = len(rows), rows.targets.cpu().numpy()
    chosen = smallest_keys(np.arange(n_rows), MAX_ROWS)
    reader = regressor._reader
    if reader.schema is None:
        names = regressor._input_names()
        inputs = np.asarray(as_numpy(X), dtype=np.float64)[chosen]
        score = partial(_score_array, regressor, inputs, targets[chosen])
    else:
        names = tuple(reader.schema.used)
        table = reader.read_table(X).select(names).take(chosen)
        score = partial(_score_table, regressor, reader.schema, table, targets[chosen])
    found = _shuffle_columns(names, score, len(chosen), n_repeats, random_state)
    return replace(found, n_rows=n_rows)


Score = Callable[[int | None, np.ndarray], Scores]
"""Scores rows with the column of one place in an order, or as they are if there is no place."""


def _shuffle_columns(
    names: Sequence[str],
    score: Score,
    n_rows: int,
    n_repeats: int,
    random_state: int,
    processes: Processes = ALONE,
    say: Callable[[str], object] | None = None,
) -> Importance:
    """Shuffle each column in turn, and compare scores with those of the rows as they are."""
    require_integer("n_repeats", n_repeats, 2)
    require_integer("random_state", random_state, 0)
    scores = score(None, np.arange(n_rows))
    tasks = [(place, repeat) for repeat in range(n_repeats) for place in range(len(names))]
    mine = tasks[processes.rank :: processes.size]
    speak = say if say is not None and processes.is_first else _ignore
    advance = prediction_progress(speak, len(mine))
    rises: dict[tuple[int, int], tuple[float, float]] = {}

    def shuffle() -> Generator[None, None, None]:
        for place, repeat in mine:
            # One generator per task: the result does not depend on who does it.
            generator = np.random.default_rng([random_state, place, repeat])
            found = score(place, generator.permutation(n_rows))
            rises[place, repeat] = found.rmse - scores.rmse, found.mnlp - scores.mnlp
            advance(1)
            yield

    run_with_heartbeat(processes, shuffle())
    every = {task: rise for each in processes.all_gather(rises) for task, rise in each.items()}
    columns = []
    for place, name in enumerate(names):
        rmse, mnlp = zip(*(every[place, repeat] for repeat in range(n_repeats)), strict=True)
        columns.append(ColumnImportance(name, _rise(rmse), _rise(mnlp)))
    columns.sort(key=lambda column: column.rmse.mean, reverse=True)
    return Importance(tuple(columns), scores, n_rows)


def _score_table(
    regressor: InsightMethods,
    schema: Schema,
    table: pa.Table,
    targets: np.ndarray,
    place: int | None,
    order: np.ndarray,
) -> Scores:
    """Score rows of a table, fewer at a time where levels make the matrix wide."""
    if place is not None:
        table = _with_column_in_order(table, schema.used[place], order)
    n_rows = chunk_rows(len(schema.feature_names))
    parts = [
        sum_scores(
            regressor,
            schema.encode(table.slice(first, n_rows)),
            targets[first : first + n_rows],
            coverage=0.9,
        )
        for first in range(0, len(targets), n_rows)
    ]
    return reduce(add, parts).scores()


def _score_array(
    regressor: InsightMethods,
    inputs: np.ndarray,
    targets: np.ndarray,
    place: int | None,
    order: np.ndarray,
) -> Scores:
    """Score rows of an array."""
    if place is not None:
        inputs = inputs.copy()
        inputs[:, place] = inputs[order, place]
    return sum_scores(regressor, Encoded(inputs), targets, coverage=0.9).scores()


def _with_column_in_order(table: pa.Table, name: str, order: np.ndarray) -> pa.Table:
    """Return a table with the values of one column in another order."""
    place = table.column_names.index(name)
    return table.set_column(place, name, table.column(name).take(order))


def _rise(values: Sequence[float]) -> Rise:
    return Rise(float(np.mean(values)), float(np.std(values, ddof=1)))


def _ignore(text: str) -> None:
    """Print nothing."""
