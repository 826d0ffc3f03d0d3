"""Checkpoints by strangers: any content under a right checksum is refused, or training goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders.estimators import make_rows, small
from builders.forgeries import NONSENSE, changed, forge, forged_tensors, leaves

from sswim.base.cholesky import FactorisationError
from sswim.estimator import BaseRegressor
from sswim.members import Checkpoints
from sswim.members.checkpoints import CHECKPOINT, CheckpointError

KINDS: dict[str, dict[str, Any]] = {
    "features": {"output_warp": "sinh-arcsinh"},
    "neighbours": {"n_neighbors": 4},
}
SIZE: dict[str, Any] = {"n_components": 4, "n_pseudo": 2, "max_iter": 6}


class Killed(Exception):  # noqa: N818
    """Raised to end a training."""


@pytest.fixture(params=[*KINDS.values()], ids=[*KINDS])
def settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {**SIZE, **request.param}


@pytest.fixture
def begun(settings: dict[str, Any], tmp_path: Path) -> Path:
    """Return the folder of a training that was cut off."""

    def kill(member: int, step: Any) -> None:
        if step.index == 4:
            raise Killed

    regressor = small(**settings, callback=kill)
    with pytest.raises(Killed):
        regressor.fit(*make_rows(30), checkpoints=Checkpoints(tmp_path / "c", every=2))
    return tmp_path / "c"


def resume(folder: Path, settings: dict[str, Any]) -> BaseRegressor | None:
    """Resume a training; None if its checkpoint is refused."""
    saved = {file: file.read_bytes() for file in folder.iterdir()}
    try:
        return small(**settings).fit(*make_rows(30), checkpoints=Checkpoints(folder, resume=True))
    except (CheckpointError, FactorisationError):  # numbers that are right may still diverge
        return None
    finally:
        for file, data in saved.items():
            file.write_bytes(data)


def member_file(folder: Path) -> Path:
    [file] = folder.glob("*.safetensors")
    return file


def test_no_tensor_of_another_form_is_taken(begun: Path, settings: dict[str, Any]) -> None:
    file = member_file(begun)
    tensors, content = CHECKPOINT.read(file)
    for name in [*tensors][::12]:
        for forged in forged_tensors(tensors[name]):
            is_wrong = forged.shape != tensors[name].shape or forged.dtype != tensors[name].dtype
            if not (is_wrong or (forged.is_floating_point() and forged.isnan().any())):
                continue
            forge(CHECKPOINT, file, {**tensors, name: forged}, content)
            assert resume(begun, settings) is None, name


def test_no_state_of_the_optimiser_ends_the_process(begun: Path, settings: dict[str, Any]) -> None:
    """Fused Adam reads as many numbers as the parameter has, wherever they are."""
    file = member_file(begun)
    tensors, content = CHECKPOINT.read(file)
    for name in ("optimiser.0.exp_avg", "optimiser.1.exp_avg_sq"):
        forge(CHECKPOINT, file, {**tensors, name: tensors[name].new_zeros(0)}, content)
        assert resume(begun, settings) is None, name


def test_additional_and_missing_tensors_are_refused(begun: Path, settings: dict[str, Any]) -> None:
    file = member_file(begun)
    tensors, content = CHECKPOINT.read(file)
    for more in ("optimiser.99.step", "optimiser.0.more", "optimiser.x.step", "model.more"):
        forge(CHECKPOINT, file, {**tensors, more: torch.zeros(())}, content)
        assert resume(begun, settings) is None, more
    for name in ("model.log_noise", "optimiser.0.exp_avg"):
        others = {each: tensors[each] for each in tensors if each != name}
        forge(CHECKPOINT, file, others, content)
        assert resume(begun, settings) is None, name


def test_no_value_of_the_content_ends_in_another_error(
    begun: Path, settings: dict[str, Any]
) -> None:
    file = member_file(begun)
    tensors, content = CHECKPOINT.read(file)
    random = np.random.default_rng(0)
    for path in [*leaves(content)][1::4]:
        value = NONSENSE[int(random.integers(len(NONSENSE)))]
        forge(CHECKPOINT, file, tensors, changed(content, path, value))
        resume(begun, settings)


@pytest.mark.parametrize("seed", [-1, 10**30, 0.5, "1", None, [1], float("nan"), True])
def test_the_seed_of_a_run_is_checked(begun: Path, settings: dict[str, Any], seed: Any) -> None:
    run = begun / "run.json"
    facts = json.loads(run.read_text())
    run.write_text(json.dumps({**facts, "seed": seed}))
    assert resume(begun, settings) is None


@pytest.mark.parametrize("text", ["[" * 10**5, '{"seed": ' + "[" * 10**5, "[]", "1" * 10**4])
def test_json_that_is_no_run_is_refused(begun: Path, settings: dict[str, Any], text: str) -> None:
    (begun / "run.json").write_text(text)
    assert resume(begun, settings) is None
