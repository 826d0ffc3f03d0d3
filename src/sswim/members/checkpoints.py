"""Checkpoints: a fit is saved to disk as it goes, and can be resumed after an interruption.

A training has a history of its steps, and a state: everything that later steps depend on besides
the rows. A folder has one file that describes the fit (settings and data), and one file with the
state of each training in it. A file replaces the previous one only when it is complete.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

import numpy as np
from torch import Tensor

from sswim.base.validation import UserError, require_integer
from sswim.distributed.processes import ALONE, Processes
from sswim.files.output_files import atomic_write
from sswim.files.records import LARGEST_FLOAT, Between
from sswim.files.sealed_files import (
    UNREADABLE,
    SealedFormat,
    differences,
    parse_json,
    require_that,
)

PATIENCE = 50
"""Number of steps without a clear improvement after which a training ends."""

TOLERANCE = 1e-6
"""Smallest improvement that is clear, in nats per row."""


@dataclass(frozen=True)
class Step:
    """The objective and its gradient after one step."""

    index: int
    value: float
    """Value of the objective, in nats per row."""
    gradient_norm: float
    seconds: float
    """Seconds since training began."""


Ending = Literal["steps", "converged", "callback"]


@dataclass(frozen=True)
class Training:
    """The training of one member, which ends with the parameters of its best step.

    If the number of rows grew, only steps on all rows are compared.
    """

    history: tuple[Step, ...]
    best: Step
    ended: Ending


Callback = Callable[[Step], object]
"""Called after every step; returning True ends the training."""

MemberCallback = Callable[[int, Step], object]
"""Called with the number of a member and each of its steps; returning True ends the training."""


@dataclass
class MemberSteps:
    """The steps of one member so far."""

    history: list[Step] = field(default_factory=list)
    best: Step | None = None
    progress: tuple[int, Annotated[float, Between(-LARGEST_FLOAT, math.inf)]] = (0, math.inf)
    """The step and value of the last clear improvement."""
    ended: Ending | None = None

    def __post_init__(self) -> None:
        numbers = [step.index for step in self.history]
        require_that(
            "the steps of a history must be numbered from 0",
            holds=numbers == list(range(len(numbers))),
        )
        require_that(
            "the last improvement must be one of the steps", holds=self.progress[0] <= len(numbers)
        )
        require_that(
            "the best step must be one of the steps",
            holds=self.best is None or self.best in self.history,
        )

    def finish_step(self, step: Step, *, may_end: bool = True) -> bool:
        """Record a step, and return whether it is the best so far; the member may end with it."""
        self.history.append(step)
        if may_end:
            if step.value < self.progress[1] - TOLERANCE:
                self.progress = (step.index, step.value)
            if step.index - self.progress[0] >= PATIENCE:
                self.ended = "converged"
        better = self.best is None or step.value < self.best.value
        if better:
            self.best = step
        return better

    def forget_best(self) -> None:
        """Compare later steps only with each other."""
        self.best, self.progress = None, (len(self.history), math.inf)

    def training(self) -> Training:
        """Return the finished training."""
        assert self.best is not None
        return Training(tuple(self.history), self.best, self.ended or "steps")


class CheckpointError(UserError):
    """A checkpoint that cannot be used."""


@dataclass(frozen=True)
class TrainingState:
    """Everything that later steps depend on besides the rows."""

    tensors: dict[str, Tensor]
    content: dict[str, Any]
    """The part that JSON can hold."""


@runtime_checkable
class StateStore(Protocol):
    """A place where the state of one training is saved."""

    @property
    def every(self) -> int:
        """Number of steps from one save to the next."""
        ...

    def load(self) -> TrainingState | None:
        """Return the state that was saved last; None if there is none."""
        ...

    def save(self, state: TrainingState) -> None:
        """Replace the saved state."""
        ...


@contextmanager
def resuming() -> Iterator[None]:
    """Raise a :class:`CheckpointError` about a state that is not one of this training."""
    try:
        yield
    except UNREADABLE as error:
        raise CheckpointError(
            f"A checkpoint must have the state of this training. Got another: {str(error)[:1000]}. "
            "Delete the checkpoint, and its members are trained again."
        ) from error


__all__ = ["CHECKPOINT", "CheckpointError", "CheckpointFile", "Checkpoints", "begin_fit"]

VERSION = 2
RUN = "run.json"


CHECKPOINT = SealedFormat(
    "checkpoint", VERSION, CheckpointError, "Delete it, and its members are trained again."
)


@dataclass(frozen=True)
class Checkpoints:
    """The folder of a fit's checkpoints, and whether the fit resumes from them."""

    folder: str | os.PathLike[str]
    """Folder of this fit only; created if it is missing."""
    every: int = 10
    """Number of steps from one checkpoint to the next."""
    resume: bool = False
    """Resume from what is in the folder, if there is anything."""

    def __post_init__(self) -> None:
        require_integer("every", self.every, 1)

    @property
    def run_file(self) -> Path:
        """File with the settings and the data of the fit."""
        return Path(self.folder) / RUN

    def seed(self, processes: Processes = ALONE) -> int | None:
        """Return the seed of the fit to resume; None if there is none."""
        with processes.shared_errors():
            run = self._read_run() if processes.is_first and self.resume else None
        return processes.broadcast(None if run is None else int(run["seed"]))

    def open(self, facts: Mapping[str, Any], processes: Processes = ALONE) -> None:
        """Begin a fit; raise an error if the folder has the checkpoint of a different one.

        Args:
            facts: JSON-able settings, data and seed of the fit.
            processes: The processes of the fit; the first one reads and writes.
        """
        processes.run_everywhere(lambda: self._open(facts) if processes.is_first else None)

    def file(self, name: str, processes: Processes = ALONE) -> CheckpointFile:
        """Return the checkpoint file of one training of the fit."""
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        return CheckpointFile(Path(self.folder) / f"{name}.safetensors", self.every, processes)

    def remove(self) -> None:
        """Delete the files, and the folder if nothing else is in it."""
        folder = Path(self.folder)
        with suppress(FileNotFoundError):  # another process may delete them at the same time
            for pattern in ("member-*.safetensors", RUN, ".*.part"):  # the last are incomplete
                for file in list(folder.glob(pattern)):
                    file.unlink(missing_ok=True)
            if not any(folder.iterdir()):
                folder.rmdir()

    def _open(self, facts: Mapping[str, Any]) -> None:
        facts = json.loads(json.dumps(facts))  # as they are read back
        found = self._read_run()
        if found is None:
            Path(self.folder).mkdir(parents=True, exist_ok=True)
            with atomic_write(self.run_file) as temporary:
                temporary.write_text(json.dumps(facts, indent=1), encoding="utf-8")
        elif not self.resume:
            raise CheckpointError(
                f"{os.fspath(self.folder)!r} has the checkpoint of an earlier fit. Resume it "
                "(resume=True, or --resume), delete it, or choose another folder."
            )
        elif unlike := differences(found, facts):
            raise CheckpointError(
                f"A fit must be resumed with the data and settings it began with. The one in "
                f"{os.fspath(self.folder)!r} differs: {'; '.join(unlike)}."
            )

    def _read_run(self) -> dict[str, Any] | None:
        if not self.run_file.exists():
            return None
        try:
            run = dict(parse_json(self.run_file.read_text(encoding="utf-8")))
            require_integer("seed", run["seed"], 0, 2**32 - 1)
            return run
        except (OSError, *UNREADABLE) as error:
            raise CheckpointError(
                f"{str(self.run_file)!r} was not written by a fit: {error}. Delete the folder and "
                "start again."
            ) from error


