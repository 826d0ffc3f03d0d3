from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from builders.estimators import small
from builders.models import DENSITIES, small_model, small_rows
from builders.neighbours import neighbour_model

from sswim import load
from sswim.ensemble.ensemble import Ensemble, PendingUpdates, make_ensemble
from sswim.estimator import BaseRegressor, make_estimator
from sswim.estimator.fitted import Fitted
from sswim.estimator.inputs import InputReader
from sswim.estimator.model_file import MODEL, ModelFileError
from sswim.members import condition
from sswim.members.neighbour_member import NeighbourMember
from sswim.rows import Measure, Rows, learn_imputer, learn_scaling
from sswim.tables import NumberColumn, Schema, schema_to_dict


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(40, 2))


@pytest.fixture(scope="module")
def regressor(x: np.ndarray) -> BaseRegressor:
    y = np.stack([np.sin(x[:, 0]), x[:, 1]], axis=1)
    return small(depth=2, n_components=12, n_pseudo=4, n_members=2, max_iter=3).fit(x, y)


@pytest.fixture
def path(regressor: BaseRegressor, tmp_path: Path) -> Path:
    path = tmp_path / "model.sswim"
    regressor.save(path)
    return path


def test_settings_of_every_kind_can_be_kept(x: np.ndarray, tmp_path: Path) -> None:
    random_state, callback = np.random.RandomState(0), lambda member, step: None
    regressor = small(n_pseudo=2, max_iter=1, random_state=random_state, callback=callback)
    regressor.set_params(n_components=np.int64(8), learning_rate=np.float64(0.1))  # a grid search's
    regressor.fit(x, x[:, 0]).save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.n_components == 8
    assert loaded.random_state is None
    assert np.array_equal(loaded.predict(x), regressor.predict(x))


def test_no_training_row_is_in_the_file(path: Path, x: np.ndarray) -> None:
    data = path.read_bytes()
    tensors, _ = MODEL.read(path)
    assert all(40 not in tensor.shape for tensor in tensors.values())
    assert not any(value.tobytes() in data for value in x.ravel())


SCHEMA = schema_to_dict(Schema("y", (NumberColumn("a"),)))
"""The schema of a model of one input."""


@pytest.mark.parametrize(
    "change",
    [
        {"parameters": {"colour": "red"}},
        {"parameters": {"kernel": "cosine"}},
        {"parameters": {"output_warp": "log"}},
        {"architectures": []},
        {"architectures": [{"depth": 3}, {"depth": 3}]},
        {"architectures": [{"noise": "input-dependent"}, {}]},
        {"architectures": [{"colour": "red"}, {}]},
        {"history": []},
        {"history": [[1.0], [1.0], [1.0]]},
        {"columns": 3},
        {"table_schema": {"target": "y"}},
        {"table_schema": SCHEMA},
    ],
)
def test_content_that_does_not_fit_together_is_refused(path: Path, change: dict) -> None:  # type: ignore[type-arg]
    tensors, content = MODEL.read(path)
    merged = json.loads(json.dumps(content))
    for name, value in change.items():
        is_part = isinstance(value, dict) and merged[name] is not None
        merged[name] = merged[name] | value if is_part else value
    MODEL.write(path, tensors, merged)
    with pytest.raises(ModelFileError, match="content is inconsistent"):
        load(path)


def fitted(rows: Rows, generator: torch.Generator, *kinds: str) -> BaseRegressor:
    """Make an estimator of models with random parameters, of given kinds."""
    scaling = learn_scaling(rows)
    standardised = scaling.rows(rows)
    density = DENSITIES["sinh-arcsinh"]
    make = {
        "few features": lambda: small_model(standardised, generator, n_frequencies=3, **density),
        "many features": lambda: small_model(standardised, generator, n_frequencies=20, **density),
        "neighbours": lambda: neighbour_model(standardised, generator, 8, **density),
    }
    models = [make[kind]() for kind in kinds]
    weights = torch.arange(1, len(models) + 1, dtype=torch.float64)
    members = [condition(model, standardised) for model in models]
    ensemble = make_ensemble(scaling, members, weights / weights.sum(), standardised)
    reader = InputReader(learn_imputer(np.random.default_rng(0).normal(size=(50, 3))))
    regressor = make_estimator(depth=1, device="cpu")
    history = [np.ones(2) for _ in kinds]
    regressor._fitted = Fitted(reader, PendingUpdates(ensemble), (), history, flat_targets=False)
    return regressor


Stored = tuple[dict[str, torch.Tensor], Ensemble]


@pytest.fixture
def store(tmp_path: Path) -> Callable[..., Stored]:
    """Return a function that saves a model, and returns the tensors and what is loaded."""

    def save(regressor: BaseRegressor, **options: bool) -> Stored:
        regressor.save(tmp_path / "model", **options)
        return MODEL.read(tmp_path / "model")[0], load(tmp_path / "model")._fitted.ensemble

    return save


