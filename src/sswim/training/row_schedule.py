"""A schedule of rows: the first steps use few rows, the last steps all of them.

Far from the optimum the gradient of a few rows points the same way as that of all rows, at a
fraction of the cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from sswim.rows.rows import Rows

STAGES = ((0.2, 16), (0.3, 4), (0.5, 1))
"""(fraction of steps, use one row in n)"""

MIN_ROWS = 2000
"""Smallest number of rows of a step, if there are that many."""


def growing(rows: Rows, n_steps: int) -> Iterator[Rows]:
    """Yield the rows of each step, the same record as long as they do not change.

    The rows of the first steps are a random choice with a fixed seed.
    """
    n_rows = len(rows)
    order = torch.randperm(n_rows, generator=torch.Generator().manual_seed(0))
    order = order.to(rows.targets.device)
    done, share = 0, 0.0
    for part, divisor in STAGES:
        share += part
        n_seen = max(n_rows // divisor, MIN_ROWS)
        seen = rows
        if n_seen < n_rows:
            seen = rows.map(partial(torch.index_select, dim=rows.axis, index=order[:n_seen]))
        last = round(share * n_steps)
        for _ in range(done, last):
            yield seen
        done = last
