from __future__ import annotations

import copy
import doctest
import math
from typing import Any

import numpy as np
import pytest
from builders.clock import Clock
from builders.commands import run_python
from builders.estimators import Array, condition_on, make_rows, skewed_rows, small
from builders.models import DENSITIES, unchecked
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sswim import NeighbourGPRegressor, SSWIMRegressor, WarpedGPRegressor
from sswim.ensemble.plan import KINDS
from sswim.estimator import fitted as fitted_module
from sswim.estimator import progress as training_progress
from sswim.members import condition
from sswim.members.checkpoints import Step

X, Y = make_rows(20)
ROWS = make_rows()

BOTH_WAYS = pytest.mark.parametrize(
    "way", [{}, {"n_neighbors": 8}], ids=["by features", "by neighbours"]
)
NEAR: dict[str, dict[str, Any]] = {
    "neighbours": {"n_neighbors": 8},
    "one amplitude": {"n_neighbors": 8, "local_amplitude": False, "kernel": "rbf"},
    "neighbours, densities": {"n_neighbors": 8} | DENSITIES["sinh-arcsinh"],
    "two members": {"n_neighbors": 8, "n_members": 2, "inputs": "normal-scores"},
}
EVERY_KIND = pytest.mark.parametrize("kind", (DENSITIES | NEAR).values(), ids=DENSITIES | NEAR)


FEW_STEPS = """
from sswim.members import start as screening
from sswim.warps import noise_field as noise_fit
noise_fit.STEPS, screening.N_FREQUENCIES = 5, 8
"""
"""Few steps and few features in every part of a fit of the default."""

FEATURES = "depth=1, n_components=16, n_pseudo=4"


@pytest.mark.parametrize(
    ("settings", "setup"),
    [
        (f"{FEATURES}, max_iter=5", ""),
        ("depth=0, n_neighbors=8, max_iter=2", ""),
        ("n_components=16, n_pseudo=4, n_members=1, max_iter=1", FEW_STEPS),
        *(
            pytest.param(settings, "", marks=pytest.mark.slow)
            for settings in (
                f"{FEATURES}, output_warp='sinh-arcsinh', noise='input-dependent'",
                f"{FEATURES}, output_warp='tanh', noise='input-dependent'",
                "",
            )
        ),
    ],
)
def test_scikit_learns_own_checks(settings: str, setup: str) -> None:
    """They run in a new process, without type checks and free to draw numbers."""
    program = f"""
from sklearn.utils.estimator_checks import check_estimator
from sswim.estimator import make_estimator
{setup}
for result in check_estimator(make_estimator({settings}), on_fail=None, on_skip=None):
    print(result["status"], result["check_name"], repr(result["exception"]), sep="|")
"""
    output = run_python("-W", "ignore", "-c", program)
    assert output.returncode == 0, output.stderr
    results = [line.split("|") for line in output.stdout.strip().splitlines()]
    assert not [line for line in results if line[0] not in ("passed", "skipped")]
    assert len([line for line in results if line[0] == "passed"]) >= 55
    skipped = {line[1] for line in results if line[0] == "skipped"}
    assert skipped <= {"check_array_api_input"}  # needs SCIPY_ARRAY_API in the environment


@pytest.mark.parametrize("kind", [SSWIMRegressor, WarpedGPRegressor, NeighbourGPRegressor])
def test_the_example_of_every_estimator_runs(kind: type) -> None:
    [example] = doctest.DocTestFinder(recurse=False).find(kind, globs={})
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0


def test_it_is_a_good_citizen_of_scikit_learn() -> None:
    x, y = ROWS
    pipeline = make_pipeline(StandardScaler(), small(max_iter=20))
    found = cross_validate(pipeline, x, y, cv=KFold(3), n_jobs=2, return_estimator=True)
    assert found["test_score"].min() > 0.3
    (train, _), *_ = KFold(3).split(x)
    expected = clone(pipeline).fit(x[train], y[train]).predict(x)
    assert np.array_equal(found["estimator"][0].predict(x), expected)  # it comes from a worker
    search = GridSearchCV(small(), {"depth": [0, 1], "n_components": [16, 32]}, cv=2, n_jobs=2)
    assert search.fit(x, y).best_params_.keys() == {"depth", "n_components"}
    tags = small().__sklearn_tags__().input_tags
    assert all((tags.categorical, tags.string, tags.allow_nan, tags.two_d_array))
    assert not tags.sparse
    settings = {"n_members": 4, "output_warp": "tanh", "noise": "input-dependent"}
    assert clone(small(**settings)).get_params().items() >= settings.items()


