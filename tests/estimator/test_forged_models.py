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
from sswim.estimator import BaseRegressor
from sswim.estimator.model_file import MODEL, MODEL_BYTES, ModelFileError

SECONDS = 1.0
"""Time in which a forged file is refused; more on a busy machine."""

Content = tuple[dict[str, torch.Tensor], dict[str, Any]]

KINDS: dict[str, dict[str, Any]] = {
    "features": {"output_warp": "sinh-arcsinh", "noise": "input-dependent"},
    "statistics": {"n_components": 4, "n_members": 2},
    "neighbours": {"n_neighbors": 8, "inputs": "normal-scores"},
}
SIZE: dict[str, Any] = {"n_components": 8, "n_pseudo": 3, "max_iter": 1}


def content_of(model: BaseRegressor) -> Content:
    """Return what the file of a model holds."""
    return MODEL.from_bytes(model.__getstate__()[MODEL_BYTES], "it")


@pytest.fixture(scope="module", params=[*KINDS.values()], ids=[*KINDS])
def content(request: pytest.FixtureRequest) -> Content:
    """Return the content of a valid model."""
    x, y = make_rows(50)
    frame = pd.DataFrame({"a": x[:, 0], "b": np.where(x[:, 1] > 0, "yes", "no")})
    return content_of(small(**(SIZE | request.param)).fit(frame, y))


@pytest.fixture(scope="module")
def calibrated() -> Content:
    """Return the content of a model with held-out folds and a calibration by groups."""
    x, y = make_rows(60)
    model = small(depth=None, recipe=Recipe(kinds=("neighbours-0-rough",)), max_iter=1).fit(x, y)
    return content_of(model.calibrate(x, y, groups=x[:, 0] > 0, out_of_fold=True))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a file to forge."""
    return tmp_path / "model"


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
    content: Content, path: Path
) -> None:
    tensors, values = content
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
    content: Content, name: str, value: float, path: Path
) -> None:
    tensors, values = content
    forge(MODEL, path, {**tensors, name: torch.full_like(tensors[name], value)}, values)
    assert refused(path)


def test_a_calibration_of_another_form_is_refused(calibrated: Content, path: Path) -> None:
    tensors, values = calibrated
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


def test_a_small_file_cannot_ask_for_much_memory(path: Path) -> None:
    """Few numbers per feature or pseudo-point, but a matrix of all pairs of them."""
    model = small(n_components=40, n_pseudo=3, max_iter=1).fit(*make_rows(30, 1))
    tensors, content = content_of(model)
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


def test_a_gram_matrix_that_is_none_is_refused(path: Path) -> None:
    tensors, content = content_of(small(**SIZE | {"n_components": 4}).fit(*make_rows(200)))
    name = "members.0.statistics.gram"
    forge(MODEL, path, {**tensors, name: -1e6 * tensors[name].abs()}, content)
    with pytest.raises(ModelFileError, match="inconsistent"):
        load(path)


def sealed(text: str) -> bytes:
    """Return a model file without tensors, with any text as its content."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    envelope = {"version": MODEL.version, "content": text, "sha256": digest}
    return save({}, {MODEL.key: json.dumps(envelope)})


BYTES = {
    "deep JSON": sealed("[" * 100_000 + "]" * 100_000),
    "a key twice": sealed('{"parameters": {}, "parameters": {}}'),
    "a list": sealed("[]"),
    "cut JSON": sealed("{"),
    "many digits": sealed('{"parameters": ' + "1" * 10_000 + "}"),
    "nested JSON": sealed('{"parameters": ' + "[" * 900 + "]" * 900 + "}"),
    "too long a header": (2**63 + 5).to_bytes(8, "little") + b"{}",
    "a deep header": (10**6).to_bytes(8, "little") + b"[" * 10**6,
    "a header that is no text": (4).to_bytes(8, "little") + b"\xff\xfe{}",
}


@pytest.mark.parametrize("name", BYTES)
def test_json_and_headers_that_are_no_models_are_refused(name: str, path: Path) -> None:
    path.write_bytes(BYTES[name])
    assert refused(path)


def test_a_device_is_refused() -> None:
    with pytest.raises(ModelFileError, match="not a regular file"):
        load("/dev/zero")
