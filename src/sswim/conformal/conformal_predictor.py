"""The conformal predictor: quantiles whose coverage does not depend on the model being right.

Fold ensembles: for every held-out fold, the members that left it out, without its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from sswim.base.record import Record
from sswim.base.validation import UserError
from sswim.conformal.cross_quantiles import FoldScores, cross_quantiles, least_rows, sort_scores
from sswim.conformal.scoring import Scored, Spreads, score_inputs, score_rows, spreads
from sswim.ensemble.ensemble import Ensemble
from sswim.members.feature_predictor import FeaturePredictor
from sswim.members.neighbour_predictor import NeighbourPredictor
from sswim.members.predictor import Predictor
from sswim.rows.rows import Measure, Rows, row_keys


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


@dataclass(frozen=True)
class ConformalPredictor(Record):
    """Ensembles, and scores of rows that they have not seen."""

    ensembles: tuple[Ensemble, ...]
    """The ensemble of every fold."""
    held_out: Scored
    """Rows of the folds."""

    def quantiles(
        self,
        inputs: Measure,
        probabilities: Sequence[float],
        group: Int64[Tensor, " N"] | None = None,
    ) -> Float64[Tensor, "N T Q"]:
        """Return quantiles of new observations; each group of rows has its own.

        Args:
            inputs: Inputs of new rows, in the units of the data.
            probabilities: Probabilities of the quantiles.
            group: Number of each new row's group; None to take all held-out rows as one group.
        """
        predicted = [spreads(ensemble.predict(inputs)) for ensemble in self.ensembles]
        if group is None:
            everything = torch.ones_like(self.held_out.fold, dtype=torch.bool)
            return cross_quantiles(predicted, self._folds(everything), probabilities)
        n_targets = self.held_out.scores.shape[1]
        found = predicted[0].median.new_empty(len(group), n_targets, len(probabilities))
        for number in group.unique().tolist():
            here = (group == number).nonzero()[:, 0]
            of_group = [_take(each, here) for each in predicted]
            scores = self._folds(self.held_out.group == number)
            found[here] = cross_quantiles(of_group, scores, probabilities)
        return found

    def grouped_by(
        self, ensemble: Ensemble, inputs: Measure, places: Bool[Tensor, " D"]
    ) -> tuple[ConformalPredictor, Int64[Tensor, " N"]]:
        """Group held-out and new rows by the values of some inputs; also return the new groups.

        Args:
            ensemble: The ensemble whose held-out rows these are.
            inputs: Inputs of new rows, in the units of the data.
            places: Which inputs make groups.
        """
        held_out = _held_out_rows(ensemble)[0].inputs.mean
        both = torch.cat((held_out, ensemble.scaling.inputs(inputs).mean))
        _, group = row_keys(both[:, places].to(torch.float64)).unique(return_inverse=True)
        old, new = group.split([len(held_out), len(inputs.mean)])
        return replace(self, held_out=replace(self.held_out, group=old)), new

    def score_new(self, inputs: Measure, rows: Rows | None = None) -> Scored:
        """Score new rows in the units of the data, in turn by the ensembles of all folds.

        Args:
            inputs: Their inputs.
            rows: The rows; None if their targets are not known.
        """
        scaling, n_folds = self.ensembles[0].scaling, len(self.ensembles)
        fold = torch.arange(len(inputs.mean), device=self.held_out.fold.device) % n_folds
        if rows is None:
            return score_inputs(self.ensembles, scaling.inputs(inputs), fold)
        return score_rows(self.ensembles, scaling.rows(rows), fold)

    def n_rows(self, group: int | None = None) -> float:
        """Return the number of held-out rows, of all groups or of one, each by its weight."""
        weight = self.held_out.weight
        return float(weight.sum() if group is None else weight[self.held_out.group == group].sum())

    def _folds(self, chosen: Tensor) -> list[FoldScores]:
        """Sort the scores of some held-out rows within each fold."""
        held_out, folds = self.held_out, []
        for number in range(len(self.ensembles)):
            here = chosen & (held_out.fold == number)
            folds.append(sort_scores(held_out.scores[here], held_out.weight[here]))
        return folds


def require_rows(n_rows: float, probabilities: Sequence[float], of_group: str = "") -> None:
    """Raise an error if there are too few held-out rows for quantiles of given probabilities.

    Args:
        n_rows: Number of held-out rows.
        probabilities: Probabilities of the quantiles.
        of_group: Which rows these are, for the message.
    """
    needed = max(map(least_rows, probabilities))
    if n_rows < needed:
        widest = max(0.0, (n_rows - 1) / (n_rows + 1))
        raise UserError(
            f"Conformal quantiles so far out need at least {needed:.0f} rows that the model has "
            f"not seen. Got {n_rows:g}{of_group}, enough for a coverage of {widest:.3g}: ask for "
            "less, or call calibrate(X, y) with more rows."
        )


def cross_conformal(ensemble: Ensemble) -> ConformalPredictor:
    """Make a conformal predictor of the rows that an ensemble's members held out (CV+)."""
    ensembles = fold_ensembles(ensemble)
    return ConformalPredictor(ensembles, score_rows(ensembles, *_held_out_rows(ensemble)))


def _held_out_rows(ensemble: Ensemble) -> tuple[Rows, Int64[Tensor, " N"]]:
    """Return the rows that members held out, and the fold of each."""
    assert ensemble.rows is not None
    assert ensemble.folds is not None
    fold = ensemble.folds.fold_of(ensemble.rows.inputs.mean)
    inside = (fold >= 0).nonzero()[:, 0]
    return ensemble.rows.take(inside), fold[inside]


def _take(predicted: Spreads, rows: Int64[Tensor, " n"]) -> Spreads:
    return predicted.map(lambda tensor: tensor[rows])
