"""An order of rows in which runs of rows lie close together."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray


def partition_order(rows: Float64[ndarray, "N D"], size: int) -> Int64[ndarray, " N"]:
    """Return an order in which every run of ``size`` rows is a leaf of a k-d tree.

    Each cell of the tree is split along its widest side so that both halves get the same number
    of leaves, give or take one. All leaves but the last have ``size`` rows.
    """
    order = np.arange(len(rows))
    cells = [(0, len(rows))]
    while cells:
        begin, end = cells.pop()
        n_leaves = -(-(end - begin) // size)
        if n_leaves < 2:
            continue
        own = rows[order[begin:end]]
        widest = np.argmax(own.max(0) - own.min(0))
        middle = n_leaves // 2 * size
        halves = np.argpartition(own[:, widest], middle)
        order[begin:end] = order[begin:end][halves]
        cells += [(begin, begin + middle), (begin + middle, end)]
    return order
