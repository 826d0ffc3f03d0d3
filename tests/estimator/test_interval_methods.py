from __future__ import annotations

import pickle
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from builders.estimators import make_rows, small

from sswim import Recipe, load
from sswim.base.validation import UserError
from sswim.estimator import BaseRegressor, make_estimator


def default() -> BaseRegressor:
    recipe = Recipe(kinds=("mean", "features-1", "neighbours-0-rough"))
    return make_estimator(max_iter=3, recipe=recipe, random_state=0, device="cpu")


@cache
def fitted() -> BaseRegressor:
    return default().fit(*make_rows(90))


@cache
def one_model() -> BaseRegressor:
    return small().fit(*make_rows(40))


conformal = partial(BaseRegressor.predict_interval, level=0.8, method="conformal")


def calibrated() -> BaseRegressor:
    """Return a copy of one model, calibrated with rows of two groups, one of them noisier."""
    x, y = make_rows(80, seed=1)
    noise = np.random.default_rng(2).normal(size=80)
    return pickle.loads(pickle.dumps(one_model())).calibrate(
        x, np.where(x[:, 0] > 0, y + noise, y), groups=x[:, 0] > 0
    )


def test_a_calibrated_model_covers_the_rows_it_was_calibrated_with() -> None:
    """Of n rows, about the nominal share lies between two order statistics of their scores."""
    x, y = make_rows(80, seed=1)
    model = small().fit(*make_rows(40)).calibrate(x, y)
    lower, upper = conformal(model, x)
    rounding = 1e-12  # two rows are the bounds themselves
    n_inside = ((lower - rounding <= y) & (y <= upper + rounding)).sum()
    # Ranks ⌊0.1·81⌋ = 8 to ⌈0.9·81⌉ = 73.
    assert n_inside == 66


def test_groups_have_intervals_of_their_own() -> None:
    x, _ = make_rows(30, seed=4)
    right = x[:, 0] > 0
    model = calibrated()
    lower, upper = conformal(model, x, groups=right)
    wide = upper - lower
    assert wide[right].min() > 2 * wide[~right].max()
    # The same groups under other types, and all rows as one group.
    for same in (right.astype(str), right.tolist()):
        assert np.array_equal(conformal(model, x, groups=same), (lower, upper))
    together = conformal(model, x)
    assert not np.allclose(together, (lower, upper))
    with pytest.raises(ValueError, match="NaN"):  # a calibration that fails leaves the old one
        model.calibrate(x, np.full(30, np.nan))
    assert np.array_equal(conformal(model, x), together)
    # Labels that are equal numbers are the same group.
    model.calibrate(*make_rows(60, seed=1), groups=np.arange(60) % 2)
    conformal(model, x, level=0.5, groups=(np.arange(30) % 2).astype(float))


def test_rows_of_the_fit_can_be_given_again_for_their_groups() -> None:
    x, y = make_rows(90)
    model = default().fit(x, y)
    plain = conformal(model, x[:9])
    model.calibrate(x, y, out_of_fold=True)
    assert np.allclose(conformal(model, x[:9]), plain, rtol=1e-9)
    model.calibrate(x, y, groups=x[:, 1] > 0, out_of_fold=True)
    conformal(model, x[:9], level=0.5, groups=x[:9, 1] > 0)


def test_a_file_without_rows_has_no_conformal_intervals_until_it_is_calibrated(
    tmp_path: Path,
) -> None:
    x, y = make_rows(60, seed=5)
    fitted().save(tmp_path / "model.sswim", include_rows=False)
    model = load(tmp_path / "model.sswim")
    with pytest.raises(UserError, match="call calibrate"):
        conformal(model, x)
    conformal(model.calibrate(x, y), x)


def test_more_rows_forget_the_calibration_but_not_the_held_out_rows() -> None:
    x, y = make_rows(20, seed=6)
    model = calibrated().partial_fit(x, y)
    with pytest.raises(UserError, match="call calibrate"):
        conformal(model, x)
    more = pickle.loads(pickle.dumps(fitted())).partial_fit(x, y)
    assert not np.allclose(conformal(fitted(), x), conformal(more, x))
    for method, message in (("conformal", "need a model that calibrate"), ("model", "for method")):
        with pytest.raises(UserError, match=message):
            more.predict_interval(x, 0.5, method=method, groups=[1] * 20)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "magic"}, "method must be one of"),
        ({"include_noise": False}, "include_noise=False"),
        ({"level": 0.99}, "need at least 199 rows.*enough for a coverage of 0.975"),
        ({"groups": ["a"] * 5}, "one label for each"),
        ({"groups": ["a"] * 20}, "among the 2 groups.*Got a"),
        ({"level": 1.0}, "level must lie"),
    ],
)
def test_bad_arguments_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        conformal(calibrated(), make_rows(20, seed=3)[0], **changes)


def test_too_small_a_group_is_refused_by_name() -> None:
    x, y = make_rows(60, seed=1)
    groups = ["few"] * 3 + ["many"] * 57
    model = small().fit(*make_rows(40)).calibrate(x, y, groups=groups)
    conformal(model, x[3:], groups=groups[3:])
    with pytest.raises(UserError, match=r"Got 3 of the group 'few', enough for a coverage of 0.5"):
        conformal(model, x, groups=groups)


def test_rows_of_the_fit_are_refused_as_new_rows() -> None:
    x, y = make_rows(40)
    with pytest.raises(UserError, match=r"rows that fit did not get. Got 40 rows, 40 of them"):
        one_model().calibrate(x, y)
    with pytest.raises(UserError, match="Got none of the rows"):
        fitted().calibrate(*make_rows(20, seed=7), out_of_fold=True)


def test_a_column_of_a_frame_makes_groups_of_the_held_out_rows() -> None:
    random = np.random.default_rng(0)
    x, y = make_rows(160)
    place = random.choice(["hill", "sea", "town"], 160)
    frame = pd.DataFrame({"x": x[:, 0], "place": place})
    y = np.where(place == "sea", y + random.normal(size=160), y)
    model = default().fit(frame, y)
    new = pd.DataFrame({"x": x[:9, 0], "place": ["hill", "sea", "town"] * 3})
    lower, upper = conformal(model, new, groups="place")
    wide = (upper - lower).reshape(3, 3)
    assert np.all(wide[:, 1] > wide[:, 0])
    for groups, message in (("x", "group of row 0, by 'x'"), ("colour", "a column of the fit")):
        with pytest.raises(UserError, match=message):
            conformal(model, new, groups=groups)
    with pytest.raises(UserError, match="rows that fit did not get"):
        model.calibrate(frame, y)


def test_rows_whose_levels_became_mean_targets_are_not_taken_for_new_ones() -> None:
    x, y = make_rows(120)
    street = [f"street {number % 30}" for number in range(120)]
    frame = pd.DataFrame({"x": x[:, 0], "street": street})
    model = default().fit(frame, y)
    assert model.input_names_ == ["x", "street mean"]
    with pytest.raises(UserError, match="rows that fit did not get"):
        model.calibrate(frame, y)
    with pytest.raises(UserError, match="cannot be: each had the means"):
        model.calibrate(frame, y, out_of_fold=True)
    with pytest.raises(UserError, match="other than mean targets"):
        conformal(model, frame, groups="street")
