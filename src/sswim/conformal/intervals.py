"""Conformal intervals: quantiles whose coverage does not depend on the model being right.

Rows that members held out while they learnt make a conformal predictor (CV+). Row i of fold k has
the score s_i by the ensemble that has not seen the fold. At a new input that ensemble predicts a
median and spreads, and so the value v_i that has the score s_i there. If rows are exchangeable, the
new target is about equally likely to fall between any two of the n values:

    lower quantiles   the ⌊p(n + 1)⌋th smallest value
    upper quantiles   the ⌈p(n + 1)⌉th smallest value, for p ≥ ½

With one fold, or with rows that were given to ``calibrate``, this is split conformal prediction,
and an interval between the quantiles α/2 and 1 − α/2 covers with a probability of at least 1 − α,
whatever the distribution and the model. With several folds it is CV+ (Barber, Candès, Ramdas and
Tibshirani, 2021), which covers with at least 1 − 2α, and in practice with 1 − α.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from sswim.base.validation import UserError
from sswim.conformal.conformity_scores import ConformityScores, Spreads, score_conformity, spreads
from sswim.ensemble.ensemble import Ensemble
from sswim.rows.rows import Measure, Rows, row_keys

_ROUNDING = 1e-9
"""Part of a row by which ranks may be off: p(n + 1) may be a whole number but for rounding."""

_HALVINGS = 70
"""Number of halvings of the range that holds a quantile: more than there are bits."""


@dataclass(frozen=True)
class Calibration:
    """Conformity scores of the rows given to ``calibrate``."""

    held_out: ConformityScores
    labels: tuple[str, ...] | None
    """Names of the groups; None if all rows are one group."""
    out_of_fold: bool
    """Whether each row was scored by the members that held it out in the fit; else by all."""


def calibrate(
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
    rows = ensemble.scaling.rows(rows)
    group = None if group is None else group.to(rows.targets.device)
    if not out_of_fold:
        if ensemble.rows is not None:
            _require_new(rows, ensemble.rows, ~level_means)
        fold = torch.zeros(len(rows), dtype=torch.int64, device=rows.targets.device)
        return Calibration(score_conformity((ensemble,), rows, fold, group), labels, False)
    if level_means.any():
        raise UserError(
            "With out_of_fold=True, rows of the fit must be recognised, and those of a table whose "
            "levels became mean targets cannot be: each had the means of other rows. Name a column "
            "by predict_interval(X, groups=...) instead, or give rows that fit did not get."
        )
    ensembles = fold_ensembles(ensemble)
    inside, fold = _in_folds(ensemble, rows)
    if len(inside) == 0:
        raise UserError(
            "With out_of_fold=True, X and y must be rows of the fit. Got none of the rows that "
            "were held out there; leave out_of_fold away for rows that fit did not get."
        )
    group = None if group is None else group[inside]
    return Calibration(
        score_conformity(ensembles, rows.take(inside), fold, group), labels, out_of_fold=True
    )


def _require_new(rows: Rows, seen: Rows, telling: Bool[Tensor, " D"]) -> None:
    """Raise an error if most standardised rows are among those that the ensemble has seen.

    Args:
        rows: The rows.
        seen: Rows that the ensemble is conditioned on.
        telling: Which inputs tell rows apart.
    """
    new, old = (
        row_keys(torch.cat((part.inputs.mean[:, telling].to(torch.float64), part.targets), dim=1))
        for part in (rows, seen)
    )
    n_seen = int(torch.isin(new, old).sum())
    if 2 * n_seen > len(rows):
        raise UserError(
            f"calibrate needs rows that fit did not get. Got {len(rows)} rows, {n_seen} of them "
            "among those of the fit; keep some rows for calibrate, or pass out_of_fold=True to a "
            "model that held rows out."
        )


def conformal_predictor(
    ensemble: Ensemble, calibration: Calibration | None = None
) -> ConformalPredictor:
    """Return the conformal predictor of a calibration, or of the rows held out in the fit (CV+)."""
    if calibration is not None and not calibration.out_of_fold:
        return ConformalPredictor((ensemble,), calibration.held_out)
    ensembles = fold_ensembles(ensemble)
    if calibration is not None:
        return ConformalPredictor(ensembles, calibration.held_out)
    assert ensemble.rows is not None
    inside, fold = _in_folds(ensemble, ensemble.rows)
    held_out = score_conformity(ensembles, ensemble.rows.take(inside), fold)
    return ConformalPredictor(ensembles, held_out)


def fold_ensembles(ensemble: Ensemble) -> tuple[Ensemble, ...]:
    """Return for every fold the members that left it out, conditioned on the rows outside it.

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
    ensembles = []
    for number, weights in enumerate(folds.weights):
        inside = fold_of == number
        fold, known = (rows.take(mask.nonzero()[:, 0]) for mask in (inside, ~inside))
        members = tuple(
            ensemble.members[member].without(fold, rows, known)
            for member in weights.nonzero()[:, 0].tolist()
        )
        ensembles.append(Ensemble(ensemble.scaling, members, weights[weights > 0], known))
    return tuple(ensembles)


