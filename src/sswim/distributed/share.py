"""The share of the rows that one process reads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Share:
    """One of ``size`` equal shares of the rows, numbered from 0."""

    rank: int = 0
    size: int = 1

    def span(self, n_rows: int) -> tuple[int, int]:
        """Return the first row of the share among ``n_rows``, and the first row after it."""
        return self.rank * n_rows // self.size, (self.rank + 1) * n_rows // self.size


ALL_ROWS = Share()
"""The share of a process that reads all rows."""
