"""Training that begins with few of the rows and ends with all of them.

Far from the optimum a few rows point the same way as all of them do, at a fraction of the cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from sswim.rows.rows import Rows

STAGES = ((0.2, 16), (0.3, 4), (0.5, 1))
"""The share of the steps, and of how many rows one is seen in them."""

FEWEST = 2000
"""Rows that every step sees, if there are as many."""


def growing(rows: Rows, n_steps: int) -> Iterator[Rows]:
    """The rows that each of the steps sees: the same record as long as they are the same.

    Which are seen first is random, and the same every time.
    """
    n_rows = len(rows)
    order = torch.randperm(n_rows, generator=torch.Generator().manual_seed(0))
    order = order.to(rows.targets.device)
    done, share = 0, 0.0
    for part, divisor in STAGES:
        share += part
        n_seen = max(n_rows // divisor, FEWEST)
        seen = rows
        if n_seen < n_rows:
            seen = rows.map(partial(torch.index_select, dim=rows.axis, index=order[:n_seen]))
        last = round(share * n_steps)
        for _ in range(done, last):
            yield seen
        done = last
