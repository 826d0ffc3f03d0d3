"""Rows that an ensemble is conditioned on when it is next used."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from sswim.base.record import rows_at_once
from sswim.posterior.ensemble import Ensemble
from sswim.posterior.held_rows import join_rows
from sswim.rows.rows import Rows


@dataclass(frozen=True)
class PendingUpdates:
    """An ensemble, and pieces of rows that wait until it is used or until they are many.

    A small piece costs far more to condition on alone than among others: a factorisation for every
    member that predicts by features, and a copy of all rows for those that predict by neighbours.
    """

    base: Ensemble
    """Ensemble without the rows that wait."""
    pieces: tuple[Rows, ...] = ()
    """The rows that wait, in units of the data."""
    n_waiting: int = 0
    """Number of the rows that wait."""

    @cached_property
    def ensemble(self) -> Ensemble:
        """The ensemble, conditioned on all rows."""
        return self.base.update(join_rows(self.pieces)) if self.pieces else self.base

    def add(self, rows: Rows) -> PendingUpdates:
        """Return updates with further rows, which are copied where they wait."""
        used = "ensemble" in vars(self)  # and then it has the rows that waited
        start = PendingUpdates(self.ensemble) if used else self
        n_waiting = start.n_waiting + len(rows)
        n_held = 0 if start.base.rows is None else len(start.base.rows)
        # One chunk is enough for sums. Held rows are copied, so the rows must double each time.
        if n_waiting >= max(rows_at_once(rows), n_held):
            return PendingUpdates(start.base.update(join_rows([*start.pieces, rows])))
        return PendingUpdates(start.base, (*start.pieces, rows.map(torch.clone)), n_waiting)
