"""Progress in plain lines, where no bar can be drawn."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from sswim.lab.bench.accuracy import Row


def in_lines(n_fits: int, write: Callable[[str], None]) -> Callable[[Row], None]:
    """What to call with every row, to write a line about it."""
    numbers = count(1)
    return lambda row: write(f"{next(numbers)} of {n_fits}: {describe(row)}")


def describe(row: Row) -> str:
    """A line about a fit."""
    if row.failure:
        return f"{row.job} failed"
    return (
        f"{row.job}, RMSE {row.rmse:.4f}, MNLP {row.mnlp:.4f}, "
        f"coverage {row.coverage_90:.3f}, {row.fit_seconds:.1f} s"
    )
