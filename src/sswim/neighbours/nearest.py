"""The nearest points of queries, and what every search for them can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Float, Float64, Int64
from torch import Tensor

from sswim.base.record import Record


@dataclass(frozen=True)
class Nearest(Record):
    """The nearest points of every query, the nearest first."""

    indices: Int64[Tensor, "Q k"]
    squared: Float64[Tensor, "Q k"]
    """Squared distances."""


@runtime_checkable
class Search(Protocol):
    """A search for the nearest of fixed points."""

    @property
    def n_points(self) -> int:
        """Number of points."""
        ...

    def nearest(self, queries: Float[Tensor, "Q D"], k: int) -> Nearest:
        """Return the k points nearest to each query; points at equal distances in any order."""
        ...


def check_neighbours(k: int, n_points: int) -> None:
    """Raise unless there are k points.

    Args:
        k: Number of neighbours that were asked for.
        n_points: Number of points.
    """
    if not 1 <= k <= n_points:
        raise ValueError(
            f"The number of neighbours must be between 1 and the number of points. Got k={k} and "
            f"{n_points} points. Ask for fewer neighbours, or search in more points."
        )
