from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from builders.estimators import make_rows, small

pytestmark = pytest.mark.filterwarnings("ignore")  # of MLflow and of what it imports

TRUSTED = ["sswim.estimator.warped_gp.WarpedGPRegressor"]


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
        skops_trusted_types=TRUSTED if form == "skops" else None,
        signature=mlflow.models.infer_signature(frame, model.predict(frame)),
        pip_requirements=["sswim"],  # else it starts a process to find them
    )
    again = mlflow.sklearn.load_model(path)
    mean, std = again.predict(frame, return_std=True)
    assert np.array_equal([mean, std], model.predict(frame, return_std=True))
    anything = mlflow.pyfunc.load_model(path)  # what `mlflow models serve` calls
    assert np.array_equal(anything.predict(frame), mean)
    assert np.array_equal(anything.predict(frame[["town", "north", "east"]]), mean)