def _in_folds(ensemble: Ensemble, rows: Rows) -> tuple[Int64[Tensor, " n"], Int64[Tensor, " n"]]:
    """Return which standardised rows are in folds of an ensemble, and the fold of each of these."""
    assert ensemble.folds is not None
    fold = ensemble.folds.fold_of(rows.inputs.mean)
    inside = (fold >= 0).nonzero()[:, 0]
    return inside, fold[inside]


@dataclass(frozen=True)
class ConformalPredictor:
    """Ensembles, and scores of rows that they have not seen."""

    ensembles: tuple[Ensemble, ...]
    """The ensemble of every fold."""
    held_out: ConformityScores
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
        held_out = self.held_out
        old = held_out.group
        if group is None:
            group, old = old.new_zeros(len(inputs.mean)), torch.zeros_like(old)
        predicted = [spreads(ensemble.predict(inputs)) for ensemble in self.ensembles]
        shape = (len(group), held_out.scores.shape[1], len(probabilities))
        quantiles = predicted[0].median.new_empty(shape)
        for number in group.unique().tolist():
            inside = (group == number).nonzero()[:, 0]
            folds = [(old == number) & (held_out.fold == fold) for fold in range(len(predicted))]
            quantiles[inside] = cross_quantiles(
                [spread.map(itemgetter(inside)) for spread in predicted],
                [held_out.scores[fold] for fold in folds],
                [held_out.weight[fold] for fold in folds],
                probabilities,
            )
        return quantiles

    def grouped_by(
        self, ensemble: Ensemble, inputs: Measure, places: Bool[Tensor, " D"]
    ) -> tuple[ConformalPredictor, Int64[Tensor, " N"]]:
        """Group held-out and new rows by the values of some inputs; also return the new groups.

        Args:
            ensemble: The ensemble whose held-out rows these are.
            inputs: Inputs of new rows, in the units of the data.
            places: Which inputs make groups.
        """
        assert ensemble.rows is not None
        held_out = ensemble.rows.inputs.mean[_in_folds(ensemble, ensemble.rows)[0]]
        both = torch.cat((held_out, ensemble.scaling.inputs(inputs).mean))
        _, group = row_keys(both[:, places].to(torch.float64)).unique(return_inverse=True)
        old, new = group.split([len(held_out), len(inputs.mean)])
        return replace(self, held_out=replace(self.held_out, group=old)), new

    def score_new(
        self, inputs: Measure, targets: Float64[Tensor, "N T"] | None = None
    ) -> ConformityScores:
        """Score new rows in the units of the data, in turn by the ensembles of all folds.

        Args:
            inputs: Their inputs.
            targets: Their targets; None if these are not known.
        """
        scaling = self.ensembles[0].scaling
        fold = torch.arange(len(inputs.mean), device=self.held_out.fold.device)
        fold = fold % len(self.ensembles)
        if targets is not None:
            return score_conformity(self.ensembles, scaling.rows(Rows(inputs, targets)), fold)
        unknown = scaling.target_mean.new_zeros(len(fold), len(scaling.target_mean))
        rows = Rows(scaling.inputs(inputs), unknown)
        return score_conformity(self.ensembles, rows, fold).without_targets()

    def n_rows(self, group: int | None = None) -> float:
        """Return the number of held-out rows, of all groups or of one, each by its weight."""
        weight = self.held_out.weight
        return float(weight.sum() if group is None else weight[self.held_out.group == group].sum())

    def require_rows(
        self, probabilities: Sequence[float], group: int | None = None, which: str = ""
    ) -> None:
        """Raise an error if there are too few held-out rows for quantiles of given probabilities.

        Args:
            probabilities: Probabilities of the quantiles.
            group: Number of the group that must have these rows; None for all groups together.
            which: Which rows these are, for the message.
        """
        n_rows = self.n_rows(group)
        needed = max(map(least_rows, probabilities))
        if n_rows < needed:
            widest = max(0.0, (n_rows - 1) / (n_rows + 1))
            raise UserError(
                f"Conformal quantiles so far out need at least {needed:.0f} rows that the model "
                f"has not seen. Got {n_rows:g}{which}, enough for a coverage of {widest:.3g}: ask "
                "for less, or call calibrate(X, y) with more rows."
            )


