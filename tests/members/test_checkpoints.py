from __future__ import annotations

import json
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sswim.estimator import BaseRegressor, make_estimator
from sswim.members import Checkpoints, Step
from sswim.members.checkpoints import CHECKPOINT, CheckpointError
from sswim.rows import ArraySource

SETTINGS: dict[str, Any] = {
    "n_components": 16,
    "n_pseudo": 4,
    "max_iter": 12,
    "random_state": 3,
    "device": "cpu",
}
KINDS: dict[str, dict[str, Any]] = {
    "one model": {"depth": 1},
    "members": {"depth": 1, "n_members": 3},
    "growing": {"depth": 1, "growing": True},
    "ensemble": {"n_members": 1, "max_iter": 6, "noise": "constant"},
    "single precision": {"depth": 1, "dtype": "float32"},
    "projection": {"depth": 1, "warp_matrix": "projected", "warp_dim": 1, "n_neighbors": 8},
}


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    x = random.normal(size=(120, 2))
    return x, np.sin(2 * x[:, 0]) + 0.1 * random.normal(size=120)


def small(**changes: Any) -> BaseRegressor:
    return make_estimator(**{**SETTINGS, **changes})


def parameters(regressor: BaseRegressor) -> dict[str, torch.Tensor]:
    return {
        f"{number}.{name}": tensor
        for number, model in enumerate(member.model for member in regressor.members_)
        for name, tensor in model.state_dict().items()
    }


def assert_equal(ours: BaseRegressor, theirs: BaseRegressor) -> None:
    expected = parameters(theirs)
    assert parameters(ours).keys() == expected.keys()
    for name, tensor in parameters(ours).items():
        assert torch.equal(tensor, expected[name]), name
    for mine, other in zip(ours.history_, theirs.history_, strict=True):
        assert np.array_equal(mine, other)


class _Killed(Exception):  # noqa: N818
    pass


def killed_after(n_calls: int) -> Any:
    """Return a callback that raises an error after some calls, as if the power were cut."""
    calls = 0

    def callback(member: int, step: Step) -> None:
        nonlocal calls
        calls += 1
        if calls == n_calls:
            raise _Killed

    return callback


@pytest.fixture(scope="module", params=[*KINDS])
def whole(
    request: pytest.FixtureRequest, rows: tuple[np.ndarray, np.ndarray]
) -> tuple[dict[str, Any], BaseRegressor]:
    """Settings, and a fit that was not cut off."""
    settings = KINDS[request.param]
    return settings, small(**settings).fit(*rows)


@pytest.mark.parametrize("after", [1, 5, 11, 20])
def test_a_fit_that_was_cut_off_ends_as_if_it_had_not_been(
    whole: tuple[dict[str, Any], BaseRegressor],
    after: int,
    rows: tuple[np.ndarray, np.ndarray],
    tmp_path: Path,
) -> None:
    settings, expected = whole
    folder = tmp_path / "kept"
    with suppress(_Killed):
        small(**settings, callback=killed_after(after)).fit(
            *rows, checkpoints=Checkpoints(folder, every=2)
        )
    resumed = small(**settings).fit(*rows, checkpoints=Checkpoints(folder, every=2, resume=True))
    assert_equal(resumed, expected)
    # Finished members are not trained again; the callback gets their last steps.
    steps: list[int] = []
    again = small(**settings, callback=lambda member, step: steps.append(step.index))
    assert_equal(again.fit(*rows, checkpoints=Checkpoints(folder, 2, resume=True)), expected)
    trained = [kind.n_steps for kind in expected.kinds_ for _ in range(kind.n_members)]
    assert sorted(steps) == sorted(trained)


