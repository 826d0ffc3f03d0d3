from __future__ import annotations

import copy
import pickle
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders.estimators import (
    Array,
    condition_on,
    few_noise_steps,  # noqa: F401 (for every test here)
    make_rows,
    skewed_rows,
    small,
)
from builders.neighbours import without

from sswim import load
from sswim.base.validation import UserError
from sswim.estimator import BaseRegressor
from sswim.estimator.model_file import MODEL
from sswim.members.checkpoints import Checkpoints
from sswim.members.history import Step
from sswim.members.neighbour_member import NeighbourMember
from sswim.rows import ArraySource, summary

X, Y = make_rows(20)

DENSITIES: dict[str, dict[str, Any]] = {
    "plain": {},
    "one amplitude": {"local_amplitude": False, "kernel": "rbf"},
    "densities": {"output_warp": "sinh-arcsinh", "noise": "input-dependent"},
    "two members": {"n_members": 2, "inputs": "normal-scores"},
}
EVERY_DENSITY = pytest.mark.parametrize("density", DENSITIES.values(), ids=DENSITIES.keys())


def near(**changes: Any) -> BaseRegressor:
    """Make an estimator that predicts by neighbours, and is trained quickly."""
    return small(**{"n_neighbors": 8, **changes})


@pytest.fixture(scope="module")
def rows() -> tuple[Array, Array]:
    return make_rows()


@pytest.fixture(scope="module")
def regressor(rows: tuple[Array, Array]) -> BaseRegressor:
    return near(max_iter=20).fit(*rows)


def test_detail_is_learnt() -> None:
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, size=(1200, 2))
    y = np.sin(12 * x[:, 0]) * np.cos(9 * x[:, 1]) + 0.05 * random.normal(size=1200)
    model = near(n_neighbors=16, depth=0, max_iter=60).fit(x[:1000], y[:1000])
    mean, std = model.predict(x[1000:], return_std=True)
    assert np.sqrt(np.mean((mean - y[1000:]) ** 2)) < 0.15
    assert 0.02 < np.median(std) < 0.2
    lower, upper = model.predict_interval(x[1000:], 0.9)
    assert 0.8 < np.mean((lower < y[1000:]) & (y[1000:] < upper)) < 0.99
    assert np.mean(model.log_density(x[1000:], y[1000:])) > 0.7


def test_predictions_agree_with_each_other(
    regressor: BaseRegressor, rows: tuple[Array, Array]
) -> None:
    x, y = rows[0][:10], rows[1][:10]
    mean, std = regressor.predict(x, return_std=True)
    assert np.allclose(regressor.predict(x), mean, rtol=1e-12)
    _, latent = regressor.predict(x, return_std=True, include_noise=False)
    assert np.allclose(regressor.predict_noise(x) ** 2, std**2 - latent**2)
    _, covariance = regressor.predict(x, return_cov=True, include_noise=False)
    assert np.allclose(np.sqrt(np.diag(covariance)), latent)
    _, noisy = regressor.predict(x, return_cov=True)
    assert np.allclose(np.sqrt(np.diag(noisy)), std)
    density = regressor.predict_distribution(x)
    assert density.densities[0].warped.degrees is not None
    middle = regressor.predict_quantiles(x, [0.5])[:, 0]
    assert np.allclose(middle, mean, atol=1e-8)
    assert np.allclose(regressor.cdf(x, middle), 0.5)
    step = 1e-5
    slope = (regressor.cdf(x, y + step) - regressor.cdf(x, y - step)) / (2 * step)
    assert np.allclose(np.exp(regressor.log_density(x, y)), slope, rtol=1e-4)


def test_drawn_functions_in_the_units_of_the_data(
    regressor: BaseRegressor, rows: tuple[Array, Array]
) -> None:
    x = rows[0][:6]
    draws = regressor.sample_y(x, 1000, random_state=1)
    mean, std = regressor.predict(x, return_std=True, include_noise=False)
    assert np.all(np.abs(draws.mean(1) - mean) < 5 * std / 1000**0.5)
    assert np.allclose(draws.std(1), std, rtol=0.2)
    assert np.allclose(regressor.sample_y(x[3:], 1000, random_state=1), draws[3:])


def test_what_it_is(regressor: BaseRegressor, rows: tuple[Array, Array]) -> None:
    assert regressor.keeps_rows_
    assert regressor.n_samples_seen_ == 60
    assert small().fit(*rows).keeps_rows_  # few rows are smaller than sums over them
    assert not hasattr(regressor, "log_marginal_likelihood_")
    with pytest.raises(AttributeError, match="no evidence of all rows"):
        regressor.log_marginal_likelihood_  # noqa: B018
    assert len(regressor.warp(rows[0])) == 1