def assert_same_predictions(ours: Ensemble, theirs: Ensemble, rows: Rows) -> None:
    inputs = Measure(rows.inputs.mean + 0.1)
    predictions = (ensemble.predict(inputs).tensors() for ensemble in (ours, theirs))
    assert all(map(torch.equal, *predictions))


@pytest.mark.parametrize(
    "kinds",
    [
        ("few features",),
        ("many features", "many features"),
        ("neighbours", "neighbours"),
        ("few features", "neighbours", "many features"),
    ],
    ids=str,
)
@pytest.mark.parametrize("rows_are", ["plain", "weighted", "uncertain"])
def test_every_kind_of_ensemble_predicts_the_same_to_the_last_bit(
    kinds: tuple[str, ...], rows_are: str, generator: torch.Generator, store: Callable[..., Stored]
) -> None:
    weighted, uncertain = rows_are == "weighted", rows_are == "uncertain"
    rows = small_rows(generator, n_targets=2, weighted=weighted, uncertain=uncertain)
    regressor = fitted(rows, generator, *kinds)
    fit, (tensors, loaded) = regressor._fitted.ensemble, store(regressor)
    assert_same_predictions(loaded, fit, rows)
    regressor._fitted = replace(regressor._fitted, updates=PendingUpdates(loaded))
    again, _ = store(regressor)
    assert again.keys() == tensors.keys()
    assert all(torch.equal(again[name], tensors[name]) for name in tensors)
    more = small_rows(generator, 5, n_targets=2)
    assert_same_predictions(loaded.update(more), fit.update(more), rows)


def test_rows_are_stored_once(generator: torch.Generator, store: Callable[..., Stored]) -> None:
    rows = small_rows(generator, n_targets=2)
    tensors, loaded = store(fitted(rows, generator, "many features", "neighbours", "neighbours"))
    of_rows = {name for name, tensor in tensors.items() if len(rows) in tensor.shape}
    assert of_rows == {"rows.inputs", "rows.targets"}
    first, second = (one for one in loaded.members if isinstance(one, NeighbourMember))
    assert first.rows is second.rows


def test_without_rows_members_by_neighbours_are_left_out_unless_there_are_no_others(
    generator: torch.Generator, store: Callable[..., Stored]
) -> None:
    rows = small_rows(generator, n_targets=2)
    regressor = fitted(rows, generator, "neighbours", "many features", "few features")
    tensors, loaded = store(regressor, include_rows=False)
    assert not any(name.startswith("rows.") for name in tensors)
    assert all(len(rows) not in tensor.shape for tensor in tensors.values())
    assert torch.allclose(tensors["weights"], torch.tensor([0.4, 0.6], dtype=torch.float64))
    assert loaded.rows is None
    fit = regressor._fitted.ensemble
    expected = replace(fit, members=fit.members[1:], weights=tensors["weights"], rows=None)
    assert_same_predictions(loaded, expected, rows)
    regressor = fitted(rows, generator, "neighbours", "neighbours")
    _, loaded = store(regressor, include_rows=False)
    assert [member.count for member in loaded.members] == [0, 0]
    assert_same_predictions(loaded.update(rows), regressor._fitted.ensemble, rows)


def test_members_without_statistics_need_rows(generator: torch.Generator, tmp_path: Path) -> None:
    path = tmp_path / "model"
    fitted(small_rows(generator), generator, "many features").save(path)
    tensors, content = MODEL.read(path)
    others = {name: tensors[name] for name in tensors if not name.startswith("rows.")}
    MODEL.write(path, others, content)
    with pytest.raises(ModelFileError, match="without statistics, but no rows"):
        load(path)


def table() -> pd.DataFrame:
    """Return rows with every kind of column, and missing values."""
    random = np.random.default_rng(0)
    number = np.arange(300)
    frame = pd.DataFrame(
        {
            "a": random.normal(size=300),
            "level": [f"t{k}" for k in random.integers(80, size=300)],
            "when": pd.date_range("2020-01-01", periods=300, freq="7h", tz="Europe/Berlin"),
            "code": random.choice(["x", "y", "z"], 300),
        }
    )
    return frame.mask(np.stack([number % k == 1 for k in (5, 7, 11, 13)], axis=1))


def test_a_model_of_frames_comes_back_exactly(tmp_path: Path) -> None:
    frame = table()
    y = np.random.default_rng(1).normal(size=300)
    regressor = small(n_components=12, n_pseudo=4, max_iter=2).fit(frame, y)
    regressor.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
    assert loaded.table_schema_ == regressor.table_schema_
    assert loaded.input_names_ == regressor.input_names_
    assert list(loaded.feature_names_in_) == list(frame.columns)
    assert loaded.n_features_in_ == 4
    new = frame.assign(level="new", code=None)
    for rows in (frame, new, frame.to_numpy()):
        assert np.array_equal(loaded.predict(rows), regressor.predict(rows))
    assert np.array_equal(loaded.log_density(new, y), regressor.log_density(new, y))