def test_a_limited_time_leaves_long_trainings_out(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    for module in (fitted_module, training_progress):
        monkeypatch.setattr(module, "perf_counter", clock)

    def callback(member: int, step: Step) -> None:
        clock.now += 1

    settings: dict[str, Any] = {"depth": None, "n_components": 16, "n_pseudo": 4, "n_members": 1}
    regressor = small(**settings, noise="constant", callback=callback).fit(*ROWS, time_limit=10.0)
    assert clock.now < 1010
    trained = {kind.name: kind for kind in regressor.kinds_}
    assert {"mean", "neighbours-0-rough"} <= set(trained) < set(KINDS)
    assert "features-2" not in trained  # its steps take most time
    assert sum(kind.weight for kind in regressor.kinds_) == pytest.approx(1)
    clock.now = 1000.0
    regressor.fit(*ROWS, time_limit=1000.0)
    assert [kind.name for kind in regressor.kinds_] == list(KINDS)


@pytest.mark.parametrize("time_limit", [0, -1.0, math.nan, "1 h", True])
def test_a_time_limit_is_a_positive_number(time_limit: Any) -> None:
    with pytest.raises(ValueError, match="time_limit must be a positive number of seconds"):
        unchecked(fitted_module.find_deadline, time_limit=time_limit)


@BOTH_WAYS
def test_known_input_errors_help_in_fit(way: dict[str, Any]) -> None:
    """Rows whose inputs are nearly unknown have little influence."""
    x, y = make_rows(200)
    deviation = np.zeros_like(x)
    deviation[::2] = 1.5
    random = np.random.default_rng(0)
    blurred = x + deviation * random.normal(size=x.shape)
    truth = np.sin(2 * x[:, 0])
    settings: dict[str, Any] = {"depth": 0, "n_components": 64, "max_iter": 40, **way}
    errors = []
    for known in (None, deviation):
        mean, std = small(**settings).fit(blurred, y, X_std=known).predict(x, return_std=True)
        errors.append(np.sqrt(np.mean((mean - truth) ** 2)))
        assert np.isfinite(std).all()
    assert errors[1] < 0.8 * errors[0]


@EVERY_KIND
def test_partial_fit_in_pieces_equals_one_fit(kind: dict[str, Any]) -> None:
    x, y = ROWS
    whole, pieces = (small(**kind).fit(x, y) for _ in range(2))
    # Condition on the first piece alone, with the same hyper-parameters.
    first = pieces._ensemble.scaling.rows(pieces._check_rows(x[:20], y[:20], None))
    condition_on(pieces, *(condition(m.model, first) for m in pieces.members_), rows=first)
    for piece in range(20, 60, 8):
        pieces.partial_fit(x[piece : piece + 8], y[piece : piece + 8])
    for ask in (
        lambda model: model.predict(x, return_std=True),
        lambda model: model.log_density(x, y),
        lambda model: model.predict(x[:5], return_cov=True)[1],
        lambda model: getattr(model, "log_marginal_likelihood_", 0.0),
    ):
        np.testing.assert_allclose(ask(pieces), ask(whole), rtol=1e-7, atol=1e-12)
    assert pieces.n_samples_seen_ == 60
    assert np.isfinite(whole.loo_predict(return_std=True)).all()
    with pytest.raises(ValueError, match="right after a fit of arrays"):
        pieces.loo_predict()


@EVERY_KIND
def test_leaving_one_out_is_conditioning_on_the_others(kind: dict[str, Any]) -> None:
    """The other models have the same hyper-parameters and scaling."""
    n = 9 if "n_neighbors" in kind else 30
    x, y = skewed_rows(n)
    regressor = small(**kind).fit(x, y)
    mean, std = regressor.loo_predict(return_std=True)
    for row in (0, 7):
        others = np.arange(n) != row
        kept = regressor._ensemble.scaling.rows(regressor._check_rows(x[others], y[others], None))
        less = copy.copy(regressor)
        condition_on(less, *(condition(member.model, kept) for member in regressor.members_))
        expected = less.predict(x[row : row + 1], return_std=True)
        assert np.allclose([mean[row], std[row]], np.ravel(expected), rtol=1e-6)


@BOTH_WAYS
def test_several_targets_are_those_apart(way: dict[str, Any]) -> None:
    x, y = ROWS
    model = small(**way).fit(x, np.stack([y, 3 - 2 * y], axis=1))
    mean, std = model.predict(x, return_std=True)
    assert np.allclose(mean[:, 1], 3 - 2 * mean[:, 0])
    assert np.allclose(std[:, 1], 2 * std[:, 0])
    assert model.sample_y(x, 4).shape == (60, 2, 4)
    assert model.predict(x[:5], return_cov=True)[1].shape == (5, 5, 2)


@BOTH_WAYS
def test_history_iterations_callback_and_progress(
    way: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[tuple[int, int]] = []

    def callback(member: int, step: Step) -> bool:
        seen.append((member, step.index))
        return step.index == 3

    regressor = small(**way, n_members=3, max_iter=6, callback=callback).fit(*ROWS)
    assert regressor.n_iter_ == 3
    assert len(regressor.history_[0]) == 4
    assert set(seen) >= {(0, step) for step in range(4)}
    if not way:  # they are trained together
        assert seen == [(member, step) for step in range(4) for member in range(3)]
    assert capsys.readouterr().err == ""
    small(**way, max_iter=2, verbose=True).fit(*ROWS)
    assert "2/2" in capsys.readouterr().err


@BOTH_WAYS
def test_same_seed_same_result_and_seeds_matter(way: dict[str, Any]) -> None:
    states = (1, 1, 2, np.random.RandomState(3), np.random.RandomState(3))
    found = [small(**way, random_state=state).fit(*ROWS).predict(X) for state in states]
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])
    assert np.array_equal(found[3], found[4])


