"""Scores of a fitted estimator on rows whose targets are known.

Scores are those of all rows together, of a table that need not fit in memory, or of single rows;
intervals of scores say how much they depend on which rows were drawn.

Permutation importance says how much worse scores become when a column is shuffled among rows. A
column of a table is shuffled as it is, before text becomes levels and gaps are filled in. What
rises is what the model draws from that column alone: of two columns that say the same, either can
be shuffled with little harm.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64
from scipy import stats
from torch import Tensor

from sswim.base.record import Record, chunks
from sswim.base.validation import UserError, require_integer, require_level
from sswim.distributed.processes import ALONE, Processes, run_with_heartbeat
from sswim.estimator.base import BaseRegressor
from sswim.estimator.inputs import check_rows
from sswim.estimator.insight import input_names
from sswim.estimator.progress import prediction_progress
from sswim.rows.scaling import Moments, moments
from sswim.rows.source import prefetched
from sswim.rows.summary import smallest_keys
from sswim.tables import (
    AS_FOUND,
    KEEP_ALL,
    CsvOptions,
    LeftOut,
    Schema,
    TableError,
    TableNote,
    naming_infinite,
    open_table,
    read_rows,
    rows_per_chunk,
    sample_table,
)


@dataclass(frozen=True)
class Scores:
    """The metrics of the paper, R² and the coverage of intervals."""

    rmse: float
    """Root mean square error, in the units of the target."""
    mnlp: float
    """Mean negative log probability of the observations, in nats."""
    r2: float
    """Share of the variance that the mean explains; NaN for a single row."""
    coverage: float
    """Share of observations within their intervals."""
    n_rows: int
    n_left_out: int = 0
    """Number of rows of a table that were left out because values are missing."""


def evaluate(regressor: BaseRegressor, X: Any, y: Any, level: float = 0.9) -> Scores:
    """Score predictions of rows with known targets.

    Args:
        regressor: A fitted estimator.
        X: Inputs, (N, D).
        y: Targets, (N,) or (N, T).
        level: Probability of the intervals.
    """
    return sum_scores(regressor, X, y, level).scores()


@dataclass(frozen=True)
class ScoreSums(Record):
    """Sums over rows that the scores follow from; ``+`` adds those of two sets of rows."""

    targets: Moments
    squared_error: Float64[Tensor, " T"]
    log_density: Float64[Tensor, " T"]
    n_inside: Float64[Tensor, " T"]
    """Number of observations within their intervals."""

    def __add__(self, other: ScoreSums) -> ScoreSums:
        return ScoreSums(*map(add, vars(self).values(), vars(other).values()))

    def scores(self) -> Scores:
        """Return averages over rows and targets."""
        n_rows = int(self.targets.weight)
        # R² as scikit-learn defines it: 1 or 0 for a constant target
        error, total = self.squared_error, self.targets.weight * self.targets.spread.square()
        r2 = 1 - torch.where(total > 0, error / total, (error > 0).double())
        return Scores(
            rmse=(self.squared_error / n_rows).mean().sqrt().item(),
            mnlp=-(self.log_density / n_rows).mean().item(),
            r2=r2.mean().item() if n_rows > 1 else math.nan,
            coverage=(self.n_inside / n_rows).mean().item(),
            n_rows=n_rows,
        )


def sum_scores(regressor: BaseRegressor, X: Any, y: Any, level: float) -> ScoreSums:
    """Predict rows with known targets, and sum what their scores need."""
    require_level(level)
    rows = check_rows(regressor, X, y)
    mixture = regressor.predict_distribution(rows.inputs)
    targets = rows.targets.to(mixture.weights.device)
    # y lies between two quantiles if its cdf does: no quantile has to be found.
    inside = (mixture.cdf(targets) - 0.5).abs() <= 0.5 * level
    return ScoreSums(
        moments(targets, None),
        (mixture.mean - targets).square().sum(0),
        mixture.log_density(targets).sum(0),
        inside.double().sum(0),
    ).to(device=torch.device("cpu"))


CHUNK_ROWS = 500
"""Number of rows that are predicted together; the CRPS needs hundreds of numbers for each."""

COVERAGE = 0.9
"""Nominal coverage of the intervals."""


@dataclass(frozen=True)
class RowScores:
    """Predictions of rows of one target, and how well they meet the observations."""

    target: Float64[np.ndarray, " N"]
    mean: Float64[np.ndarray, " N"]
    deviation: Float64[np.ndarray, " N"]
    """Standard deviation of a new observation."""
    noise: Float64[np.ndarray, " N"]
    """Standard deviation of the noise alone."""
    lower: Float64[np.ndarray, " N"]
    """Lower end of the central interval of ``COVERAGE``."""
    upper: Float64[np.ndarray, " N"]
    pit: Float64[np.ndarray, " N"]
    """Predicted probability of a smaller target."""
    log_density: Float64[np.ndarray, " N"]
    """Log probability density of the target, in nats."""
    crps: Float64[np.ndarray, " N"]
    """Continuous ranked probability score, in the units of the target."""

    @property
    def residual(self) -> Float64[np.ndarray, " N"]:
        """Target minus predicted mean."""
        return self.target - self.mean

    def inside(self, level: float) -> Float64[np.ndarray, " N"]:
        """Return 1 for targets within their central interval of a level, else 0."""
        return (np.abs(self.pit - 0.5) <= 0.5 * level).astype(np.float64)


def score_rows(
    regressor: BaseRegressor, X: Any, y: Any, advance: Callable[[int], object] | None = None
) -> RowScores:
    """Predict rows with known targets, and score each of them.

    Args:
        regressor: A fitted estimator of one target.
        X: Inputs, an array or an Arrow table.
        y: Targets, (N,) or (N, 1).
        advance: Called with the number of rows that were predicted since its last call.
    """
    if regressor.n_targets_ != 1:
        raise UserError(
            f"Rows are scored for one target. Got a model of {regressor.n_targets_}; fit one "
            "model for each target."
        )
    parts = []
    for rows in chunks(check_rows(regressor, X, y), CHUNK_ROWS):
        mixture = regressor.predict_distribution(rows.inputs)
        targets = rows.targets.to(mixture.weights.device)
        scores = (
            targets,
            mixture.mean,
            mixture.standard_deviation,
            mixture.noise_deviation,
            *mixture.quantiles([0.5 * (1 - COVERAGE), 0.5 * (1 + COVERAGE)]).unbind(-1),
            mixture.cdf(targets),
            mixture.log_density(targets),
            mixture.crps(targets),
        )
        parts.append([values.reshape(-1).cpu().numpy() for values in scores])
        if advance is not None:
            advance(len(rows))
    return RowScores(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


N_DRAWS = 1000
"""Number of bootstrap samples."""

LEVEL = 0.95
"""Coverage of the intervals of scores."""

LEVELS = (0.5, 0.8, 0.9, 0.95)
"""Levels of the predictive intervals that are scored."""

_DRAWS_TOGETHER = 100
"""Number of bootstrap samples in memory at the same time."""


@dataclass(frozen=True)
class ScoreInterval:
    """A score of some rows, and the interval in which that of all rows like them lies."""

    value: float
    lower: float
    upper: float


@dataclass(frozen=True)
class ScoreIntervals:
    """The scores of a report, with 95 % intervals."""

    rmse: ScoreInterval
    mae: ScoreInterval
    r2: ScoreInterval
    mnlp: ScoreInterval
    crps: ScoreInterval
    coverage: dict[float, ScoreInterval]
    """Share of targets within central intervals, by their level."""


def score_intervals(rows: RowScores, *, random_state: int = 0) -> ScoreIntervals:
    """Average the scores of rows, and find intervals of the averages.

    Coverages have exact binomial (Clopper-Pearson) intervals; the others have percentiles of
    bootstrap samples, which hold if the rows are independent.

    Args:
        rows: Scores of single rows.
        random_state: Seed of the bootstrap samples.
    """
    error, n_rows = rows.residual, len(rows.target)
    centred = rows.target - rows.target.mean()  # small numbers, so that squares lose no digits
    columns = [error**2, np.abs(error), rows.log_density, rows.crps, centred, centred**2]
    values = np.stack(columns, axis=1)
    # The means of the rows, and then those of N_DRAWS bootstrap samples of them.
    means = [values.mean(axis=0, keepdims=True)]
    generator = np.random.default_rng(random_state)
    for _ in range(0, N_DRAWS, _DRAWS_TOGETHER):
        counts = generator.multinomial(n_rows, np.full(n_rows, 1 / n_rows), size=_DRAWS_TOGETHER)
        means.append(counts @ values / n_rows)
    squared, absolute, density, crps, first, second = np.concatenate(means).T

    def interval(values: Float64[np.ndarray, " draws"]) -> ScoreInterval:
        tails = 0.5 * (1 - LEVEL), 0.5 * (1 + LEVEL)
        finite = values[1:][np.isfinite(values[1:])]
        low, high = np.quantile(finite, tails) if finite.size else (np.nan, np.nan)
        return ScoreInterval(float(values[0]), float(low), float(high))

    with np.errstate(divide="ignore", invalid="ignore"):
        r2 = 1 - squared / (second - np.square(first))
    return ScoreIntervals(
        rmse=interval(np.sqrt(squared)),
        mae=interval(absolute),
        r2=interval(r2),
        mnlp=interval(-density),
        crps=interval(crps),
        coverage={level: share_interval(rows.inside(level)) for level in LEVELS},
    )


def share_interval(inside: Float64[np.ndarray, " N"]) -> ScoreInterval:
    """Return the share of ones among zeros and ones, with its exact binomial interval."""
    ends = stats.binomtest(int(inside.sum()), len(inside)).proportion_ci(LEVEL)
    return ScoreInterval(float(inside.mean()), float(ends.low), float(ends.high))


def evaluate_table(
    regressor: BaseRegressor,
    schema: Schema,
    path: str | Path,
    level: float = 0.9,
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
        level: Probability of the intervals.
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
        with closing(prefetched(rows)) as targeted:
            for chunk in targeted:
                n_left_out += chunk.n_left_out
                for piece in chunk.pieces(rows_per_chunk(len(schema.feature_names))):
                    with naming_infinite(piece.numbers, piece.table, piece.file):
                        inputs = schema.encode(piece.table)
                    measure = regressor._reader.impute(inputs)
                    part = sum_scores(regressor, measure, piece.targets, level)
                    sums[:] = [reduce(add, sums, part)]
                yield

    run_with_heartbeat(processes, read())
    parts = [part for parts in processes.all_gather(sums) for part in parts]
    if not parts:
        raise TableError(
            "At least one row must have a value in each column that is used. Got none such in "
            f"{str(path)!r}."
        )
    return replace(reduce(add, parts).scores(), n_left_out=sum(processes.all_gather(n_left_out)))


SHUFFLED_ROWS = 10_000
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
        schema, path, SHUFFLED_ROWS, left_out=left_out, processes=processes, memory=memory, csv=csv
    )
    table, targets = sample.rows.table, sample.rows.targets
    inputs = schema.encode(table)
    shuffle = partial(schema.with_column_in_order, inputs, table)
    columns, scores = _shuffle_columns(
        regressor, inputs, targets, schema.used, shuffle, n_repeats, random_state, processes, say
    )
    return Importance(columns, scores, sample.n_rows)


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
    if reader.schema is not None:
        X = reader.read_table(X)
    inputs = reader.encode(regressor, X)
    rows = check_rows(regressor, reader.impute(inputs), y)
    chosen = smallest_keys(np.arange(len(rows)), SHUFFLED_ROWS)
    inputs, targets = inputs[chosen], rows.targets.numpy()[chosen]
    names: Sequence[str] = input_names(reader)

    def shuffle_input(name: str, order: Int64[np.ndarray, " N"]) -> Float64[np.ndarray, "N D"]:
        changed, place = inputs.copy(), names.index(name)
        changed[:, place] = inputs[order, place]
        return changed

    shuffle: Callable[..., Float64[np.ndarray, "N D"]] = shuffle_input
    if reader.schema is not None:
        names = reader.schema.used
        shuffle = partial(reader.schema.with_column_in_order, inputs, X.take(chosen))
    columns, scores = _shuffle_columns(
        regressor, inputs, targets, names, shuffle, n_repeats, random_state
    )
    return Importance(columns, scores, len(rows))


def _shuffle_columns(
    regressor: BaseRegressor,
    inputs: Float64[np.ndarray, "N D"],
    targets: Float64[np.ndarray, "N T"],
    names: Sequence[str],
    shuffle: Callable[..., Float64[np.ndarray, "N D"]],
    n_repeats: int,
    random_state: int,
    processes: Processes = ALONE,
    say: Callable[[str], object] | None = None,
) -> tuple[tuple[ColumnImportance, ...], Scores]:
    """Shuffle each column in turn; return how scores change, and scores of the rows as they are.

    Args:
        regressor: A fitted estimator.
        inputs: Inputs of the rows, NaN where they are missing.
        targets: Targets of the rows.
        names: Names of the columns.
        shuffle: Returns the inputs with the values of a column in another order.
        n_repeats: Number of times that each column is shuffled.
        random_state: Seed of the shuffles.
        processes: The processes that share the work.
        say: Prints a line of progress.
    """
    require_integer("n_repeats", n_repeats, 2)
    require_integer("random_state", random_state, 0)

    def score(inputs: Float64[np.ndarray, "N D"]) -> Scores:
        """Score rows, fewer at a time where they have many inputs."""
        parts = []
        n_rows = rows_per_chunk(inputs.shape[1])
        for first in range(0, len(targets), n_rows):
            rows = slice(first, first + n_rows)
            measure = regressor._reader.impute(inputs[rows])
            parts.append(sum_scores(regressor, measure, targets[rows], level=0.9))
        return reduce(add, parts).scores()

    scores = score(inputs)
    tasks = [(place, repeat) for repeat in range(n_repeats) for place in range(len(names))]
    mine = tasks[processes.rank :: processes.size]
    advance = prediction_progress(say if processes.is_first else None, len(mine))
    rises: dict[tuple[int, int], tuple[float, float]] = {}

    def work() -> Generator[None, None, None]:
        for place, repeat in mine:
            # One generator per task: the result does not depend on who does it.
            order = np.random.default_rng([random_state, place, repeat]).permutation(len(targets))
            worse = score(shuffle(names[place], order))
            rises[place, repeat] = worse.rmse - scores.rmse, worse.mnlp - scores.mnlp
            advance(1)
            yield

    run_with_heartbeat(processes, work())
    for others in processes.all_gather(rises):
        rises |= others
    columns = []
    for place, name in enumerate(names):
        scored = zip(*(rises[place, repeat] for repeat in range(n_repeats)), strict=True)
        rmse, mnlp = (Rise(float(np.mean(v)), float(np.std(v, ddof=1))) for v in scored)
        columns.append(ColumnImportance(name, rmse, mnlp))
    columns.sort(key=lambda column: column.rmse.mean, reverse=True)
    return tuple(columns), scores
