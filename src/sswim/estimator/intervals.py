"""Conformal intervals of a fitted estimator: calibration, and quantiles within groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from sswim import conformal
from sswim.base.validation import UserError, require_tail
from sswim.conformal import Calibration
from sswim.estimator.fitted import Fitted
from sswim.estimator.inputs import as_numpy
from sswim.rows.rows import Measure, Rows

IntervalMethod = Literal["model", "conformal"]


def check_probabilities(probabilities: Any) -> list[float]:
    """Return probabilities of quantiles; raise unless they are between 0 and 1 and resolved."""
    checked = np.atleast_1d(np.asarray(probabilities, dtype=np.float64))
    if checked.ndim != 1 or len(checked) == 0 or not np.all((checked > 0) & (checked < 1)):
        raise UserError(
            f"probabilities must be one or more numbers between 0 and 1. Got {probabilities}."
        )
    for probability in checked.tolist():
        require_tail("probabilities", min(probability, 1 - probability), probability)
    return checked.tolist()


def conformal_quantiles(
    fitted: Fitted, inputs: Measure, probabilities: Sequence[float], groups: Any
) -> Float64[Tensor, "N T Q"]:
    """Return conformal quantiles: of all rows together, or within groups.

    Args:
        fitted: What the estimator has learnt.
        inputs: Inputs of the rows.
        probabilities: Probabilities of the quantiles.
        groups: None, the label of each row, or the name of a column.
    """
    if isinstance(groups, str):
        return _quantiles_by_column(fitted, inputs, probabilities, groups)
    predictor = fitted.conformal
    if groups is None:
        predictor.require_rows(probabilities)
        return predictor.quantiles(inputs, probabilities)
    known = None if fitted.calibration is None else fitted.calibration.labels
    if known is None:
        raise UserError("groups need a model that calibrate(X, y, groups=...) was called on.")
    numbers = _group_numbers(_read_labels(groups, len(inputs.mean)), known)
    for number in numbers.unique().tolist():
        predictor.require_rows(probabilities, number, f" of the group {known[number]!r}")
    return predictor.quantiles(inputs, probabilities, numbers.to(inputs.mean.device))


def _quantiles_by_column(
    fitted: Fitted, inputs: Measure, probabilities: Sequence[float], column: str
) -> Float64[Tensor, "N T Q"]:
    """Return conformal quantiles within groups of rows with equal values of a column."""
    if fitted.calibration is not None:
        raise UserError(
            f"After calibrate, groups must be labels, one for each row. Got {column!r}."
        )
    places = fitted.reader.inputs_of(column)
    if not places.any():
        raise UserError(
            "A group must be a column that became inputs other than mean targets of its "
            f"levels. Got {column!r}; call calibrate(X, y, groups=...) with labels."
        )
    predictor, group = fitted.conformal.grouped_by(
        fitted.ensemble, inputs, torch.from_numpy(places).to(fitted.device)
    )
    _, first_rows = np.unique(group.cpu().numpy(), return_index=True)
    for row in sorted(first_rows.tolist()):
        which = f" in the group of row {row}, by {column!r}"
        predictor.require_rows(probabilities, int(group[row]), which)
    return predictor.quantiles(inputs, probabilities, group)


def calibrate(fitted: Fitted, rows: Rows, groups: Any, *, out_of_fold: bool) -> Calibration:
    """Score rows that a model has not seen, or that some of its members have not seen.

    Args:
        fitted: What the estimator has learnt.
        rows: The rows, in the units of the data.
        groups: The label of each row; None for one group.
        out_of_fold: Whether these are rows of the fit; only those that were held out count.
    """
    labels, numbers = None, None
    if groups is not None:
        texts = _read_labels(groups, len(rows))
        labels = tuple(sorted(set(texts)))
        numbers = _group_numbers(texts, labels)
    level_means = torch.from_numpy(fitted.reader.level_means).to(fitted.device)
    return conformal.calibrate(
        fitted.ensemble, rows, labels, numbers, level_means, out_of_fold=out_of_fold
    )


def _read_labels(groups: Any, n_rows: int) -> list[str]:
    """Return the group of every row as text; numbers that are equal have equal texts."""
    array = np.asarray(as_numpy(groups))
    if array.shape != (n_rows,):
        raise UserError(
            f"groups must have one label for each of the {n_rows} rows. Got shape {array.shape}."
        )
    return [
        str(int(value) if isinstance(value, float) and value.is_integer() else value)
        for value in array.tolist()
    ]


def _group_numbers(labels: list[str], known: tuple[str, ...]) -> Int64[Tensor, " N"]:
    """Return the places of labels among known ones."""
    place = {label: number for number, label in enumerate(known)}
    if unknown := sorted(set(labels).difference(place)):
        shown = ", ".join(unknown[:5]) + (", ..." if len(unknown) > 5 else "")
        raise UserError(
            f"groups must be among the {len(known)} groups that calibrate got. Got {shown}."
        )
    return torch.tensor([place[label] for label in labels])
