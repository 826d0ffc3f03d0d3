"""Fits with checkpoints: they are resumed as if nothing had happened, or refused."""

from __future__ import annotations

import json
import resource
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders.forgeries import NONSENSE, changed, forge, forged_tensors, leaves

from sswim.base.cholesky import FactorisationError
from sswim.estimator import BaseRegressor, make_estimator
from sswim.members import Checkpoints, Step
from sswim.members.checkpoints import CHECKPOINT, CheckpointError
from sswim.rows import ArraySource

SETTINGS: dict[str, Any] = {
    "depth": 1,
    "n_components": 16,
    "n_pseudo": 4,
    "max_iter": 8,
    "random_state": 3,
    "device": "cpu",
}
KINDS: dict[str, dict[str, Any]] = {
    "one model": {},
    "members": {"n_members": 3},
    "growing": {"growing": True},
    "ensemble": {"depth": None, "n_members": 1, "max_iter": 4, "noise": "constant"},
    "single precision": {"dtype": "float32"},
    "neighbours": {"warp_matrix": "projected", "warp_dim": 1, "n_neighbors": 8, "n_members": 2},
}
Table = tuple[np.ndarray, np.ndarray]
Tensors = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def rows() -> Table:
    random = np.random.default_rng(0)
    x = random.normal(size=(60, 2))
    return x, np.sin(2 * x[:, 0]) + 0.1 * random.normal(size=60)


def small(**changes: Any) -> BaseRegressor:
    settings = {**SETTINGS, **changes}
    return make_estimator(**{name: value for name, value in settings.items() if value is not None})


def parameters(regressor: BaseRegressor) -> Tensors:
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


def cut_off(checkpoints: Checkpoints, rows: Any, n_calls: int = 7, **changes: Any) -> None:
    """Fit until the callback has been called so often, as if the power were cut then."""
    calls = 0

    def callback(member: int, step: Step) -> None:
        nonlocal calls
        calls += 1
        if calls == n_calls:
            raise _Killed

    with suppress(_Killed):
        small(**changes, callback=callback).fit(*rows, checkpoints=checkpoints)


@pytest.fixture(scope="module")
def expected(rows: Table) -> BaseRegressor:
    """A fit that was not cut off."""
    return small().fit(*rows)


