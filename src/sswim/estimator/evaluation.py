"""How well a fitted regressor predicts rows whose targets are known."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float64
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from sswim.base.record import Record
from sswim.base.validation import require_coverage
from sswim.distributed.heartbeat import run_with_heartbeat
from sswim.distributed.processes import ALONE, Processes
from sswim.estimator.regressor import SSWIMRegressor
from sswim.rows.moments import Moments, moments
from sswim.rows.prefetch import prefetched
from sswim.tables.open_table import open_table
from sswim.tables.schema import Schema
from sswim.tables.table_io import TableError
from sswim.tables.table_source import TableSource


@dataclass(frozen=True)
class Scores:
    """The metrics of the paper, and two that readers of tables know."""

    rmse: float
    """Root mean square error, in the units of the target."""
    mnlp: float
    """Mean negative log probability of the observations, in nats."""
    r2: float
    """The share of the variance that the mean explains; NaN of a single row."""
    coverage: float
    """The share of observations within their intervals."""
    n_rows: int
    n_left_out: int = 0
    """Number of rows of a table that were left out because values are missing."""


def evaluate(regressor: SSWIMRegressor, X: Any, y: Any, coverage: float = 0.9) -> Scores:
    """Score predictions; ``coverage`` is the nominal one of the intervals."""
    return _tally(regressor, X, y, coverage).scores()


def evaluate_tables(
    regressor: SSWIMRegressor,
    schema: Schema,
    path: str | Path,
    coverage: float = 0.9,
    drop_missing: bool = False,
    processes: Processes = ALONE,
    memory: int | None = None,
) -> Scores:
    """Score predictions of a table that need not fit in memory.

    Args:
        regressor: A fitted one.
        schema: How it reads tables.
        path: A file, or a folder of Parquet or CSV files.
        coverage: The nominal one of the intervals.
        drop_missing: Leave rows with missing values out, rather than refuse them.
        processes: Which call this together, and read a share each.
        memory: Size in bytes up to which a file is read whole; by default all is read in chunks.
    """
    tallies: list[ScoreSums] = []
    n_left_out = 0

    def read() -> Generator[None, None, None]:
        nonlocal n_left_out
        source = TableSource(open_table(path, memory), schema, drop_missing)
        with closing(prefetched(source.counted_chunks(processes.share))) as chunks:
            for chunk, n_incomplete in chunks:
                n_left_out += n_incomplete
                if chunk is not None:
                    tally = _tally(regressor, chunk.inputs, chunk.targets, coverage)
                    tallies[:] = [reduce(add, tallies, tally)]
                yield

    run_with_heartbeat(processes, read())
    found = [tally for each in processes.all_gather(tallies) for tally in each]
    if not found:
        raise TableError(
            "At least one row must have a value in each column that is used. Got none such in "
            f"{str(path)!r}."
        )
    return replace(reduce(add, found).scores(), n_left_out=sum(processes.all_gather(n_left_out)))


@dataclass(frozen=True)
class ScoreSums(Record):
    """Sums over rows, from which the scores follow; those of two sets of rows add up."""

    targets: Moments
    squared_error: Float64[Tensor, " T"]
    log_density: Float64[Tensor, " T"]
    n_inside: Float64[Tensor, " T"]
    """Observations within their intervals."""

    def __add__(self, other: ScoreSums) -> ScoreSums:
        return ScoreSums(
            self.targets + other.targets,
            self.squared_error + other.squared_error,
            self.log_density + other.log_density,
            self.n_inside + other.n_inside,
        )

    def scores(self) -> Scores:
        """Averages over rows and targets."""
        n_rows = int(self.targets.weight)
        return Scores(
            rmse=(self.squared_error / n_rows).mean().sqrt().item(),
            mnlp=-(self.log_density / n_rows).mean().item(),
            r2=self._explained().mean().item() if n_rows > 1 else math.nan,
            coverage=(self.n_inside / n_rows).mean().item(),
            n_rows=n_rows,
        )

    def _explained(self) -> Float64[Tensor, " T"]:
        """As scikit-learn has it: of a constant target all or nothing."""
        error, total = self.squared_error, self.targets.weight * self.targets.spread.square()
        return 1 - torch.where(total > 0, error / total, (error > 0).double())


def _tally(regressor: SSWIMRegressor, X: Any, y: Any, coverage: float) -> ScoreSums:
    require_coverage(coverage)
    check_is_fitted(regressor)
    rows = regressor._rows(X, y, None, None, reset=False).to(device=regressor._device)
    targets, mixture = rows.targets, regressor._ensemble.predict(rows.inputs)
    # Whether y lies between two quantiles, without finding these.
    inside = (mixture.cdf(targets) - 0.5).abs() <= 0.5 * coverage
    return ScoreSums(
        moments(targets, None),
        (mixture.mean - targets).square().sum(0),
        mixture.log_density(targets).sum(0),
        inside.double().sum(0),
    ).to(device=torch.device("cpu"))
