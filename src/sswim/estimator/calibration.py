"""The calibration of a fitted estimator: scores of rows, by which intervals have their coverage."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from sswim.base.errors import UserError
from sswim.conformal.conformal_predictor import ConformalPredictor, cross_conformal
from sswim.conformal.fold_ensembles import fold_ensembles
from sswim.conformal.scored import Scored
from sswim.conformal.scoring import score_rows
from sswim.posterior.ensemble import Ensemble
from sswim.rows.row_keys import row_keys
from sswim.rows.rows import Rows


@dataclass(frozen=True)
class Calibration:
    """Scores of the rows given to ``calibrate``."""

    held_out: Scored
    labels: tuple[str, ...] | None
    """Names of the groups; None if all rows are one group."""
    out_of_fold: bool
    """Whether each row was scored by the members that held it out in the fit; else by all."""


def calibrate_ensemble(
    ensemble: Ensemble,
    rows: Rows,
    labels: tuple[str, ...] | None,
    group: Int64[Tensor, " N"] | None,
    level_means: Bool[Tensor, " D"],
    *,
    out_of_fold: bool,
) -> Calibration:
    """Score rows that an ensemble has not seen, or that some of its members have not seen.

    Args:
        ensemble: The fitted ensemble.
        rows: The rows, in the units of the data.
        labels: Names of the groups; None for one group.
        group: Number of each row's group; None for one group.
        level_means: Which inputs are other numbers in the rows of the fit.
        out_of_fold: Whether these are rows of the fit; only those that were held out count.
    """
    standardised = ensemble.scaling.rows(rows)
    fold = torch.zeros(len(rows), dtype=torch.int64, device=rows.targets.device)
    if group is None:
        group = torch.zeros_like(fold)
    if not out_of_fold:
        _require_new(ensemble, standardised, ~level_means)
        return Calibration(
            score_rows((ensemble,), standardised, fold, group.to(fold.device)), labels, False
        )
    if level_means.any():
        raise UserError(
            "With out_of_fold=True, rows of the fit must be recognised, and those of a table whose "
            "levels became mean targets cannot be: each had the means of other rows. Name a column "
            "by predict_interval(X, groups=...) instead, or give rows that fit did not get."
        )
    ensembles = fold_ensembles(ensemble)
    assert ensemble.folds is not None
    fold = ensemble.folds.fold_of(standardised.inputs.mean)
    inside = (fold >= 0).nonzero()[:, 0]
    if len(inside) == 0:
        raise UserError(
            "With out_of_fold=True, X and y must be rows of the fit. Got none of the rows that "
            "were held out there; leave out_of_fold away for rows that fit did not get."
        )
    scored = score_rows(
        ensembles, standardised.take(inside), fold[inside], group.to(fold.device)[inside]
    )
    return Calibration(scored, labels, True)


def conformal_predictor(ensemble: Ensemble, calibration: Calibration | None) -> ConformalPredictor:
    """Return the conformal predictor of a calibration, or of the rows held out in the fit."""
    if calibration is None:
        return cross_conformal(ensemble)
    ensembles = fold_ensembles(ensemble) if calibration.out_of_fold else (ensemble,)
    return ConformalPredictor(ensembles, calibration.held_out)


def _require_new(ensemble: Ensemble, rows: Rows, telling: Bool[Tensor, " D"]) -> None:
    """Raise an error if most rows are among those that the ensemble is conditioned on.

    Args:
        ensemble: The fitted ensemble.
        rows: Standardised rows.
        telling: Which inputs tell rows apart.
    """
    if ensemble.rows is None:
        return
    keys, seen = (_keys(each, telling) for each in (rows, ensemble.rows))
    n_seen = int(torch.isin(keys, seen).sum())
    if 2 * n_seen > len(rows):
        raise UserError(
            f"calibrate needs rows that fit did not get. Got {len(rows)} rows, {n_seen} of them "
            "among those of the fit; keep some rows for calibrate, or pass out_of_fold=True to a "
            "model that held rows out."
        )


def _keys(rows: Rows, telling: Bool[Tensor, " D"]) -> Int64[Tensor, " N"]:
    inputs = rows.inputs.mean[:, telling].to(torch.float64)
    return row_keys(torch.cat((inputs, rows.targets), dim=1))