@pytest.fixture(scope="module")
def begun_once(rows: Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("begun") / "kept"
    cut_off(Checkpoints(folder, every=2), rows)
    return folder


@pytest.fixture
def begun(begun_once: Path, tmp_path: Path) -> Path:
    """Return the folder of a fit that was cut off, which a test may change."""
    return Path(shutil.copytree(begun_once, tmp_path / "kept"))


@pytest.fixture(scope="module", params=[*KINDS])
def whole(request: pytest.FixtureRequest, rows: Table) -> tuple[dict[str, Any], BaseRegressor]:
    """Settings, and a fit that was not cut off."""
    settings = KINDS[request.param]
    return settings, small(**settings).fit(*rows)


@pytest.mark.parametrize("after", [5, 20])
def test_a_fit_that_was_cut_off_ends_as_if_it_had_not_been(
    whole: tuple[dict[str, Any], BaseRegressor], after: int, rows: Table, tmp_path: Path
) -> None:
    settings, expected = whole
    cut_off(Checkpoints(tmp_path / "kept", every=2), rows, after, **settings)
    resume = Checkpoints(tmp_path / "kept", every=2, resume=True)
    assert_equal(small(**settings).fit(*rows, checkpoints=resume), expected)
    # Finished members are not trained again; the callback gets their last steps.
    steps: list[int] = []
    again = small(**settings, callback=lambda member, step: steps.append(step.index))
    assert_equal(again.fit(*rows, checkpoints=resume), expected)
    trained = [kind.n_steps for kind in expected.kinds_ for _ in range(kind.n_members)]
    assert sorted(steps) == sorted(trained)


def test_what_is_left_to_chance_and_a_source_are_resumed_too(rows: Table, tmp_path: Path) -> None:
    source = (ArraySource(*rows),)
    checkpoints = Checkpoints(tmp_path, every=2)
    cut_off(checkpoints, source, random_state=None)
    resume = Checkpoints(tmp_path, every=2, resume=True)
    resumed = small(random_state=None).fit(*source, checkpoints=resume)
    seed = json.loads(checkpoints.run_file.read_text())["seed"]
    assert_equal(resumed, small(random_state=seed).fit(*source))
    nothing = Checkpoints(tmp_path / "nothing", resume=True)
    assert_equal(small(random_state=seed).fit(*source, checkpoints=nothing), resumed)


def test_another_fit_is_refused_by_what_differs(begun: Path, rows: Table) -> None:
    (x, y), resume = rows, Checkpoints(begun, resume=True)
    moved = x.copy()
    moved[5, 1] += 1e-3
    for settings, table, message in (
        ({"n_pseudo": 5}, rows, "settings.n_pseudo is 4, not 5"),
        ({}, (x[1:], y[1:]), "data.rows is 60, not 59"),
        ({}, (moved, y), "data.columns.input 1.mean is "),
    ):
        with pytest.raises(CheckpointError, match=message):
            small(**settings).fit(*table, checkpoints=resume)
    with pytest.raises(CheckpointError, match=r"checkpoint of an earlier fit.*resume"):
        small().fit(*rows, checkpoints=Checkpoints(begun))


def test_a_damaged_checkpoint_is_refused(begun: Path, rows: Table) -> None:
    resume = Checkpoints(begun, resume=True)
    [file] = begun.glob("*.safetensors")
    tensors, content = CHECKPOINT.read(file)
    assert content["run"]["steps"] == 6
    assert "best_position" in tensors
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(CheckpointError, match="not a sswim checkpoint, or it is damaged"):
        small().fit(*rows, checkpoints=resume)
    (begun / "run.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"run.json.*was not written by a fit"):
        small().fit(*rows, checkpoints=resume)


def test_settings_of_checkpoints_are_checked(rows: Table, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="every must be an integer of at least 1"):
        Checkpoints("folder", every=0)
    running = small(random_state=np.random.RandomState(0))
    with pytest.raises(ValueError, match="integer seed"):
        running.fit(*rows, checkpoints=Checkpoints(tmp_path))


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
    begun: Path, rows: Table, expected: BaseRegressor
) -> None:
    """Training continues; the earlier checkpoint stays intact, and a fit can resume from it."""
    [file] = begun.glob("*.safetensors")
    before = file.read_bytes()
    resume = Checkpoints(begun, every=2, resume=True)
    with (
        files_of_at_most(1000),
        pytest.warns(UserWarning, match=r"could not be written.*continues"),
    ):
        finished = small().fit(*rows, checkpoints=resume)
    assert_equal(finished, expected)
    assert file.read_bytes() == before
    assert sorted(path.name for path in begun.iterdir()) == [file.name, "run.json"]
    assert_equal(small().fit(*rows, checkpoints=resume), expected)


def test_checkpoints_are_removed_but_nothing_else(begun: Path) -> None:
    (begun / "notes.txt").write_text("mine")
    Checkpoints(begun).remove()
    assert [path.name for path in begun.iterdir()] == ["notes.txt"]
    (begun / "notes.txt").unlink()
    Checkpoints(begun).remove()
    assert not begun.exists()


# Checkpoints by strangers: any content under a right checksum is refused, or training goes on.


FORGED: dict[str, dict[str, Any]] = {
    "features": {"output_warp": "sinh-arcsinh"},
    "neighbours": {"n_neighbors": 4, "n_members": 2},
}
SIZE: dict[str, Any] = {"n_components": 4, "n_pseudo": 2, "max_iter": 6}


class Forgery:
    """A fit that was cut off, and whose checkpoint can be replaced."""

    def __init__(self, folder: Path, rows: Table, settings: dict[str, Any]) -> None:
        self.folder, self.rows, self.settings = folder, rows, {**SIZE, **settings}
        cut_off(Checkpoints(folder, every=2), rows, 5, **self.settings)
        [self.file] = folder.glob("*.safetensors")
        self.tensors, self.content = CHECKPOINT.read(self.file)
        self.original = {file: file.read_bytes() for file in folder.iterdir()}

    def is_refused(self, tensors: Tensors | None = None, content: Any = None) -> bool:
        """Resume from another content, and put the files back."""
        if tensors is not None or content is not None:
            forge(CHECKPOINT, self.file, tensors or self.tensors, content or self.content)
        try:
            checkpoints = Checkpoints(self.folder, resume=True)
            small(**self.settings).fit(*self.rows, checkpoints=checkpoints)
        except (CheckpointError, FactorisationError):  # numbers that are right may still diverge
            return True
        finally:
            for file, data in self.original.items():
                file.write_bytes(data)
        return False


@pytest.fixture(scope="module", params=[*FORGED.values()], ids=[*FORGED])
def forgery(
    request: pytest.FixtureRequest, rows: Table, tmp_path_factory: pytest.TempPathFactory
) -> Forgery:
    few = rows[0][:30], rows[1][:30]
    return Forgery(tmp_path_factory.mktemp("forged") / "kept", few, request.param)


def test_no_tensor_of_another_form_and_none_more_or_less_is_taken(forgery: Forgery) -> None:
    """A copy would spread one number over a whole tensor."""
    names = {*[*forgery.tensors][::12], "descent.first", "descent.second", "descent.count"}
    for name in sorted(names):
        tensor = forgery.tensors[name]
        for forged in forged_tensors(tensor):
            is_wrong = forged.shape != tensor.shape or forged.dtype != tensor.dtype
            if is_wrong or (forged.is_floating_point() and forged.isnan().any()):
                assert forgery.is_refused({**forgery.tensors, name: forged}), name
    for more in ("descent.more", "optimiser.0.exp_avg", "more", "model.more"):
        assert forgery.is_refused({**forgery.tensors, more: torch.zeros(())}), more
    for name in ("model.log_noise", "best_position", "descent.first"):
        others = {other: tensor for other, tensor in forgery.tensors.items() if other != name}
        assert forgery.is_refused(others), name


def test_no_content_ends_in_another_error(forgery: Forgery) -> None:
    random = np.random.default_rng(0)
    for path in [*leaves(forgery.content)][1::4]:
        value = NONSENSE[int(random.integers(len(NONSENSE)))]
        forgery.is_refused(content=changed(forgery.content, path, value))
    run = forgery.folder / "run.json"
    facts = json.loads(run.read_text())
    seeds = (-1, 10**30, 0.5, "1", None, [1], float("nan"), True)
    texts = [json.dumps({**facts, "seed": seed}) for seed in seeds]
    for text in (*texts, "[" * 10**5, '{"seed": ' + "[" * 10**5, "[]", "1" * 10**4):
        run.write_text(text)
        assert forgery.is_refused(), text[:100]
