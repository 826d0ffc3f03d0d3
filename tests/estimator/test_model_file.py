from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders.models import DENSITIES
from safetensors.torch import save_file

from sswim import SSWIMRegressor
from sswim.estimator.model_file import MODEL, VERSION, ModelFileError


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(40, 2))


@pytest.fixture(scope="module")
def regressor(x: np.ndarray) -> SSWIMRegressor:
    y = np.stack([np.sin(x[:, 0]), x[:, 1]], axis=1)
    small = SSWIMRegressor(
        depth=2, n_components=12, n_pseudo=4, n_members=2, max_iter=3, random_state=0, device="cpu"
    )
    return small.fit(x, y)


@pytest.fixture(scope="module", params=[*DENSITIES.values()], ids=[*DENSITIES.keys()])
def any_regressor(x: np.ndarray, request: pytest.FixtureRequest) -> SSWIMRegressor:
    """A model of two targets, with every kind of density."""
    y = np.exp(np.stack([np.sin(x[:, 0]), x[:, 1]], axis=1))
    settings: dict[str, Any] = {
        "depth": 1,
        "n_components": 12,
        "n_pseudo": 4,
        "n_members": 2,
        "max_iter": 3,
        "random_state": 0,
    }
    return SSWIMRegressor(**settings, **request.param, n_output_terms=3, device="cpu").fit(x, y)


@pytest.fixture
def path(regressor: SSWIMRegressor, tmp_path: Path) -> Path:
    path = tmp_path / "model.sswim"
    regressor.save(path)
    return path


def test_a_round_trip_is_exact_in_every_method(
    regressor: SSWIMRegressor, path: Path, x: np.ndarray
) -> None:
    loaded = SSWIMRegressor.load(path)
    for ours, theirs in (
        (loaded.predict(x, return_std=True), regressor.predict(x, return_std=True)),
        (loaded.predict_interval(x), regressor.predict_interval(x)),
        (loaded.sample_y(x, 3), regressor.sample_y(x, 3)),
        (loaded.warp(x), regressor.warp(x)),
        (loaded.history_, regressor.history_),
    ):
        assert np.array_equal(np.asarray(ours), np.asarray(theirs))
    assert loaded.get_params() == regressor.get_params() | {"device": "auto"}
    assert loaded.log_marginal_likelihood_ == regressor.log_marginal_likelihood_
    more = np.ones((5, 2))
    loaded.partial_fit(more, more)
    with pytest.raises(ValueError, match="right after a fit of arrays"):
        loaded.loo_predict()


def test_a_round_trip_of_densities_is_exact_in_every_method(
    any_regressor: SSWIMRegressor, x: np.ndarray, tmp_path: Path
) -> None:
    path, again = tmp_path / "model", tmp_path / "again"
    any_regressor.save(path)
    loaded, before = SSWIMRegressor.load(path), copy.copy(any_regressor)
    loaded.save(again)
    assert again.read_bytes() == path.read_bytes()
    y = np.exp(x)
    for _ in range(2):  # and with more rows
        for ask in (
            lambda model: model.predict(x, return_std=True, X_std=0.1),
            lambda model: model.predict(x, return_std=True, include_noise=False),
            lambda model: model.predict(x, return_cov=True)[1],
            lambda model: model.predict_quantiles(x, [0.01, 0.5, 0.9]),
            lambda model: model.predict_interval(x),
            lambda model: model.predict_noise(x),
            lambda model: model.log_density(x, y),
            lambda model: model.cdf(x, y),
            lambda model: model.sample_y(x, 3, include_noise=True),
            lambda model: model.warp_targets(y, member=1),
            lambda model: model.log_marginal_likelihood_,
        ):
            assert np.array_equal(np.asarray(ask(loaded)), np.asarray(ask(before)))
        loaded.partial_fit(x[:5], y[:5])
        before.partial_fit(x[:5], y[:5])


def test_a_fresh_process_predicts_the_same_to_the_last_bit(
    regressor: SSWIMRegressor, path: Path, x: np.ndarray, tmp_path: Path
) -> None:
    np.save(tmp_path / "x.npy", x)
    program = (
        "import sys, numpy as np\n"
        "from sswim import SSWIMRegressor\n"
        "model, x, out = sys.argv[1:]\n"
        "np.save(out, SSWIMRegressor.load(model).predict(np.load(x), return_std=True))\n"
    )
    out = tmp_path / "out.npy"
    subprocess.run(
        [sys.executable, "-c", program, str(path), str(tmp_path / "x.npy"), str(out)], check=True
    )
    assert np.array_equal(np.load(out), np.array(regressor.predict(x, return_std=True)))


def test_settings_of_every_kind_can_be_kept(x: np.ndarray, tmp_path: Path) -> None:
    regressor = SSWIMRegressor(
        depth=1,
        n_pseudo=2,
        max_iter=1,
        random_state=np.random.RandomState(0),
        callback=lambda member, step: None,
    )
    regressor.set_params(n_components=np.int64(8), learning_rate=np.float64(0.1))  # a grid search's
    regressor.fit(x, x[:, 0]).save(tmp_path / "model")
    loaded = SSWIMRegressor.load(tmp_path / "model")
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
            SSWIMRegressor.load(short)


def test_an_altered_file_is_refused_or_predicts_the_same(
    regressor: SSWIMRegressor, path: Path, x: np.ndarray, tmp_path: Path
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
            assert np.array_equal(SSWIMRegressor.load(altered).predict(x), expected)
        except ModelFileError:
            refused += 1
    assert refused > 0.9 * len(places)


def test_other_files_are_refused_with_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(ModelFileError, match="cannot be read"):
        SSWIMRegressor.load(path)
    with pytest.raises(ModelFileError, match="cannot be read"):
        SSWIMRegressor.load(tmp_path)
    path.write_text("price,rooms\n1,2\n")
    with pytest.raises(ModelFileError, match="not a sswim model, or it is damaged"):
        SSWIMRegressor.load(path)
    save_file({"weight": torch.zeros(3)}, path)
    with pytest.raises(ModelFileError, match="safetensors file, but not a sswim model"):
        SSWIMRegressor.load(path)


@pytest.mark.parametrize("other", [VERSION - 1, VERSION + 1], ids=["older", "newer"])
def test_another_format_is_refused_as_such(path: Path, other: int) -> None:
    replace(MODEL, version=other).write(path, *MODEL.read(path))
    message = f"format {other}; this sswim reads format {VERSION}.*newer"
    with pytest.raises(ModelFileError, match=message):
        SSWIMRegressor.load(path)


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
    ],
)
def test_content_that_does_not_fit_together_is_refused(path: Path, change: dict) -> None:  # type: ignore[type-arg]
    tensors, content = MODEL.read(path)
    merged = json.loads(json.dumps(content))
    for name, value in change.items():
        merged[name] = merged[name] | value if isinstance(value, dict) else value
    MODEL.write(path, tensors, merged)
    with pytest.raises(ModelFileError, match="content is inconsistent"):
        SSWIMRegressor.load(path)


def test_a_full_disk_leaves_the_old_file(
    regressor: SSWIMRegressor, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        regressor.save(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
