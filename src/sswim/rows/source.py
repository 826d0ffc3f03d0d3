"""Sources of rows: chunks that can be read any number of times, by one process or dealt to several.

A source never needs all of its rows at once. It numbers them, so that what is drawn from them does
not depend on how they are cut into chunks or dealt to processes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64

from sswim.distributed.share import WHOLE, Share


@dataclass(frozen=True)
class Chunk:
    """Some rows, in the units of the data."""

    numbers: Int64[np.ndarray, " n"]
    """Of the rows, among all of the source: each row has one, and no other has the same."""
    inputs: Float64[np.ndarray, "n D"]
    targets: Float64[np.ndarray, "n T"]
    weight: Float64[np.ndarray, " n"] | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, which: Int64[np.ndarray, " m"] | Bool[np.ndarray, " n"]) -> Chunk:
        """Copies of some of the rows, so that the others need not be kept."""
        weight = None if self.weight is None else self.weight[which]
        return Chunk(self.numbers[which], self.inputs[which], self.targets[which], weight)


class Source(ABC):
    """Rows that can be read again and again."""

    names: tuple[str, ...] | None = None
    """Of the inputs, if they have any."""

    table_schema: dict[str, Any] | None = None
    """How tables are read, if the rows are those of one; see :class:`sswim.tables.schema.Schema`."""

    flat_targets: bool = True
    """Whether predictions have the shape (N,) rather than (N, T)."""

    def facts(self) -> dict[str, Any]:
        """What must be the same wherever the rows are read, as far as it is known before."""
        return {}

    @abstractmethod
    def chunks(self, share: Share = WHOLE) -> Iterator[Chunk]:
        """The rows of a share from the first to the last, always the same; perhaps none."""
