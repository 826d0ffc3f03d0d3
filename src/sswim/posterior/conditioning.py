"""Conditioning a trained model on rows, in the way that its architecture says."""

from __future__ import annotations

from collections.abc import Iterable

from sswim.base.record import concatenate
from sswim.distributed.processes import ALONE, Processes
from sswim.model.sswim import SSWIM
from sswim.posterior.feature_predictor import condition_by_features
from sswim.posterior.neighbour_predictor import condition_on_rows
from sswim.posterior.predictor import Predictor
from sswim.rows.rows import Rows


def condition(model: SSWIM, rows: Rows | Iterable[Rows], processes: Processes = ALONE) -> Predictor:
    """Condition a model on rows.

    Later changes of the model do not change the predictor.

    Args:
        model: A single model, not a batch.
        rows: Rows in memory, or chunks of rows in an iterable that can be started again.
        processes: Processes whose rows are added up. For a model that predicts by neighbours, every
            process has all rows.
    """
    if model.architecture.n_neighbors:
        return condition_on_rows(model, rows if isinstance(rows, Rows) else concatenate(rows))
    return condition_by_features(model, rows, processes)
