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
    n_targets = len(ensembles[0].scaling.target_mean)
    unknown = torch.zeros(len(fold), n_targets, dtype=torch.float64, device=fold.device)
    scored = score_rows(ensembles, Rows(inputs, unknown), fold)
    return replace(scored, scores=unknown[:, :0], pit=unknown[:, :0])


def _score(
    ensemble: Ensemble, rows: Rows, fold: Int64[Tensor, " N"], group: Int64[Tensor, " N"]
) -> Scored:
    """Score the rows of one fold."""
    scaling = no_scaling(rows).to(device=rows.targets.device)
    mixture = replace(ensemble, scaling=scaling).predict(rows.inputs)
    predicted = spreads(mixture)
    weight = rows.targets.new_ones(len(rows)) if rows.weight is None else rows.weight
    return Scored(
        predicted.scores(rows.targets),
        mixture.cdf(rows.targets),
        predicted.median,
        input_distance(rows.inputs.mean, ensemble.rows),
        fold,
        group,
        weight * ensemble.scaling.weight_unit,
    )
