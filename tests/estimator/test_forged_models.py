"""Model files by strangers: any content under a right checksum, refused quickly or usable."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from builders.estimators import make_rows, small
from builders.forgeries import NONSENSE, changed, forge, forged_tensors
from safetensors.torch import save

from sswim import Recipe, load
from sswim.conformal import ConformityScores
from sswim.ensemble.ensemble import HeldOutFolds
from sswim.estimator.model_file import MODEL, ModelFileError

SECONDS = 1.0
"""Time in which a forged file is refused; more on a busy machine."""

Content = tuple[dict[str, torch.Tensor], dict[str, Any]]

KINDS: dict[str, dict[str, Any]] = {
    "features": {"output_warp": "sinh-arcsinh", "noise": "input-dependent"},
    "statistics": {"n_components": 4, "n_members": 2},
    "neighbours": {"n_neighbors": 8, "inputs": "normal-scores"},
}
SIZE: dict[str, Any] = {"n_components": 8, "n_pseudo": 3, "max_iter": 1}


@pytest.fixture(scope="module", params=[*KINDS.values()], ids=[*KINDS])
def content(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Content:
    """Return the content of a valid model."""
    path = tmp_path_factory.mktemp("models") / "model"
    x, y = make_rows(50)
    frame = pd.DataFrame({"a": x[:, 0], "b": np.where(x[:, 1] > 0, "yes", "no")})
    small(**(SIZE | request.param)).fit(frame, y).save(path)
    return MODEL.read(path)


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> Content:
    """Return the content of a model with held-out folds and a calibration by groups."""
    path = tmp_path_factory.mktemp("models") / "model"
    x, y = make_rows(60)
    model = small(depth=None, recipe=Recipe(kinds=("neighbours-0-rough",)), max_iter=1).fit(x, y)
    model.calibrate(x, y, groups=x[:, 0] > 0, out_of_fold=True).save(path)
    return MODEL.read(path)


def refused(path: Path) -> bool:
    """Return whether a file is refused, in time and with a short message."""
    begin = time.perf_counter()
    try:
        load(path)
    except ModelFileError as error:
        assert time.perf_counter() - begin < 5 * SECONDS
        return len(str(error)) < 3000
    return False


def test_tensors_of_another_form_and_missing_and_additional_ones_are_refused(
    content: Content, tmp_path: Path
) -> None:
    tensors, values = content
    path = tmp_path / "model"
    for name in [*tensors][::6]:
        tensor = tensors[name]
        for forged in forged_tensors(tensor):
            is_wrong = forged.shape != tensor.shape or forged.dtype != tensor.dtype
            forge(MODEL, path, {**tensors, name: forged}, values)
            assert refused(path) or not (is_wrong or forged.isnan().any()), name
    for name in [*tensors][::4]:
        forge(MODEL, path, {other: tensors[other] for other in tensors if other != name}, values)
        assert refused(path), name
        for more in (f"{name}.more", f"{name}1", f"members.7.{name}", f"more.{name}", ""):
            forge(MODEL, path, {**tensors, more: torch.zeros(2)}, values)
            assert refused(path), more


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("scaling.input_spread", 0.0),
        ("scaling.target_spread", -1.0),
        ("scaling.weight_unit", 0.0),
        ("scaling.input_low", torch.inf),
        ("weights", 0.3),
        ("weights", -1.0),
        ("imputer.spread", -1.0),
        ("imputer.correlation", -1.0),
        ("members.0.model.log_noise", 400.0),
        ("members.0.model.log_signal", -1e5),
        ("members.0.model.spectrum.log_length_scales", 1e5),
    ],
)
def test_values_outside_their_range_are_refused(
    content: Content, name: str, value: float, tmp_path: Path
) -> None:
    tensors, values = content
    forged = {**tensors, name: torch.full_like(tensors[name], value)}
    forge(MODEL, tmp_path / "model", forged, values)
    assert refused(tmp_path / "model")


def test_a_calibration_of_another_form_is_refused(calibrated: Content, tmp_path: Path) -> None:
    tensors, values = calibrated
    path = tmp_path / "model"
    records = {"folds": HeldOutFolds, "held_out": ConformityScores}
    names = {f"{prefix}.{field.name}" for prefix in records for field in fields(records[prefix])}
    assert names == {name for name in tensors if name.startswith(("folds.", "held_out."))}
    for name in names:
        for forged in forged_tensors(tensors[name]):
            forge(MODEL, path, {**tensors, name: forged}, values)
            is_key = name == "folds.keys" and forged.shape == tensors[name].shape
            assert refused(path) or (is_key and forged.dtype == torch.int64), forged
        forge(MODEL, path, {other: tensors[other] for other in tensors if other != name}, values)
        assert refused(path)
    for place in ((), ("labels",), ("out_of_fold",), ("labels", 0)):
        for value in NONSENSE:
            forge(MODEL, path, tensors, changed(values, ("calibration", *place), value))
            is_label = place == ("labels", 0) and isinstance(value, str)
            assert refused(path) or is_label or (place, value) == (("out_of_fold",), True)
    empty = {
        name: tensor[: 0 if name.startswith("rows.") else None] if tensor.ndim else tensor
        for name, tensor in tensors.items()
    }
    forge(MODEL, path, empty, values)  # folds without rows
    assert refused(path)


def test_a_small_file_cannot_ask_for_much_memory(tmp_path: Path) -> None:
    """Few numbers per feature or pseudo-point, but a matrix of all pairs of them."""
    x, y = make_rows(30, 1)
    path = tmp_path / "model"
    small(n_components=40, n_pseudo=3, max_iter=1).fit(x, y).save(path)
    tensors, content = MODEL.read(path)
    assert "rows.inputs" in tensors
    many = 200_000
    for field, part in (("n_pseudo", ".pseudo_"), ("n_frequencies", "unit_frequencies")):
        forged = {
            name: tensor[:1].repeat(many, 1) if part in name else tensor
            for name, tensor in tensors.items()
        }
        forge(MODEL, path, forged, changed(content, ("architectures", 0, field), many))
        begin = time.perf_counter()
        with pytest.raises(ModelFileError, match=r"8 GiB|few features"):
            load(path)
        assert time.perf_counter() - begin < 5 * SECONDS


def test_a_gram_matrix_that_is_none_is_refused(tmp_path: Path) -> None:
    x, y = make_rows(200)
    path = tmp_path / "model"
    small(n_components=4, n_pseudo=3, max_iter=1).fit(x, y).save(path)
    tensors, content = MODEL.read(path)
    name = "members.0.statistics.gram"
    forge(MODEL, path, {**tensors, name: -1e6 * tensors[name].abs()}, content)
    with pytest.raises(ModelFileError, match="inconsistent"):
        load(path)


def sealed(text: str) -> bytes:
    """Return a model file without tensors, with any text as its content."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    envelope = {"version": MODEL.version, "content": text, "sha256": digest}
    return save({}, {MODEL.key: json.dumps(envelope)})


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000 + "]" * 100_000,
        '{"parameters": {}, "parameters": {}}',
        "[]",
        "{",
        '{"parameters": ' + "1" * 10_000 + "}",
        '{"parameters": ' + "[" * 900 + "]" * 900 + "}",
    ],
    ids=["deep", "twice", "list", "cut", "digits", "nested"],
)
def test_json_that_is_no_model_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(sealed(text))
    assert refused(path)


@pytest.mark.parametrize(
    "data",
    [
        (2**63 + 5).to_bytes(8, "little") + b"{}",
        (10**6).to_bytes(8, "little") + b"[" * 10**6,
        (4).to_bytes(8, "little") + b"\xff\xfe{}",
    ],
    ids=["too long", "deep", "no text"],
)
def test_headers_that_are_none_are_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(data)
    assert refused(path)
    with pytest.raises(ModelFileError, match="not a regular file"):
        load("/dev/zero")
