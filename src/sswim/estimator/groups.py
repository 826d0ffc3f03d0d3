"""Groups of rows within which conformal intervals have their coverage."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from sswim.base.errors import UserError
from sswim.estimator.input_checks import as_numpy


def read_labels(groups: Any, n_rows: int) -> list[str]:
    """Return the group of every row as text; numbers that are equal have equal texts."""
    array = np.asarray(as_numpy(groups))
    if array.shape != (n_rows,):
        raise UserError(
            f"groups must have one label for each of the {n_rows} rows. Got shape {array.shape}."
        )
    return [_label(each) for each in array.tolist()]


def _label(value: Any) -> str:
    is_whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if is_whole else str(value)


def first_places(group: Int64[Tensor, " N"]) -> list[tuple[int, int]]:
    """Return the number and the first row of every group."""
    first: dict[int, int] = {}
    for place, number in enumerate(group.tolist()):
        first.setdefault(number, place)
    return list(first.items())


def group_numbers(labels: list[str], known: tuple[str, ...]) -> Int64[Tensor, " N"]:
    """Return the places of labels among known ones."""
    place = {label: number for number, label in enumerate(known)}
    if unknown := sorted(set(labels).difference(place)):
        shown = ", ".join(unknown[:5]) + (", ..." if len(unknown) > 5 else "")
        raise UserError(
            f"groups must be among the {len(known)} groups that calibrate got. Got {shown}."
        )
    return torch.tensor([place[label] for label in labels])
