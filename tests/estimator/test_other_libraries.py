"""Other libraries keep and explain fitted estimators: skops, MLflow and shap."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from builders.estimators import make_rows, skewed_rows, small
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sswim import NeighbourGPRegressor, Recipe, SSWIMRegressor, WarpedGPRegressor

X, Y = skewed_rows(60)
ONE, NEAR, ESTIMATOR = (
    f"{kind.__module__}.{kind.__name__}"
    for kind in (WarpedGPRegressor, NeighbourGPRegressor, SSWIMRegressor)
)
RECIPE = "sswim.ensemble.plan.Recipe"

SETTINGS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "features": ({}, [ONE]),
    "neighbours": ({"n_neighbors": 8}, [NEAR]),
    "random state": ({"random_state": np.random.RandomState(0)}, [ONE]),
    "ensemble": (
        {"depth": None, "n_members": 1, "max_iter": 1, "recipe": Recipe(pruning=False)},
        [RECIPE, ESTIMATOR],
    ),
}


@pytest.fixture(scope="module")
def skops() -> Any:
    return pytest.importorskip("skops.io", reason="skops is not installed: pip install skops")


@pytest.mark.parametrize(("settings", "types"), [*SETTINGS.values()], ids=[*SETTINGS])
def test_only_types_of_sswim_need_trust(
    settings: dict[str, Any], types: list[str], skops: Any, tmp_path: Path
) -> None:
    frame = pd.DataFrame(X, columns=["east", "north"]).assign(town=["Bath", "Ely", None] * 20)
    frame.loc[7, "north"] = np.nan
    model, path = small(**settings).fit(frame, Y), tmp_path / "model.skops"
    skops.dump(model, path)
    assert skops.get_untrusted_types(file=path) == sorted(types)
    again = skops.load(path, trusted=types)
    ours, theirs = (
        [*one.predict(frame, return_std=True), one.log_density(frame, Y)] for one in (again, model)
    )
    assert np.array_equal(ours, theirs)
    if "random_state" not in settings:
        assert again.get_params() == model.get_params()
    assert again.kinds_ == model.kinds_


def test_pipelines_and_estimators_that_are_not_fitted_are_kept(skops: Any) -> None:
    model = SSWIMRegressor(recipe=Recipe(stacking=False))
    again = skops.loads(skops.dumps(model), trusted=[ESTIMATOR, RECIPE])
    assert again.get_params() == model.get_params()
    assert not again.__sklearn_is_fitted__()
    pipeline = make_pipeline(StandardScaler(), small()).fit(X, Y)
    again = skops.loads(skops.dumps(pipeline), trusted=[ONE])
    assert np.array_equal(again.predict(X), pipeline.predict(X))


@pytest.fixture(scope="module")
def mlflow() -> Iterator[Any]:
    """MLflow, which must not report its use from a test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        pytest.importorskip("skops", reason="MLflow stores models by skops: pip install skops")
        reason = "MLflow is not installed: pip install mlflow-skinny"
        pytest.importorskip("mlflow", reason=reason)
        import mlflow.sklearn  # noqa: PLC0415 (only where it is installed)

        yield mlflow


@pytest.mark.filterwarnings("ignore")  # of MLflow and of what it imports
@pytest.mark.parametrize("form", ["skops", "cloudpickle", "pickle"])
def test_a_model_predicts_the_same_after_a_round_trip(
    form: str, mlflow: Any, tmp_path: Path
) -> None:
    x, y = make_rows(60)
    frame = pd.DataFrame(x, columns=["east", "north"]).assign(town=["Bath", "Ely", "York"] * 20)
    model, path = small().fit(frame, y), tmp_path / "model"
    mlflow.sklearn.save_model(
        model,
        path,
        serialization_format=form,
        skops_trusted_types=[ONE] if form == "skops" else None,
        signature=mlflow.models.infer_signature(frame, model.predict(frame)),
        pip_requirements=["sswim"],  # else it starts a process to find them
    )
    again = mlflow.sklearn.load_model(path)
    mean, std = again.predict(frame, return_std=True)
    assert np.array_equal([mean, std], model.predict(frame, return_std=True))
    anything = mlflow.pyfunc.load_model(path)  # what `mlflow models serve` calls
    assert np.array_equal(anything.predict(frame), mean)
    assert np.array_equal(anything.predict(frame[["town", "north", "east"]]), mean)


ROWS = make_rows(80, d=3)


@pytest.fixture
def shap() -> Iterator[Any]:
    """The module shap, which draws from the global random state."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what shap imports
        module = pytest.importorskip("shap", reason="shap is not installed: pip install shap")
    state = np.random.get_state()  # noqa: NPY002
    yield module
    np.random.set_state(state)  # noqa: NPY002


def test_shares_of_inputs_add_up_to_predictions(shap: Any) -> None:
    model = small(max_iter=20).fit(*ROWS)
    explainer = shap.Explainer(model.predict, ROWS[0][:20])
    found = explainer(ROWS[0][40:50])
    assert found.values.shape == (10, 3)
    assert np.allclose(found.base_values + found.values.sum(1), model.predict(ROWS[0][40:50]))
    assert np.allclose(found.base_values, np.mean(model.predict(ROWS[0][:20])))
    importance = np.abs(found.values).mean(0)
    assert importance[0] > 3 * importance[1:].max()  # the target is a function of the first input


def test_text_is_explained_by_way_of_codes(shap: Any) -> None:
    """shap subtracts values, so that it needs numbers; docs/publishing.md shows this way."""
    towns = np.random.default_rng(0).choice(["Bath", "Ely", "York"], len(ROWS[0]))
    frame = pd.DataFrame({"east": ROWS[0][:, 0], "town": towns})
    model = small(max_iter=20).fit(frame, ROWS[1] + (towns == "York"))
    town = frame["town"].astype("category").cat
    codes = frame.assign(town=town.codes)

    def predict(codes: pd.DataFrame) -> Any:
        return model.predict(codes.assign(town=town.categories[codes["town"].astype(int)]))

    found = shap.Explainer(predict, codes[:20])(codes[40:50])
    assert np.allclose(found.base_values + found.values.sum(1), model.predict(frame[40:50]))
    assert found.values[towns[40:50] == "York", 1].min() > 0.2
