"""Checkpoints: a fit that is kept on disk as it goes, and taken up again after an interruption.

A folder has one file for what was to be learnt and from what, and one for each training in it. A
file takes the place of the one before only when it is whole.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sswim.base.files import atomic_write
from sswim.base.mapping_diff import differences
from sswim.base.sealed_files import SealedFormat
from sswim.base.validation import require_integer
from sswim.distributed.processes import ALONE, Processes
from sswim.training.training_state import TrainingState

VERSION = 1
RUN = "run.json"


class CheckpointError(ValueError):
    """A checkpoint that cannot be used."""


CHECKPOINT = SealedFormat(
    "checkpoint", VERSION, CheckpointError, "Delete it, and what it kept is trained anew."
)


@dataclass(frozen=True)
class Checkpoints:
    """Where a fit is kept, and whether it goes on where an earlier one was."""

    folder: str | os.PathLike[str]
    """Of this fit alone; made where it is missing."""
    every: int = 10
    """Steps from one checkpoint to the next."""
    resume: bool = False
    """Go on with what is in the folder, if anything is."""

    def __post_init__(self) -> None:
        require_integer("every", self.every, 1)

    @property
    def run_file(self) -> Path:
        """What the fit is about."""
        return Path(self.folder) / RUN

    def seed(self, processes: Processes = ALONE) -> int | None:
        """That of the fit to be taken up; None if there is none."""
        with processes.shared_errors():
            run = self._read_run() if processes.is_first and self.resume else None
        return processes.broadcast(None if run is None else int(run["seed"]))

    def open(self, facts: Mapping[str, Any], processes: Processes = ALONE) -> None:
        """Begin a fit, or refuse to if the folder has another.

        Args:
            facts: What the fit is about, with the seed of all that is random in it; JSON-able.
            processes: Of which the first looks and writes.
        """
        processes.run_everywhere(lambda: self._open(facts) if processes.is_first else None)

    def keeper(self, name: str, processes: Processes = ALONE) -> CheckpointFile:
        """What keeps one of the fit's trainings."""
        Path(self.folder).mkdir(parents=True, exist_ok=True)
        return CheckpointFile(Path(self.folder) / f"{name}.safetensors", self.every, processes)

    def remove(self) -> None:
        """Delete the files, and the folder if nothing else is in it."""
        folder = Path(self.folder)
        with suppress(FileNotFoundError):  # of several processes another was quicker
            for pattern in ("member-*.safetensors", RUN, ".*.part"):  # the last were cut off
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
                f"{os.fspath(self.folder)!r} has the checkpoint of an earlier fit. Go on with it "
                "(resume=True, or --resume), delete it, or choose another folder."
            )
        elif unlike := differences(found, facts):
            raise CheckpointError(
                f"A fit is resumed with the data and settings it began with. The one in "
                f"{os.fspath(self.folder)!r} differs: {'; '.join(unlike)}."
            )

    def _read_run(self) -> dict[str, Any] | None:
        if not self.run_file.exists():
            return None
        try:
            run = json.loads(self.run_file.read_text(encoding="utf-8"))
            return {**run, "seed": int(run["seed"])}
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise CheckpointError(
                f"{str(self.run_file)!r} is not what a fit wrote: {error}. Delete the folder, and "
                "begin again."
            ) from error


@dataclass(frozen=True)
class CheckpointFile:
    """Keeps one training in one file."""

    path: Path
    every: int
    processes: Processes = ALONE
    """Which train together; the first reads and writes."""

    def exists(self) -> bool:
        """Whether anything was kept."""
        return self.processes.broadcast(self.path.exists())

    def load(self) -> TrainingState | None:
        """What was kept last."""
        found = self.processes.run_everywhere(self._read)
        return found[0]

    def _read(self) -> TrainingState | None:
        if not (self.processes.is_first and self.path.exists()):
            return None
        return TrainingState(*CHECKPOINT.read(self.path))

    def save(self, kept: TrainingState) -> None:
        """Keep a training; where that fails it goes on, and what was kept before stays."""
        if not self.processes.is_first:
            return
        try:
            CHECKPOINT.write(self.path, kept.tensors, kept.content)
        except OSError as error:
            warnings.warn(
                f"The checkpoint {str(self.path)!r} could not be written: {error}. Training goes "
                "on, with the one before if there is one.",
                stacklevel=2,
            )


def begin_fit(
    checkpoints: Checkpoints | None,
    random_state: int | np.random.RandomState | None,
    facts: Mapping[str, Any],
    processes: Processes = ALONE,
) -> int | np.random.RandomState | None:
    """What all that is random in a fit comes from, the same in every process.

    Args:
        checkpoints: Opened here, if the fit is kept.
        random_state: What the user chose.
        facts: What the fit is about, JSON-able.
        processes: Which begin together.
    """
    if checkpoints is None:
        return random_state if processes.size == 1 else processes.broadcast(_decided(random_state))
    if isinstance(random_state, np.random.RandomState):
        raise ValueError(
            "A fit that is kept must be random by a number. Got a RandomState; give random_state "
            "as an integer, or None."
        )
    kept = checkpoints.seed(processes)
    seed = processes.broadcast(_decided(random_state)) if kept is None else kept
    checkpoints.open({**facts, "seed": seed}, processes)
    return seed


def _decided(
    random_state: int | np.random.RandomState | None,
) -> int | np.random.RandomState:
    """The same, or a number if it was left open."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0] >> 1)
    return random_state