def test_what_is_left_to_chance_is_kept_as_well(
    rows: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    checkpoints = Checkpoints(tmp_path, every=2)
    with pytest.raises(_Killed):
        small(depth=1, random_state=None, callback=killed_after(7)).fit(
            *rows, checkpoints=checkpoints
        )
    resume = Checkpoints(tmp_path, every=2, resume=True)
    resumed = small(depth=1, random_state=None).fit(*rows, checkpoints=resume)
    seed = json.loads(checkpoints.run_file.read_text())["seed"]
    expected = small(depth=1, random_state=seed).fit(*rows)
    assert_equal(resumed, expected)


def test_a_source_is_resumed_too(rows: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    expected = small(depth=1).fit(ArraySource(*rows))
    with pytest.raises(_Killed):
        small(depth=1, callback=killed_after(9)).fit(
            ArraySource(*rows), checkpoints=Checkpoints(tmp_path, every=4)
        )
    resume = Checkpoints(tmp_path, every=4, resume=True)
    assert_equal(small(depth=1).fit(ArraySource(*rows), checkpoints=resume), expected)


@pytest.fixture
def begun(rows: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> Path:
    with pytest.raises(_Killed):
        small(depth=1, callback=killed_after(7)).fit(
            *rows, checkpoints=Checkpoints(tmp_path / "kept", every=2)
        )
    return tmp_path / "kept"


def test_other_settings_are_refused_by_name(
    begun: Path, rows: tuple[np.ndarray, np.ndarray]
) -> None:
    with pytest.raises(CheckpointError, match=r"settings.n_pseudo is 4, not 5"):
        small(depth=1, n_pseudo=5).fit(*rows, checkpoints=Checkpoints(begun, resume=True))


def test_other_rows_are_refused_by_name(begun: Path, rows: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = rows
    with pytest.raises(CheckpointError, match=r"data.rows is 120, not 119"):
        small(depth=1).fit(x[1:], y[1:], checkpoints=Checkpoints(begun, resume=True))
    other = x.copy()
    other[5, 1] += 1e-3
    with pytest.raises(CheckpointError, match=r"data.columns.input 1.mean is "):
        small(depth=1).fit(other, y, checkpoints=Checkpoints(begun, resume=True))


def test_a_fit_is_not_written_over(begun: Path, rows: tuple[np.ndarray, np.ndarray]) -> None:
    with pytest.raises(CheckpointError, match=r"checkpoint of an earlier fit.*resume"):
        small(depth=1).fit(*rows, checkpoints=Checkpoints(begun))


def test_a_damaged_checkpoint_is_refused(begun: Path, rows: tuple[np.ndarray, np.ndarray]) -> None:
    [file] = begun.glob("*.safetensors")
    whole = file.read_bytes()
    file.write_bytes(whole[:-5])
    with pytest.raises(CheckpointError, match="not a sswim checkpoint, or it is damaged"):
        small(depth=1).fit(*rows, checkpoints=Checkpoints(begun, resume=True))
    (begun / "run.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"run.json.*was not written by a fit"):
        small(depth=1).fit(*rows, checkpoints=Checkpoints(begun, resume=True))


def test_there_need_not_be_anything_to_resume(
    rows: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    resumed = small(depth=1).fit(*rows, checkpoints=Checkpoints(tmp_path / "new", resume=True))
    assert_equal(resumed, small(depth=1).fit(*rows))


def test_a_running_generator_cannot_be_kept(
    rows: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="integer seed"):
        small(depth=1, random_state=np.random.RandomState(0)).fit(
            *rows, checkpoints=Checkpoints(tmp_path)
        )


@contextmanager
def files_of_at_most(n_bytes: int) -> Iterator[None]:
    """Let the writing of larger files fail, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


def test_a_disk_that_fills_up_ends_nothing(
    rows: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    """Training continues; the earlier checkpoint stays intact, and a fit can resume from it."""
    expected = small(depth=1).fit(*rows)
    with pytest.raises(_Killed):
        small(depth=1, callback=killed_after(6)).fit(
            *rows, checkpoints=Checkpoints(tmp_path, every=2)
        )
    [file] = tmp_path.glob("*.safetensors")
    before = file.read_bytes()
    resume = Checkpoints(tmp_path, every=2, resume=True)
    with (
        files_of_at_most(1000),
        pytest.warns(UserWarning, match=r"could not be written.*continues"),
    ):
        finished = small(depth=1).fit(*rows, checkpoints=resume)
    assert_equal(finished, expected)
    assert file.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [file.name, "run.json"]
    assert_equal(small(depth=1).fit(*rows, checkpoints=resume), expected)


def test_checkpoints_are_removed_but_nothing_else(begun: Path) -> None:
    (begun / "notes.txt").write_text("mine")
    Checkpoints(begun).remove()
    assert [path.name for path in begun.iterdir()] == ["notes.txt"]
    (begun / "notes.txt").unlink()
    Checkpoints(begun).remove()
    assert not begun.exists()


def test_the_file_is_what_it_says(begun: Path) -> None:
    [file] = begun.glob("*.safetensors")
    tensors, content = CHECKPOINT.read(file)
    assert content["run"]["steps"] == 6
    assert "best_position" in tensors


def test_a_checkpoint_is_made_after_one_step_or_more() -> None:
    with pytest.raises(ValueError, match="every must be an integer of at least 1"):
        Checkpoints("folder", every=0)