@dataclass(frozen=True)
class CheckpointFile:
    """The file with the state of one training."""

    path: Path
    every: int
    processes: Processes = ALONE
    """The processes that train together; the first one reads and writes."""

    def exists(self) -> bool:
        """Return whether a state was saved."""
        return self.processes.broadcast(self.path.exists())

    def load(self) -> TrainingState | None:
        """Return the state that was saved last; None if there is none."""
        found = self.processes.run_everywhere(self._read)
        return found[0]

    def _read(self) -> TrainingState | None:
        if not (self.processes.is_first and self.path.exists()):
            return None
        return TrainingState(*CHECKPOINT.read(self.path))

    def save(self, state: TrainingState) -> None:
        """Save a state; if that fails, warn, keep the previous file and let training go on."""
        if not self.processes.is_first:
            return
        try:
            CHECKPOINT.write(self.path, state.tensors, state.content)
        except OSError as error:
            warnings.warn(
                f"The checkpoint {str(self.path)!r} could not be written: {error}. Training "
                "continues; an earlier checkpoint is kept.",
                stacklevel=2,
            )


def begin_fit(
    checkpoints: Checkpoints | None,
    random_state: int | np.random.RandomState | None,
    facts: Mapping[str, Any],
    processes: Processes = ALONE,
) -> int | np.random.RandomState | None:
    """Open the checkpoints of a fit, and return its random state, the same in every process.

    Args:
        checkpoints: Where the fit is saved, if it is.
        random_state: The user's choice.
        facts: JSON-able settings and data of the fit.
        processes: The processes that fit together.
    """
    if checkpoints is None:
        return (
            random_state if processes.size == 1 else processes.broadcast(_with_seed(random_state))
        )
    if isinstance(random_state, np.random.RandomState):
        raise UserError(
            "A fit with checkpoints needs an integer seed. Got a RandomState; give random_state "
            "as an integer or None."
        )
    saved = checkpoints.seed(processes)
    seed = processes.broadcast(_with_seed(random_state)) if saved is None else saved
    checkpoints.open({**facts, "seed": seed}, processes)
    return seed


def _with_seed(
    random_state: int | np.random.RandomState | None,
) -> int | np.random.RandomState:
    """Return the random state, or a new seed if it is None."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0] >> 1)
    return random_state
