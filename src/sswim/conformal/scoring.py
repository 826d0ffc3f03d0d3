"""Scores of rows by ensembles that have not seen them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Int64
from torch import Tensor

from sswim.base.record import concatenate
from sswim.conformal.input_distance import input_distance
from sswim.conformal.scored import Scored
from sswim.conformal.spreads import spreads
from sswim.posterior.ensemble import Ensemble
from sswim.rows.measure import Measure
from sswim.rows.rows import Rows
from sswim.rows.scaling import no_scaling


def score_rows(
    ensembles: Sequence[Ensemble],
    rows: Rows,
    fold: Int64[Tensor, " N"],
    group: Int64[Tensor, " N"] | None = None,
) -> Scored:
    """Score standardised rows, each by the ensemble of its fold; the order of rows is kept.

    Args:
        ensembles: The ensemble of every fold, which has not seen its rows.
        rows: Standardised rows.
        fold: Number of each row's fold.
        group: Number of each row's group; None for one group.
    """
    if group is None:
        group = torch.zeros_like(fold)
    parts, order = [], []
    for number, ensemble in enumerate(ensembles):
        inside = (fold == number).nonzero()[:, 0]
        if len(inside):
            part = rows.take(inside)
            parts.append(_score(ensemble, part, fold[inside], group[inside]))
            order.append(inside)
    back = torch.cat(order).argsort()
    return concatenate(parts).map(lambda tensor: tensor[back])


def score_inputs(
    ensembles: Sequence[Ensemble], inputs: Measure, fold: Int64[Tensor, " N"]
) -> Scored:
    """Score standardised inputs without targets, each by the ensemble of its fold."""
    distance = torch.empty(len(fold), dtype=torch.float64, device=fold.device)
    for number, ensemble in enumerate(ensembles):
        inside = fold == number
        if inside.any():
            distance[inside] = input_distance(inputs.mean[inside], ensemble.rows)
    none = distance.new_empty(len(fold), 0)
    return Scored(none, none, distance, fold, torch.zeros_like(fold), torch.ones_like(distance))


def _score(
    ensemble: Ensemble, rows: Rows, fold: Int64[Tensor, " N"], group: Int64[Tensor, " N"]
) -> Scored:
    """Score the rows of one fold."""
    scaling = no_scaling(rows).to(device=rows.targets.device)
    mixture = replace(ensemble, scaling=scaling).predict(rows.inputs)
    weight = rows.targets.new_ones(len(rows)) if rows.weight is None else rows.weight
    return Scored(
        spreads(mixture).scores(rows.targets),
        mixture.cdf(rows.targets),
        input_distance(rows.inputs.mean, ensemble.rows),
        fold,
        group,
        weight * ensemble.scaling.weight_unit,
    )
