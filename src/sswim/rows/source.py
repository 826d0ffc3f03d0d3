"""Sources of rows: chunks that can be read any number of times, by one process or by several.

A source never needs all of its rows in memory. It numbers them, so that random choices do not
depend on how the rows are cut into chunks or shared among processes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64

from sswim.distributed.share import ALL_ROWS, Share
from sswim.rows.gaussian_imputer import GaussianImputer


@dataclass(frozen=True)
class Chunk:
    """Some rows in the units of the data."""

    numbers: Int64[np.ndarray, " n"]
    """Row numbers within the whole source; no two rows share a number."""
    inputs: Float64[np.ndarray, "n D"]
    targets: Float64[np.ndarray, "n T"]
    weight: Float64[np.ndarray, " n"] | None = None
    """How many times each row counts; None for once."""
    input_variance: Float64[np.ndarray, "n D"] | None = None
    """Variance of each input; None for inputs that are known exactly."""

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, which: Int64[np.ndarray, " m"] | Bool[np.ndarray, " n"]) -> Chunk:
        """Return copies of some of the rows, so that the memory of the others can be freed."""
        return Chunk(
            self.numbers[which],
            self.inputs[which],
            self.targets[which],
            None if self.weight is None else self.weight[which],
            None if self.input_variance is None else self.input_variance[which],
        )


class Source(ABC):
    """Rows that can be read again and again."""

    names: tuple[str, ...] | None = None
    """Names of the inputs, if they have any."""

    columns: tuple[str, ...] | None = None
    """Names of the columns that the inputs were made of, if they differ from the inputs."""

    table_schema: dict[str, Any] | None = None
    """How the columns of a table become numbers; None if the rows do not come from a table."""

    imputer: GaussianImputer | None = None
    """Imputer of missing inputs; if it is None, ``fit`` learns one from a sample of the rows."""

    isotropic: tuple[tuple[int, ...], ...] = ()
    """Groups of inputs that share a unit, so that they are scaled alike."""

    flat_targets: bool = True
    """Whether predictions have the shape (N,) rather than (N, T)."""

    in_memory: bool = False
    """Whether every process holds all rows already; else each process reads its share."""

    def facts(self) -> dict[str, Any]:
        """Return what is known before reading and must be equal in all processes."""
        return {}

    @abstractmethod
    def chunks(self, share: Share = ALL_ROWS) -> Iterator[Chunk]:
        """Iterate over the rows of a share in order, the same in every pass; there may be none."""