UNUSUAL_ROWS: dict[str, tuple[Array, Array]] = {
    "all columns constant": (np.full((20, 3), 7.0), Y),
    "a constant target": (X, np.full(20, 3.0)),
    "duplicate inputs": (np.repeat(X[:4], 5, axis=0), Y),
    "identical inputs": (np.repeat(X[:1], 20, axis=0), Y),
    "more columns than rows": (np.random.default_rng(0).normal(size=(20, 50)), Y),
    "booleans": (X > 0, Y > 0),
    "numbers as objects": (X.astype(object), Y),
    "read-only memory": (np.frombuffer(X.tobytes()).reshape(X.shape), Y),
    "columns of very different scale": (X * np.array([1e-12, 1e12]), Y),
    "a target far away": (X, np.where(np.arange(20) == 3, 1e3, Y)),
    "two rows": (X[:2], Y[:2]),
}


@pytest.mark.filterwarnings("ignore:.* is one and the same value", "ignore:.*has a value")
@pytest.mark.parametrize("name", UNUSUAL_ROWS)
@pytest.mark.parametrize("kind", ["plain", "sinh-arcsinh", "neighbours"])
def test_unusual_rows_are_fitted(name: str, kind: str) -> None:
    x, y = UNUSUAL_ROWS[name]
    regressor = small(max_iter=20, **(DENSITIES | NEAR)[kind]).fit(x, y)
    mean, std = regressor.predict(x, return_std=True)
    assert np.sqrt(np.mean((mean - y) ** 2)) <= 1.05 * np.std(y) + 0.1  # not worse than their mean
    assert (std > 0).all()
    assert (np.diff(regressor.predict_quantiles(x), axis=-1) >= 0).all()
    assert np.isfinite(regressor.log_density(x, y)).all()
    assert np.isfinite(regressor.loo_predict(return_std=True)).all()
    if name == "a constant target":
        assert np.allclose(mean, 3.0, atol=0.1)
    if kind == "neighbours":
        far = x.astype(float) + 1e6 * (1 + np.abs(x.astype(float)))
        assert np.isfinite(regressor.predict(far, return_std=True)).all()
