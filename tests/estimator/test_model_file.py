from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from builders.models import DENSITIES, small_model, small_rows
from builders.neighbours import neighbour_model
from safetensors.torch import save_file

from sswim import load
from sswim.ensemble.ensemble import Ensemble, PendingUpdates, make_ensemble
from sswim.estimator import BaseRegressor, make_estimator
from sswim.estimator.fitted import Fitted
from sswim.estimator.inputs import InputReader
from sswim.estimator.model_file import MODEL, VERSION, ModelFileError
from sswim.members import condition
from sswim.members.feature_member import FeatureMember
from sswim.members.neighbour_member import NeighbourMember
from sswim.rows import Measure, Rows, learn_imputer, learn_scaling
from sswim.tables import NumberColumn, Schema, schema_to_dict


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(40, 2))


@pytest.fixture(scope="module")
def regressor(x: np.ndarray) -> BaseRegressor:
    y = np.stack([np.sin(x[:, 0]), x[:, 1]], axis=1)
    small = make_estimator(
        depth=2, n_components=12, n_pseudo=4, n_members=2, max_iter=3, random_state=0, device="cpu"
    )
    return small.fit(x, y)


@pytest.fixture
def path(regressor: BaseRegressor, tmp_path: Path) -> Path:
    path = tmp_path / "model.sswim"
    regressor.save(path)
    return path


def test_a_fresh_process_predicts_the_same_to_the_last_bit(
    regressor: BaseRegressor, path: Path, x: np.ndarray, tmp_path: Path
) -> None:
    np.save(tmp_path / "x.npy", x)
    program = (
        "import sys, numpy as np\n"
        "from sswim import load\n"
        "model, x, out = sys.argv[1:]\n"
        "np.save(out, load(model).predict(np.load(x), return_std=True))\n"
    )
    out = tmp_path / "out.npy"
    subprocess.run(
        [sys.executable, "-c", program, str(path), str(tmp_path / "x.npy"), str(out)], check=True
    )
    assert np.array_equal(np.load(out), np.array(regressor.predict(x, return_std=True)))


def test_settings_of_every_kind_can_be_kept(x: np.ndarray, tmp_path: Path) -> None:
    regressor = make_estimator(
        depth=1,
        n_pseudo=2,
        max_iter=1,
        random_state=np.random.RandomState(0),
        callback=lambda member, step: None,
    )
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


def test_a_truncated_file_is_refused(path: Path, tmp_path: Path) -> None:
    data = path.read_bytes()
    short = tmp_path / "short.sswim"
    for length in [*range(0, len(data), 1000), 1, 7, 8, 9, len(data) - 1]:
        short.write_bytes(data[:length])
        with pytest.raises(ModelFileError):
            load(short)


def test_an_altered_file_is_refused_or_predicts_the_same(
    regressor: BaseRegressor, path: Path, x: np.ndarray, tmp_path: Path
) -> None:
    data = path.read_bytes()
    expected = regressor.predict(x)
    altered = tmp_path / "altered.sswim"
    random = np.random.default_rng(1)
    header = 8 + int.from_bytes(data[:8], "little")
    places = [*range(0, 16), *random.integers(0, header, 150), *random.integers(0, len(data), 100)]
    refused = 0
    for place in places:
        damaged = bytearray(data)
        damaged[place] ^= 1 << int(random.integers(8))
        altered.write_bytes(damaged)
        try:
            assert np.array_equal(load(altered).predict(x), expected)
        except ModelFileError:
            refused += 1
    assert refused > 0.9 * len(places)


def test_other_files_are_refused_with_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(ModelFileError, match="cannot be read"):
        load(path)
    with pytest.raises(ModelFileError, match="cannot be read"):
        load(tmp_path)
    path.write_text("price,rooms\n1,2\n")
    with pytest.raises(ModelFileError, match="not a sswim model, or it is damaged"):
        load(path)
    save_file({"weight": torch.zeros(3)}, path)
    with pytest.raises(ModelFileError, match="safetensors file, but not a sswim model"):
        load(path)


@pytest.mark.parametrize("other", [VERSION - 1, VERSION + 1], ids=["older", "newer"])
def test_another_format_is_refused_as_such(path: Path, other: int) -> None:
    replace(MODEL, version=other).write(path, *MODEL.read(path))
    message = f"format {other}; this sswim reads format {VERSION}.*newer"
    with pytest.raises(ModelFileError, match=message):
        load(path)


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


def test_a_full_disk_leaves_the_old_file(
    regressor: BaseRegressor, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        regressor.save(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


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


def test_statistics_are_stored_only_where_rows_are_larger(
    generator: torch.Generator, store: Callable[..., Stored]
) -> None:
    rows = small_rows(generator, n_targets=2)
    few, loaded = store(fitted(rows, generator, "few features"))
    many, _ = store(fitted(rows, generator, "many features"))
    assert not any(name.startswith("rows.") for name in few)
    assert not any("statistics" in name for name in many)
    assert "rows.inputs" in many
    member = loaded.members[0]
    assert isinstance(member, FeatureMember)
    n_targets, n_features, _ = member.statistics.gram.shape
    triangle = few["members.0.statistics.gram"]
    assert triangle.shape == (n_targets, n_features * (n_features + 1) // 2)


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


def test_an_imputer_comes_back_to_the_last_bit(generator: torch.Generator, tmp_path: Path) -> None:
    path = tmp_path / "model"
    regressor = fitted(small_rows(generator), generator, "neighbours")
    regressor.save(path)
    tensors, content = MODEL.read(path)
    ours, theirs = load(path)._reader.imputer, regressor._reader.imputer
    for name in ("mean", "spread", "correlation", "low", "high"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name))
        tensor = tensors[f"imputer.{name}"]
        for forged in (torch.full_like(tensor, torch.nan), tensor[:-1]):
            MODEL.write(path, {**tensors, f"imputer.{name}": forged}, content)
            with pytest.raises(ModelFileError, match=r"imputer|finite"):
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
    regressor = make_estimator(
        depth=1, n_components=12, n_pseudo=4, max_iter=2, random_state=0, device="cpu"
    )
    regressor.fit(frame, y).save(tmp_path / "model")
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


def test_a_model_of_arrays_imputes_after_it_comes_back(
    regressor: BaseRegressor, path: Path, x: np.ndarray
) -> None:
    holes = x.copy()
    holes[::3, 0] = np.nan
    loaded = load(path)
    assert not hasattr(loaded, "table_schema_")
    assert not hasattr(loaded, "feature_names_in_")
    ours, theirs = (each.predict(holes, return_std=True) for each in (loaded, regressor))
    assert np.array_equal(ours, theirs)
