from __future__ import annotations

import copy
import io
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import torch
from builders.estimators import Array, skewed_rows, small
from builders.models import DENSITIES
from builders.processes import fork_server
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sswim import load
from sswim.base.validation import UserError
from sswim.ensemble.plan import Recipe
from sswim.estimator import BaseRegressor, make_estimator
from sswim.estimator.model_file import MODEL, MODEL_BYTES, VERSION, ModelFileError
from sswim.members.checkpoints import Step

X, Y = skewed_rows(60)

SETTINGS: dict[str, dict[str, Any]] = {
    "features": {"depth": 2},
    "many features": {"n_components": 256, "n_members": 2, "noise": "input-dependent"},
    "single precision": {"dtype": "float32", "output_warp": "sinh-arcsinh"},
    "one amplitude": {"n_neighbors": 8, "local_amplitude": False, "inputs": "normal-scores"},
    "neighbours, densities": {"n_neighbors": 8, **DENSITIES["sinh-arcsinh"]},
}


@pytest.fixture(scope="module", params=[*SETTINGS.values()], ids=[*SETTINGS])
def fitted(request: pytest.FixtureRequest) -> BaseRegressor:
    return small(**request.param).fit(X, Y, np.tile([1.0, 2.0, 0.0], 20), X_std=0.05)


@pytest.fixture(scope="module")
def simple() -> BaseRegressor:
    return small().fit(X, Y)


def by_file(model: BaseRegressor, folder: Path) -> BaseRegressor:
    """Save and load a model; the file of what was loaded has the same bytes."""
    again = (folder / "model", folder / "again")
    model.save(again[0])
    load(again[0]).save(again[1])
    assert again[1].read_bytes() == again[0].read_bytes()
    return load(again[1]).set_params(device=model.device)


def answers(model: BaseRegressor) -> list[Array]:
    """Return what a model answers to some questions."""
    return [
        model.predict(X),
        *model.predict(X, return_std=True, X_std=0.1),
        model.predict(X, return_std=True, include_noise=False)[1],
        model.predict(X[:9], return_cov=True)[1],
        model.predict_quantiles(X, [0.01, 0.5, 0.9]),
        *model.predict_interval(X),
        model.predict_noise(X),
        model.log_density(X, Y),
        model.cdf(X, Y),
        model.sample_y(X[:5], 3, include_noise=True),
        model.warp_targets(Y),
        *(part for layer in model.warp(X) for part in layer),
        *model.history_,
        model.weights_,
        np.array([model.n_samples_seen_, getattr(model, "log_marginal_likelihood_", 0.0)]),
    ]


def updated(model: BaseRegressor) -> BaseRegressor:
    """Return a copy of a model that has learnt some more rows."""
    return copy.copy(model).partial_fit(X[:5] + 0.1, Y[:5])


@pytest.fixture(scope="module")
def expected(fitted: BaseRegressor) -> tuple[list[Array], list[Array]]:
    """Return what a model answers, and what it answers after some more rows."""
    return answers(fitted), answers(updated(fitted))


def assert_answers(model: BaseRegressor, expected: list[Array]) -> None:
    for mine, theirs in zip(answers(model), expected, strict=True):
        assert np.array_equal(mine, theirs)


@pytest.mark.parametrize("form", ["file", "pickle"])
def test_copies_answer_the_same_to_the_last_bit(
    form: str, fitted: BaseRegressor, expected: tuple[list[Array], list[Array]], tmp_path: Path
) -> None:
    before, after = expected
    is_file = form == "file"
    again = by_file(fitted, tmp_path) if is_file else pickle.loads(pickle.dumps(fitted))
    assert_answers(again, before)
    assert again.get_params() == fitted.get_params()
    assert again.kinds_ == fitted.kinds_
    assert again.n_iter_ == fitted.n_iter_
    assert_answers(updated(again), after)
    for model in (again, fitted):  # neither is changed with its copy
        assert_answers(model, before)


