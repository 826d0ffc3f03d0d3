from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from builders.estimators import make_rows
from builders.forgeries import NONSENSE, changed, forge, forged_tensors

from sswim import Recipe, load
from sswim.conformal import ConformityScores
from sswim.ensemble.ensemble import HeldOutFolds
from sswim.estimator import make_estimator
from sswim.estimator.model_file import MODEL, ModelFileError

FOLDS = [f"folds.{each.name}" for each in fields(HeldOutFolds)]
HELD_OUT = [f"held_out.{each.name}" for each in fields(ConformityScores)]
Content = tuple[dict[str, torch.Tensor], dict[str, Any]]


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> Content:
    """Return the content of a model with held-out folds and a calibration by groups."""
    path = tmp_path_factory.mktemp("models") / "model"
    x, y = make_rows(60)
    recipe = Recipe(kinds=("neighbours-0-rough",))
    model = make_estimator(max_iter=1, recipe=recipe, random_state=0, device="cpu").fit(x, y)
    model.calibrate(x, y, groups=x[:, 0] > 0, out_of_fold=True).save(path)
    return MODEL.from_bytes(path.read_bytes(), "it")


def is_refused(path: Path) -> bool:
    try:
        load(path)
    except ModelFileError:
        return True
    return False


def test_there_is_something_to_forge(content: Content) -> None:
    tensors, values = content
    found = {name for name in tensors if name.startswith(("folds.", "held_out."))}
    assert found == {*FOLDS, *HELD_OUT}
    assert values["calibration"] == {"labels": ["False", "True"], "out_of_fold": True}


@pytest.mark.parametrize("name", [*FOLDS, *HELD_OUT])
def test_no_other_form_of_a_tensor_is_taken(name: str, content: Content, tmp_path: Path) -> None:
    tensors, values = content
    path = tmp_path / "model"
    for forged in forged_tensors(tensors[name]):
        forge(MODEL, path, {**tensors, name: forged}, values)
        is_key = name == "folds.keys" and forged.shape == tensors[name].shape
        assert is_refused(path) or (is_key and forged.dtype == torch.int64), forged
    others = {each: tensor for each, tensor in tensors.items() if each != name}
    forge(MODEL, path, others, values)
    assert is_refused(path)


@pytest.mark.parametrize("value", NONSENSE)
@pytest.mark.parametrize("place", [(), ("labels",), ("out_of_fold",), ("labels", 0)])
def test_nonsense_in_the_calibration_is_refused(
    place: tuple[Any, ...], value: Any, content: Content, tmp_path: Path
) -> None:
    tensors, values = content
    path = tmp_path / "model"
    forge(MODEL, path, tensors, changed(values, ("calibration", *place), value))
    is_label = place == ("labels", 0) and isinstance(value, str)
    assert is_refused(path) or is_label or (place, value) == (("out_of_fold",), True)


def test_folds_without_rows_are_refused(content: Content, tmp_path: Path) -> None:
    tensors, values = content
    path = tmp_path / "model"
    empty = {
        name: tensor[:0] if name.startswith("rows.") else tensor for name, tensor in tensors.items()
    }
    forge(MODEL, path, empty, values)
    assert is_refused(path)