def test_leaving_one_out_is_conditioning_on_the_others() -> None:
    model = near(n_neighbors=11, max_iter=3).fit(X[:12], Y[:12])
    mean, std = model.loo_predict(return_std=True)
    [member] = model._ensemble.members
    assert isinstance(member, NeighbourMember)
    for row in (0, 7):
        others = NeighbourMember.condition_on(model.members_[0].model, without(member.rows, row))
        less = replace(model._ensemble, members=(others,))
        mixture = less.predict(model._check_inputs(X[row : row + 1], None))
        assert mean[row] == pytest.approx(mixture.mean.item(), rel=1e-8)
        assert std[row] ** 2 == pytest.approx(mixture.observation_variance.item(), rel=1e-8)


@EVERY_DENSITY
def test_partial_fit_equals_conditioning_on_all_rows(density: dict[str, Any]) -> None:
    x, y = skewed_rows(60)
    whole, pieces = (near(**density).fit(x, y) for _ in range(2))
    # Condition on the first rows alone, with the same hyper-parameters.
    first = pieces._ensemble.scaling.rows(pieces._check_rows(x[:20], y[:20], None))
    members = tuple(NeighbourMember.condition_on(member.model, first) for member in pieces.members_)
    condition_on(pieces, *members, rows=first)
    pieces.partial_fit(x[20:45], y[20:45]).partial_fit(x[45:], y[45:])
    assert pieces.n_samples_seen_ == 60
    for ask in (
        lambda model: model.predict(x, return_std=True),
        lambda model: model.log_density(x, y),
        lambda model: model.predict(x[:5], return_cov=True)[1],
    ):
        assert np.allclose(ask(pieces), ask(whole), rtol=1e-8)
    assert np.isfinite(whole.loo_predict(return_std=True)).all()
    with pytest.raises(UserError, match="right after a fit of arrays"):
        pieces.loo_predict()


@EVERY_DENSITY
def test_a_file_with_rows_predicts_the_same_to_the_last_bit(
    density: dict[str, Any], tmp_path: Path
) -> None:
    x, y = skewed_rows(60)
    before = near(**density).fit(x, y, sample_weight=np.tile([1.0, 2.0, 0.0], 20))
    before.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
    assert loaded.get_params() == before.get_params() | {"device": "auto"}
    others = [loaded, pickle.loads(pickle.dumps(before)), copy.deepcopy(before)]
    for _ in range(2):  # and with more rows
        for ask in (
            lambda model: model.predict(x, return_std=True),
            lambda model: model.predict(x, return_std=True, X_std=0.1),
            lambda model: model.predict(x[:5], return_cov=True)[1],
            lambda model: model.predict_quantiles(x, [0.01, 0.5, 0.9]),
            lambda model: model.log_density(x, y),
            lambda model: model.sample_y(x[:5], 3, include_noise=True),
            lambda model: model.n_samples_seen_,
        ):
            expected = np.asarray(ask(before))
            for other in others:
                assert np.array_equal(np.asarray(ask(other)), expected)
        for model in (before, *others):
            model.partial_fit(x[:5] + 0.1, y[:5])


def test_rows_with_uncertain_inputs_are_in_the_file(
    rows: tuple[Array, Array], tmp_path: Path
) -> None:
    x, y = rows
    model = near().fit(x, y, X_std=0.1)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert np.array_equal(loaded.predict(x, return_std=True), model.predict(x, return_std=True))


def test_members_share_the_rows_of_a_file(rows: tuple[Array, Array], tmp_path: Path) -> None:
    near(n_members=3).fit(*rows).save(tmp_path / "model")
    tensors, _ = MODEL.read(tmp_path / "model")
    names = {name for name in tensors if tensors[name].shape[:1] == (60,)}
    assert names == {"rows.inputs", "rows.targets"}
    members = load(tmp_path / "model")._ensemble.members
    assert len(members) == 3


def test_a_file_without_rows_asks_for_them(
    regressor: BaseRegressor, rows: tuple[Array, Array], tmp_path: Path
) -> None:
    x, y = rows
    regressor.save(tmp_path / "model", include_rows=False)
    tensors, _ = MODEL.read(tmp_path / "model")
    assert all(60 not in tensor.shape for tensor in tensors.values())
    loaded = load(tmp_path / "model")
    assert loaded.n_samples_seen_ == 0
    assert loaded.keeps_rows_
    for ask in (
        lambda: loaded.predict(x),
        lambda: loaded.predict(x, return_std=True),
        lambda: loaded.predict(x, return_cov=True),
        lambda: loaded.predict(x, return_std=True, X_std=0.1),
        lambda: loaded.predict_interval(x),
        lambda: loaded.log_density(x, y),
        lambda: loaded.sample_y(x),
    ):
        with pytest.raises(UserError, match=r"saved without them.*partial_fit\(X, y\) first"):
            ask()
    assert np.isfinite(loaded.warp(x)[0][0]).all()  # warps need no rows
    loaded.partial_fit(x[:30], y[:30]).partial_fit(x[30:], y[30:])
    ours, theirs = (model.predict(x, return_std=True) for model in (loaded, regressor))
    assert np.allclose(ours, theirs, rtol=1e-9)


