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
from jaxtyping import Float64, Int64

from sswim.base.validation import require_integer
from sswim.distributed.processes import ALONE, Processes, run_with_heartbeat
from sswim.estimator.evaluation import Scores, sum_scores
from sswim.estimator.inputs import check_rows
from sswim.estimator.insight import input_names
from sswim.estimator.progress import prediction_progress
from sswim.rows.summary import smallest_keys
from sswim.tables import (
    AS_FOUND,
    KEEP_ALL,
    CsvOptions,
    LeftOut,
    Schema,
    rows_per_chunk,
    sample_table,
)

if TYPE_CHECKING:
    from sswim.estimator.base import BaseRegressor

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
    regressor: BaseRegressor,
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
    inputs = schema.encode(rows.table)
    importance = _shuffle_columns(
        regressor,
        inputs,
        rows.targets,
        schema.used,
        partial(schema.with_column_in_order, inputs, rows.table),
        n_repeats,
        random_state,
        processes,
        say,
    )
    return replace(importance, n_rows=sample.n_rows)


def importance_of_rows(
    regressor: BaseRegressor, X: Any, y: Any, *, n_repeats: int, random_state: int
) -> Importance:
    """Shuffle each column of an array, frame or table in memory; see ``permutation_importance``.

    Args:
        regressor: A fitted estimator.
        X: Inputs, (N, D).
        y: Targets, (N,) or (N, T), or the name of the target column of a frame or table.
        n_repeats: Number of times that each column is shuffled.
        random_state: Seed of the shuffles.
    """
    reader = regressor._reader
    if isinstance(y, str):
        X, y = reader.split_target(X, y)
    table = None if reader.schema is None else reader.read_table(X)
    inputs = reader.encode(regressor, X if table is None else table)
    rows = check_rows(regressor, reader.impute(inputs), y)
    chosen = smallest_keys(np.arange(len(rows)), MAX_ROWS)
    inputs, targets = inputs[chosen], rows.targets.numpy()[chosen]
    names: Sequence[str] = input_names(reader)

    def reorder_input(name: str, order: Int64[np.ndarray, " N"]) -> Float64[np.ndarray, "N D"]:
        changed, place = inputs.copy(), names.index(name)
        changed[:, place] = inputs[order, place]
        return changed

    reorder: Callable[[str, Int64[np.ndarray, " N"]], Float64[np.ndarray, "N D"]] = reorder_input
    if reader.schema is not None and table is not None:
        names = reader.schema.used
        reorder = partial(reader.schema.with_column_in_order, inputs, table.take(chosen))
    importance = _shuffle_columns(
        regressor, inputs, targets, names, reorder, n_repeats, random_state
    )
    return replace(importance, n_rows=len(rows))


def _shuffle_columns(
    regressor: BaseRegressor,
    inputs: Float64[np.ndarray, "N D"],
    targets: Float64[np.ndarray, "N T"],
    names: Sequence[str],
    reorder: Callable[[str, Int64[np.ndarray, " N"]], Float64[np.ndarray, "N D"]],
    n_repeats: int,
    random_state: int,
    processes: Processes = ALONE,
    say: Callable[[str], object] | None = None,
) -> Importance:
    """Shuffle each column in turn, and compare scores with those of the rows as they are.

    Args:
        regressor: A fitted estimator.
        inputs: Inputs of the rows, NaN where they are missing.
        targets: Targets of the rows.
        names: Names of the columns.
        reorder: Returns the inputs with the values of a column in another order.
        n_repeats: Number of times that each column is shuffled.
        random_state: Seed of the shuffles.
        processes: The processes that share the work.
        say: Prints a line of progress.
    """
    require_integer("n_repeats", n_repeats, 2)
    require_integer("random_state", random_state, 0)
    n_rows = len(targets)
    scores = _score(regressor, inputs, targets)
    tasks = [(place, repeat) for repeat in range(n_repeats) for place in range(len(names))]
    mine = tasks[processes.rank :: processes.size]
    advance = prediction_progress(say if processes.is_first else None, len(mine))
    rises: dict[tuple[int, int], tuple[float, float]] = {}

    def shuffle() -> Generator[None, None, None]:
        for place, repeat in mine:
            # One generator per task: the result does not depend on who does it.
            generator = np.random.default_rng([random_state, place, repeat])
            shuffled = reorder(names[place], generator.permutation(n_rows))
            worse = _score(regressor, shuffled, targets)
            rises[place, repeat] = worse.rmse - scores.rmse, worse.mnlp - scores.mnlp
            advance(1)
            yield

    run_with_heartbeat(processes, shuffle())
    for others in processes.all_gather(rises):
        rises |= others
    columns = []
    for place, name in enumerate(names):
        scored = zip(*(rises[place, repeat] for repeat in range(n_repeats)), strict=True)
        rmse, mnlp = (Rise(float(np.mean(v)), float(np.std(v, ddof=1))) for v in scored)
        columns.append(ColumnImportance(name, rmse, mnlp))
    columns.sort(key=lambda column: column.rmse.mean, reverse=True)
    return Importance(tuple(columns), scores, n_rows)


def _score(
    regressor: BaseRegressor,
    inputs: Float64[np.ndarray, "N D"],
    targets: Float64[np.ndarray, "N T"],
) -> Scores:
    """Score rows, fewer at a time where they have many inputs."""
    n_rows = rows_per_chunk(inputs.shape[1])
    parts = []
    for first in range(0, len(targets), n_rows):
        rows = slice(first, first + n_rows)
        measure = regressor._reader.impute(inputs[rows])
        parts.append(sum_scores(regressor, measure, targets[rows], level=0.9))
    return reduce(add, parts).scores()
