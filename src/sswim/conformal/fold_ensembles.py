"""Fold ensembles: for every held-out fold, the members that left it out, without its rows."""

from __future__ import annotations

from dataclasses import replace

from jaxtyping import Bool
from torch import Tensor

from sswim.base.errors import UserError
from sswim.posterior.ensemble import Ensemble
from sswim.posterior.feature_predictor import FeaturePredictor
from sswim.posterior.neighbour_predictor import NeighbourPredictor
from sswim.posterior.predictor import Predictor
from sswim.rows.rows import Rows


def fold_ensembles(ensemble: Ensemble) -> tuple[Ensemble, ...]:
    """Return the ensemble of every fold, conditioned on the rows outside the fold, which it keeps.

    Raises:
        UserError: No member held rows out, or the rows are not kept.
    """
    rows, folds = ensemble.rows, ensemble.folds
    if rows is None or folds is None or len(rows) == 0:
        raise UserError(
            "Conformal intervals and monitoring need rows that the model has not seen. This model "
            "held none out, or does not keep its rows: call calibrate(X, y) with rows that fit did "
            "not get."
        )
    fold_of = folds.fold_of(rows.inputs.mean)
    return tuple(
        _fold_ensemble(ensemble, rows, fold_of == number, weights)
        for number, weights in enumerate(folds.weights)
    )


def _fold_ensemble(
    ensemble: Ensemble, rows: Rows, inside: Bool[Tensor, " N"], weights: Tensor
) -> Ensemble:
    """Return the members with weights, conditioned on the rows outside a fold."""
    fold, known = (rows.take(each.nonzero()[:, 0]) for each in (inside, ~inside))
    members = tuple(
        _without(ensemble.members[number], rows, fold, known)
        for number in weights.nonzero()[:, 0].tolist()
    )
    return Ensemble(ensemble.scaling, members, weights[weights > 0], known)


def _without(member: Predictor, rows: Rows, fold: Rows, known: Rows) -> Predictor:
    """Condition a member on the known rows, which are all rows outside a fold."""
    if isinstance(member, NeighbourPredictor):
        return replace(member, rows=known)
    assert isinstance(member, FeaturePredictor)
    # A difference of statistics loses what is below the rounding of the total.
    return member.condition_again(known) if member.follows_from(rows) else member.without(fold)