def test_other_ways_to_copy(simple: BaseRegressor, tmp_path: Path) -> None:
    joblib.dump(simple, tmp_path / "model.joblib")
    for again in (
        joblib.load(tmp_path / "model.joblib"),
        pickle.loads(pickle.dumps(simple, protocol=2)),
        copy.deepcopy(simple),
        copy.copy(simple),
    ):
        assert_answers(again, answers(simple))
        assert again.get_params() == simple.get_params()


def test_the_state_is_parameters_and_a_model_file_and_names_nothing_of_pytorch(
    fitted: BaseRegressor, tmp_path: Path
) -> None:
    state = fitted.__getstate__()
    assert state.keys() == fitted.get_params().keys() | {MODEL_BYTES}
    fitted.save(tmp_path / "model")
    assert state[MODEL_BYTES] == (tmp_path / "model").read_bytes()
    assert len(pickle.dumps(fitted)) < len(state[MODEL_BYTES]) + 2000
    found: set[str] = set()

    class Unpickler(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            found.add(name)
            return super().find_class(module, name)

    assert Unpickler(io.BytesIO(pickle.dumps(fitted))).load().n_features_in_ == 2
    assert found <= {type(fitted).__name__, "Recipe"}


def test_an_estimator_that_is_not_fitted_stays_so(simple: BaseRegressor) -> None:
    model = make_estimator(recipe=Recipe(stacking=False))
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), clone(model)):
        assert again.get_params() == model.get_params()
        with pytest.raises(NotFittedError):
            again.predict(X)
    again = clone(pickle.loads(pickle.dumps(simple)))
    assert again.get_params() == simple.get_params()
    assert not again.__sklearn_is_fitted__()


def test_the_arrays_of_fit_are_left_out(simple: BaseRegressor) -> None:
    assert np.isfinite(simple.loo_predict()).all()
    with pytest.raises(UserError, match=r"not kept after partial_fit, .* in a pickle"):
        copy.deepcopy(simple).loo_predict()


def keep_going(member: int, step: Step) -> None:
    """Do nothing after a step."""


def test_a_callback_of_a_module_survives_and_a_local_one_is_an_error_of_pickle() -> None:
    model = small(callback=keep_going).fit(X, Y)
    assert pickle.loads(pickle.dumps(model)).callback is keep_going
    model.set_params(callback=lambda member, step: None)
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(model)


@pytest.mark.skipif(torch.cuda.is_available(), reason="the device exists on this machine")
def test_a_model_of_a_missing_device_predicts_on_this_one(simple: BaseRegressor) -> None:
    elsewhere = copy.deepcopy(simple).set_params(device="cuda:1")
    again = pickle.loads(pickle.dumps(elsewhere))
    assert again.device == "cuda:1"
    assert np.array_equal(again.predict(X), simple.predict(X))


def test_another_process_predicts_and_fits_the_same(simple: BaseRegressor) -> None:
    expected = simple.predict(X)
    with fork_server().Pool(1) as pool:
        assert np.array_equal(pool.apply(simple.predict, (X,)), expected)
        again = pool.apply(small().fit, (X, Y))
    assert np.array_equal(again.predict(X), expected)


def test_a_damaged_state_is_refused(simple: BaseRegressor) -> None:
    state = simple.__getstate__()
    data = state[MODEL_BYTES]
    tensors, content = MODEL.from_bytes(data, "it")
    newer = replace(MODEL, version=VERSION + 1).to_bytes(tensors, content)
    for damaged, message in (
        (data[:-100], "The state of this estimator is not a sswim model, or it is"),
        (data[:-1] + bytes([data[-1] ^ 1]), "has been altered"),
        (newer, f"has model format {VERSION + 1}; this sswim reads format {VERSION}"),
        (MODEL.to_bytes(tensors, content | {"history": []}), "state of .* file, but .* inconsist"),
    ):
        with pytest.raises(ModelFileError, match=message):
            make_estimator().__setstate__({**state, MODEL_BYTES: damaged})