def least_rows(probability: float) -> float:
    """Return the number of held-out rows that a quantile needs to be finite."""
    return 1 / min(probability, 1 - probability) - 1 - _ROUNDING


def cross_quantiles(
    spreads: Sequence[Spreads],
    scores: Sequence[Float64[Tensor, "_ T"]],
    weights: Sequence[Float64[Tensor, " _"]],
    probabilities: Sequence[float],
) -> Float64[Tensor, "N T Q"]:
    """Return the conformal quantiles of new rows.

    Args:
        spreads: Predictions of the new rows by the ensemble of every fold.
        scores: Scores of each fold's rows, ``least_rows`` of them in all folds together.
        weights: How many times each of these rows counts.
        probabilities: Probabilities of the quantiles.
    """
    folds = []
    for spread, score, weight in zip(spreads, scores, weights, strict=True):
        if len(score):  # a fold may have no rows of a group
            ordered, order = score.mT.contiguous().sort(dim=1)
            before = torch.nn.functional.pad(weight[order].cumsum(1), (1, 0))
            folds.append((spread, ordered, before))  # before: weight of the first 0, 1, … n rows
    n_rows = sum(float(before[0, -1]) for *_, before in folds)

    def weight_below(values: Float64[Tensor, "N T"]) -> Float64[Tensor, "N T"]:
        """Return the weight of the rows that suggest values of at most the given ones."""
        parts = []
        for spread, ordered, before in folds:
            places = torch.searchsorted(ordered, spread.scores(values).mT.contiguous(), right=True)
            parts.append(before.gather(1, places).mT)
        return torch.stack(parts).sum(0)

    def suggested(place: int) -> Float64[Tensor, "folds N T"]:
        """Return the values that the scores at a place in the order suggest."""
        return torch.stack(
            [
                spread.values(ordered[:, place].expand_as(spread.median))
                for spread, ordered, _ in folds
            ]
        )

    lowest, highest = suggested(0).amin(0), suggested(-1).amax(0)
    quantiles = []
    for probability in probabilities:
        rank = probability * (n_rows + 1)
        least = rank - 1 + _ROUNDING if probability < 0.5 else rank - _ROUNDING
        low, high = lowest, highest  # of the smallest value with at least this weight below it
        for _ in range(_HALVINGS):
            middle = 0.5 * low + 0.5 * high
            enough = weight_below(middle) >= least
            low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
        quantiles.append(torch.where(weight_below(lowest) >= least, lowest, high))
    return torch.stack(quantiles, dim=-1)