def test_a_fit_that_was_cut_off_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    density = DENSITIES["two members"]
    x, y = skewed_rows(60)
    expected = near(**density).fit(x, y).predict(x, return_std=True)

    class Killed(Exception):  # noqa: N818
        pass

    def cut_off(member: int, step: Step) -> None:
        if step.index == 3:
            raise Killed

    with suppress(Killed):
        near(**density, callback=cut_off).fit(x, y, checkpoints=Checkpoints(tmp_path, 2))
    resume = Checkpoints(tmp_path, 2, resume=True)
    resumed = near(**density).fit(x, y, checkpoints=resume).predict(x, return_std=True)
    assert np.array_equal(resumed, expected)


def test_a_callback_ends_the_training(rows: tuple[Array, Array]) -> None:
    model = near(n_members=2, max_iter=6, callback=lambda member, step: step.index == 2)
    model.fit(*rows)
    assert model.n_iter_ == 2
    assert np.isfinite(model.predict(rows[0])).all()


def test_same_seed_same_result_and_seeds_matter(rows: tuple[Array, Array]) -> None:
    first, again, other = (near(random_state=s).fit(*rows).predict(X) for s in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_row_of_weight_two_is_the_row_twice(rows: tuple[Array, Array]) -> None:
    """It is to the last bit, because copies are merged before anything is learnt."""
    x, y = rows
    number = np.arange(60).repeat(np.tile([1, 2, 3], 20))
    weighted = near().fit(x, y, sample_weight=np.tile([1, 2, 3], 20))
    repeated = near().fit(x[number], y[number])
    for ask in (
        lambda model: model.predict(x, return_std=True),
        lambda model: model.n_samples_seen_,
    ):
        assert np.array_equal(ask(weighted), ask(repeated))
    shuffled = np.random.default_rng(0).permutation(number)
    assert np.array_equal(near().fit(x[shuffled], y[shuffled]).predict(x), weighted.predict(x))


def test_single_precision_is_close(rows: tuple[Array, Array]) -> None:
    """All rows are neighbours here; of fewer, the far ones depend on the last bits of inputs."""
    double, single = (
        near(dtype=d, n_neighbors=60).fit(*rows).predict(X) for d in ("float64", "float32")
    )
    assert np.allclose(single, double, atol=0.01)


@pytest.mark.parametrize("depth", [0, 1])
def test_inputs_without_deviation_are_exact(depth: int, rows: tuple[Array, Array]) -> None:
    x, y = rows
    exact, zero = (near(depth=depth).fit(x, y, X_std=std) for std in (None, 0.0))
    assert np.allclose(
        zero.predict(x, return_std=True), exact.predict(x, return_std=True), rtol=1e-5
    )
    ours, theirs = (exact.predict(X, return_std=True, X_std=std) for std in (0.0, None))
    assert np.allclose(ours, theirs, rtol=1e-9)


def test_uncertain_inputs_widen_predictions(
    regressor: BaseRegressor, rows: tuple[Array, Array]
) -> None:
    random = np.random.default_rng(0)
    x, deviation = rows[0][:4], np.array([0.0, 0.3])
    for std in (deviation, deviation[::-1], np.array([0.2, 0.2])):
        mean, total = regressor.predict(x, return_std=True, X_std=std)
        for row in range(4):
            drawn = x[row] + std * random.normal(size=(2000, 2))
            means, stds = regressor.predict(drawn, return_std=True)
            expected = np.sqrt(np.mean(stds**2) + np.var(means))
            assert abs(mean[row] - means.mean()) < 0.1 * expected
            assert total[row] == pytest.approx(expected, rel=0.1)


def test_known_input_errors_help_in_fit() -> None:
    """Rows whose inputs are nearly unknown have little influence."""
    x, y = make_rows(200)
    deviation = np.zeros_like(x)
    deviation[::2] = 1.5
    random = np.random.default_rng(0)
    blurred = x + deviation * random.normal(size=x.shape)
    truth = np.sin(2 * x[:, 0])
    errors = []
    for known in (None, deviation):
        model = near(depth=0, n_neighbors=16, max_iter=30).fit(blurred, y, X_std=known)
        mean, std = model.predict(x, return_std=True)
        errors.append(np.sqrt(np.mean((mean - truth) ** 2)))
        assert np.isfinite(std).all()
    assert errors[1] < 0.8 * errors[0]


def test_several_targets(rows: tuple[Array, Array], tmp_path: Path) -> None:
    x, y = rows
    both = np.stack([y, 100 * y + 5], axis=1)
    model = near(max_iter=20).fit(x, both)
    mean, std = model.predict(x, return_std=True)
    assert mean.shape == std.shape == (60, 2)
    assert model.sample_y(x, 3).shape == (60, 2, 3)
    assert model.predict(x[:5], return_cov=True)[1].shape == (5, 5, 2)
    assert np.allclose(mean[:, 1], 100 * mean[:, 0] + 5, atol=5)


GOOD_FITS: dict[str, tuple[Array, Array]] = {
    "more neighbours than rows": (X[:5], Y[:5]),
    "two rows": (X[:2], Y[:2]),
    "a constant column": (np.column_stack([X, np.full(20, 0.1)]), Y),
    "all columns constant": (np.full((20, 3), 7.0), Y),
    "a constant target": (X, np.full(20, 3.0)),
    "two values": (X, (Y > 0).astype(float)),
    "duplicate rows": (np.repeat(X[:10], 2, axis=0), np.repeat(Y[:10], 2)),
    "duplicate inputs": (np.repeat(X[:4], 5, axis=0), Y),
    "one row twenty times": (np.repeat(X[:1], 20, axis=0), np.full(20, 3.0)),
    "identical inputs": (np.repeat(X[:1], 20, axis=0), Y),
    "more columns than rows": (np.random.default_rng(0).normal(size=(20, 50)), Y),
    "integers": (np.arange(40).reshape(20, 2), np.arange(20)),
    "rounded targets": (X, Y.round(1)),
    "columns of very different scale": (X * np.array([1e-12, 1e12]), Y),
    "a target far away": (X, np.where(np.arange(20) == 3, 1e3, Y)),
}


@pytest.mark.parametrize("name", GOOD_FITS)
def test_unusual_rows_are_fitted(name: str) -> None:
    x, y = GOOD_FITS[name]
    regressor = near(max_iter=15).fit(x, y)
    mean, std = regressor.predict(x, return_std=True)
    assert np.sqrt(np.mean((mean - y) ** 2)) <= 1.05 * np.std(y) + 0.1  # not worse than their mean
    assert (std > 0).all()
    assert np.isfinite(std).all()
    assert (np.diff(regressor.predict_quantiles(x), axis=-1) >= 0).all()
    assert np.isfinite(regressor.log_density(x, y)).all()
    far, wide = regressor.predict(x + 1e6 * (1 + np.abs(x)), return_std=True)
    assert np.isfinite(far).all()
    assert np.isfinite(wide).all()
    assert np.isfinite(regressor.loo_predict(return_std=True)).all()
    if name in ("a constant target", "one row twenty times"):
        assert np.allclose(mean, 3.0, atol=0.1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_neighbors": -1}, "n_neighbors must be an integer of at least 1. Got -1"),
        ({"n_neighbors": 2.5}, "n_neighbors must be an integer of at least 1. Got 2.5"),
        ({"n_neighbors": "8"}, "n_neighbors must be an integer of at least 1. Got '8'"),
        ({"inputs": "ranks"}, "inputs must be"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        near().set_params(**changes)._check_settings()


@pytest.mark.parametrize("in_memory", [False, True], ids=["source", "arrays"])
def test_of_a_source_larger_than_memory_a_sample_is_kept(
    in_memory: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary, "SAMPLE_ROWS", 50)
    x, y = make_rows(300)
    memory = 3 * 8 * 4 * 100  # three copies of a hundred rows of two inputs, a target, a weight
    if in_memory:  # the user has them all in memory already
        assert near().fit(x, y, memory=memory).n_samples_seen_ == 300
        return
    with pytest.warns(UserWarning, match="hold 100 of 300 rows: a random sample"):
        model = near().fit(ArraySource(x, y), memory=memory)
    assert model.n_samples_seen_ == 100
    assert np.isfinite(model.predict(x, return_std=True)).all()
    assert near().fit(ArraySource(x, y)).n_samples_seen_ == 300


def test_a_source_is_fitted_as_arrays_are(rows: tuple[Array, Array]) -> None:
    ours, theirs = near().fit(ArraySource(*rows)), near().fit(*rows)
    assert np.allclose(ours.predict(X), theirs.predict(X), rtol=1e-6)
    with pytest.raises(UserError, match="loo_predict needs the arrays"):
        ours.loo_predict()
