from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch
from builders.estimators import make_rows

from sswim import Recipe, SSWIMRegressor
from sswim.base.validation import UserError
from sswim.conformal.conformal_predictor import cross_conformal, fold_ensembles
from sswim.ensemble.ensemble import Ensemble
from sswim.members.feature_predictor import condition


@cache
def fitted() -> SSWIMRegressor:
    recipe = Recipe(kinds=("features-1", "neighbours-0-rough"), pruning=False)
    x, y = make_rows(90)
    return SSWIMRegressor(max_iter=3, recipe=recipe, random_state=0, device="cpu").fit(x, y)


def ensemble() -> Ensemble:
    return fitted()._ensemble


def test_members_of_a_fold_are_those_that_left_it_out_and_have_the_weights_of_their_kinds() -> None:
    folds = ensemble().folds
    assert folds is not None
    shares = [kind.weight for kind in fitted().recipe_]
    assert folds.weights.shape == (3, 6)
    for number, weights in enumerate(folds.weights.tolist()):
        expected = [0.0] * 6
        expected[number], expected[3 + number] = shares
        assert weights == pytest.approx(expected)


def test_members_of_a_fold_are_conditioned_on_the_rows_outside_it() -> None:
    whole = ensemble()
    rows, folds = whole.rows, whole.folds
    assert rows is not None
    assert folds is not None
    fold_of = folds.fold_of(rows.inputs.mean)
    assert fold_of.unique().tolist() == [-1, 0, 1, 2]
    at = replace(rows.inputs, mean=rows.inputs.mean[:7] + 0.1)
    for number, each in enumerate(fold_ensembles(whole)):
        known = rows.take((fold_of != number).nonzero()[:, 0])
        models = [fitted().members_[member].model for member in (number, 3 + number)]
        for member, model in zip(each.members, models, strict=True):
            expected = condition(model, known).predict(at)
            found = member.predict(at)
            for mine, theirs in zip(found.tensors(), expected.tensors(), strict=True):
                assert torch.allclose(mine, theirs, rtol=1e-9)


def test_statistics_without_a_fold_equal_those_of_the_others() -> None:
    whole = ensemble()
    rows = whole.rows
    assert rows is not None
    member = whole.members[0]
    inside, known = rows.take(torch.arange(20)), rows.take(torch.arange(20, len(rows)))
    by_difference, anew = member.without(inside), member.condition_again(known)  # type: ignore[attr-defined]
    at = replace(rows.inputs, mean=rows.inputs.mean[:7] + 0.1)
    for mine, theirs in zip(
        by_difference.predict(at).tensors(), anew.predict(at).tensors(), strict=True
    ):
        assert torch.allclose(mine, theirs, rtol=1e-7)


def test_scores_do_not_depend_on_the_targets_of_their_own_fold() -> None:
    """A row's score is as good as that of a new row: its ensemble knows nothing of its fold."""
    whole = ensemble()
    folds, rows = whole.folds, whole.rows
    assert folds is not None
    assert rows is not None
    fold_of = folds.fold_of(rows.inputs.mean)
    inside = fold_of == 1
    targets = torch.where(inside[:, None], rows.targets + 7.0, rows.targets)
    others = replace(rows, targets=targets)
    members = tuple(condition(each.model, others) for each in fitted().members_)
    changed = Ensemble(whole.scaling, members, whole.weights, others, folds)
    at = replace(rows.inputs, mean=rows.inputs.mean[:7] + 0.1)
    before, after = (fold_ensembles(each)[1].predict(at).mean for each in (whole, changed))
    assert torch.allclose(before, after, rtol=1e-9)


def test_held_out_rows_are_scored_in_every_fold() -> None:
    held_out = cross_conformal(ensemble()).held_out
    assert held_out.fold.bincount().tolist() == [22, 22, 22]
    assert bool(held_out.scores.isfinite().all())
    assert bool(((held_out.pit >= 0) & (held_out.pit <= 1)).all())


def test_a_model_that_held_nothing_out_says_so() -> None:
    with pytest.raises(UserError, match="call calibrate"):
        fold_ensembles(replace(ensemble(), folds=None))
    with pytest.raises(UserError, match="call calibrate"):
        fold_ensembles(replace(ensemble(), rows=None))
