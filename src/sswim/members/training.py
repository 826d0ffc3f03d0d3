"""Training on the exact gradient of the objective over all rows, by Adam.

The first steps may use few of the rows, and the last steps all of them: far from the optimum the
gradient of a few rows points the same way as that of all rows, at a fraction of the cost. On a GPU
the steps are recorded once as a CUDA graph and replayed with one launch each.

Every member of a batch has its own history, and ends with the parameters of its best step.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import repeat

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.cholesky import FactorisationError, deferred_failures
from sswim.base.validation import UserError
from sswim.distributed.processes import ALONE, Processes, resolve_device
from sswim.files.records import from_json, take_part, to_json
from sswim.files.sealed_files import require_tensors
from sswim.members.checkpoints import (
    Callback,
    MemberCallback,
    MemberSteps,
    StateStore,
    Step,
    Training,
    TrainingState,
    resuming,
)
from sswim.members.descent import Descent, OneCycle
from sswim.members.model import SSWIM, check_parameters
from sswim.members.objective import MAP, Objective, backward
from sswim.rows.rows import Rows


@dataclass(frozen=True)
class Adam:
    """Adam with a one-cycle schedule: the default, robust for thousands of pseudo-parameters."""

    steps: int = 150
    learning_rate: float = 0.03
    """Largest learning rate of the cycle."""
    noise_rate: float = 1.0
    """Learning rate of the noise level over the others': it may fall by orders of magnitude."""
    growing: bool = False
    """Whether the first steps use few rows (``sswim.members.training``); needs memory."""

    def __post_init__(self) -> None:
        rates = (self.learning_rate, self.noise_rate)
        if self.steps < 0 or not all(0 < rate < math.inf for rate in rates):
            raise UserError(
                f"steps must not be negative, learning_rate and noise_rate positive. Got {self}."
            )


STAGES = ((0.2, 16), (0.3, 4), (0.5, 1))
"""(fraction of steps, use one row in n)"""

MIN_ROWS = 2000
"""Smallest number of rows of a step, if there are that many."""


def growing(rows: Rows, n_steps: int) -> Iterator[Rows]:
    """Yield the rows of each step, the same record as long as they do not change.

    The rows of the first steps are a random choice with a fixed seed.
    """
    n_rows = len(rows)
    order = torch.randperm(n_rows, generator=torch.Generator().manual_seed(0))
    order = order.to(rows.targets.device)
    done, share = 0, 0.0
    for part, divisor in STAGES:
        share += part
        n_seen = max(n_rows // divisor, MIN_ROWS)
        seen = rows
        if n_seen < n_rows:
            seen = rows.map(partial(torch.index_select, dim=rows.axis, index=order[:n_seen]))
        last = round(share * n_steps)
        for _ in range(done, last):
            yield seen
        done = last


class RecordedStep:
    """A function that writes gradients in place, recorded as a CUDA graph.

    The host waits for the device only once, at the end of a replay; the result then also says
    whether a factorisation failed.
    """

    def __init__(self, function: Callable[[], Tensor]) -> None:
        """Record a function.

        Args:
            function: Returns a few numbers. It has been called before, so that nothing is compiled
                while recording. What it reads and writes stays where it is between replays.
        """
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), deferred_failures():
            function()  # libraries set up one workspace per stream
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph), deferred_failures() as failures:
            result = function().flatten()
            failed = torch.stack([flags.any() for flags in failures]).any()
            self.result = torch.cat((failed.to(result.dtype)[None], result))

    def replay(self) -> list[float] | None:
        """Return the numbers; None if a factorisation failed."""
        self.graph.replay()
        failed, *numbers = self.result.tolist()
        return None if failed else numbers


class StopTraining(Exception):  # noqa: N818 (not an error)
    """Raised to end an optimiser from within a step."""


@dataclass(frozen=True)
class RunContent:
    """The part of a run's state that JSON holds."""

    steps: int
    members: list[MemberSteps]


@dataclass
class TrainingRun:
    """The state of one training of a model or of a batch of members."""

    model: SSWIM
    rows: Rows | Iterable[Rows]
    objective: Objective
    settings: Adam
    chunk_rows: int | None
    callback: MemberCallback | None
    processes: Processes

    def __post_init__(self) -> None:
        self.descent = Descent(
            self.model,
            lambda name: self.settings.noise_rate if name == "log_noise" else 1.0,
            OneCycle(self.settings.steps + 1),
            self.settings.learning_rate,
        )
        self.members = [MemberSteps() for _ in range(self.descent.n_members)]
        self.best_position = self.descent.position.clone()
        self.began = time.perf_counter()
        self.steps = 0
        self.last_rows = self.rows
        self.recording: RecordedStep | None = None
        self.recording_failed = False
        self.first_evaluation = True

    @property
    def can_record(self) -> bool:
        """Whether steps can be recorded: on a GPU, with all rows in the memory of this process."""
        on_gpu = self.model.log_noise.is_cuda
        return on_gpu and isinstance(self.rows, Rows) and self.processes.size == 1

    def use_rows(self, rows: Rows | Iterable[Rows]) -> None:
        """Continue with other rows; the best steps on earlier rows are forgotten."""
        if rows is self.rows:
            return
        self.rows, self.recording, self.first_evaluation = rows, None, True
        for member in self.members:
            member.forget_best()

    def evaluate(self) -> tuple[list[float], list[float]]:
        """Return the members' objectives and gradient norms; the parameters get the gradients.

        The first evaluation compiles what has to be compiled. Where steps can be recorded, the
        second one is, and later ones are replayed.
        """
        if (
            not self.first_evaluation
            and self.recording is None
            and self.can_record
            and not self.recording_failed
        ):
            try:
                self.recording = RecordedStep(self._compute)
            except RuntimeError:  # a driver, a library or too little memory: train without it
                self.recording_failed = True
        numbers = None if self.recording is None else self.recording.replay()
        if numbers is None:
            numbers = self._compute().tolist()
        self.first_evaluation = False
        values, norms = numbers[: len(self.members)], numbers[len(self.members) :]
        wrong = [one for one in values if not math.isfinite(one)]
        if wrong:
            raise FactorisationError(
                f"The objective must be finite; it is {wrong[0]} at step {self.steps}. Likely "
                "cause: parameters that diverged. Lower the learning rate, or standardise the rows."
            )
        return values, norms

    def _compute(self) -> Float64[Tensor, " numbers"]:
        self.descent.clear()
        value = backward(
            self.model, self.rows, self.objective, self.chunk_rows, self.processes
        ).reshape(-1)
        gradient = self.descent.collect()
        if self.processes.size > 1:  # the first process's numbers: all take the same step
            numbers = self.processes.broadcast_tensor(torch.cat((value[:, None], gradient), dim=1))
            value = numbers[:, 0]
            gradient.copy_(numbers[:, 1:])
        return torch.cat((value, gradient.norm(dim=1)))

    def finish_step(self, values: list[float], norms: list[float]) -> None:
        """Record an evaluated step; raises StopTraining if it was the last one."""
        seconds = time.perf_counter() - self.began
        running = [number for number, member in enumerate(self.members) if member.ended is None]
        steps = {n: Step(self.steps, values[n], norms[n], seconds) for n in running}
        all_rows = self.rows is self.last_rows
        better = [n for n in running if self.members[n].finish_step(steps[n], may_end=all_rows)]
        self.best_position[better] = self.descent.position[better]
        self.steps += 1
        callback = self.callback or (lambda member, step: None)
        answers = [callback(n, step) for n, step in steps.items()]  # call all before stopping
        if self.processes.any(any(answer is True for answer in answers)):
            for n in running:
                self.members[n].ended = "callback"
        if all(member.ended for member in self.members):
            raise StopTraining

    def report_last_steps(self) -> None:
        """Call the callback with the last step of every member."""
        for number, member in enumerate(self.members):
            if self.callback is not None:
                self.callback(number, member.history[-1])

    def move(self) -> None:
        """Take a step; members that have ended stay at their best parameters."""
        self.descent.move(self.steps - 1)
        ended = [number for number, member in enumerate(self.members) if member.ended]
        self.descent.position[ended] = self.best_position[ended]

    def state(self) -> TrainingState:
        """Return the state of the run between two steps."""
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        tensors |= {"best_position": self.best_position, **self.descent.saved()}
        return TrainingState(tensors, {"run": to_json(RunContent(self.steps, self.members))})

    def resume(self, saved: TrainingState) -> None:
        """Continue from the saved state of another run; nothing changes if it is not one of this.

        Raises:
            ValueError: The state is not one of this training.
        """
        tensors = dict(saved.tensors)
        state, best = take_part(tensors, "model"), tensors.pop("best_position")
        require_tensors({"": best}, {"": self.best_position})
        for stored in (state, state | self.descent.state_at(best)):
            check_parameters(stored, self.model)
        run = from_json(RunContent, saved.content["run"], "the run")
        if len(run.members) != len(self.members):
            raise ValueError(f"{len(run.members)} members in place of {len(self.members)}")
        if run.steps != max(len(member.history) for member in run.members):
            raise ValueError(f"{run.steps!r} steps, but a history of others")
        self.descent.load(tensors)
        self.model.load_state_dict(state)
        self.best_position.copy_(best)
        self.members, self.steps = run.members, run.steps
        self.began -= max(member.history[-1].seconds for member in self.members)


def take_steps(run: TrainingRun, checkpoint: StateStore | None) -> None:
    """Take the steps of a training, from a checkpoint if there is one."""
    saved = None if checkpoint is None else checkpoint.load()
    if saved is not None:
        with resuming():
            run.resume(saved)
        if all(member.ended for member in run.members):
            run.report_last_steps()
            return
    begin = run.steps
    for number, rows in enumerate(_rows_of_steps(run)):
        if number > begin:
            run.move()
            if checkpoint is not None and number % checkpoint.every == 0:
                checkpoint.save(run.state())
        if number < begin:
            run.rows = rows  # the rows of steps before the checkpoint
        else:
            run.use_rows(rows)
            run.finish_step(*run.evaluate())
    for member in run.members:
        member.ended = member.ended or "steps"
    if checkpoint is not None:
        checkpoint.save(run.state())


def _rows_of_steps(run: TrainingRun) -> Iterable[Rows | Iterable[Rows]]:
    """Return the rows that each step uses."""
    if not run.settings.growing:
        return repeat(run.rows, run.settings.steps + 1)
    if not isinstance(run.rows, Rows) or run.processes.size > 1:
        raise UserError(
            "growing=True needs all rows in the memory of one process. Got chunks of rows, or "
            "several processes."
        )
    return growing(run.rows, run.settings.steps + 1)


def train(
    model: SSWIM,
    rows: Rows | Iterable[Rows],
    objective: Objective = MAP,
    optimiser: Adam | None = None,
    *,
    callback: Callback | None = None,
    device: str | torch.device = "auto",
    chunk_rows: int | None = None,
    processes: Processes = ALONE,
    checkpoint: StateStore | None = None,
) -> Training:
    """Train a model in place; it ends with the parameters of its best step, however it ends.

    Training is not random: the same start gives the same result.

    Args:
        model: Started by :func:`sswim.members.start`; moved to the device. Not a batch.
        rows: Rows in memory (moved to the device), or chunks on the device in any iterable that can
            be restarted.
        objective: What to minimise.
        optimiser: ``Adam()`` by default.
        callback: Called after every step.
        device: ``"auto"`` is CUDA where there is one.
        chunk_rows: See ``sswim.members.objective.backward``.
        processes: The processes that train the model together, each with its own rows.
        checkpoint: Where the training is saved as it goes, and resumed from.
    """
    if model.batch:
        raise ValueError(
            f"train takes a single model. Got a batch {model.batch}; use train_batch, which "
            "returns the training of each member."
        )
    after_step = None if callback is None else lambda _, step: callback(step)
    [training] = train_batch(
        model,
        rows,
        objective,
        optimiser,
        callback=after_step,
        device=device,
        chunk_rows=chunk_rows,
        processes=processes,
        checkpoint=checkpoint,
    )
    return training


def train_batch(
    model: SSWIM,
    rows: Rows | Iterable[Rows],
    objective: Objective = MAP,
    optimiser: Adam | None = None,
    *,
    callback: MemberCallback | None = None,
    device: str | torch.device = "auto",
    chunk_rows: int | None = None,
    processes: Processes = ALONE,
    checkpoint: StateStore | None = None,
) -> list[Training]:
    """Train a batch of members together, each as it would be alone; see :func:`train`.

    A member that no longer improves waits at its best parameters for the others. The callback is
    called for every member after each of its steps, and can end the training of all.

    Args:
        model: A batch made by ``sswim.members.model.stack_models``, or a single model.
        rows: Rows shared by all members, or with the axes of members in front.
        objective: What to minimise.
        optimiser: ``Adam()`` by default.
        callback: Called with the number of a member and its step.
        device: ``"auto"`` is CUDA where there is one.
        chunk_rows: See ``sswim.members.objective.backward``.
        processes: The processes that train the members together, each with its own rows.
        checkpoint: Where the training is saved as it goes, and resumed from.
    """
    place = resolve_device(device)
    model.to(place)
    if isinstance(rows, Rows):
        rows = rows.to(device=place)
    run = TrainingRun(model, rows, objective, optimiser or Adam(), chunk_rows, callback, processes)
    try:
        take_steps(run, checkpoint)
    except StopTraining:
        pass
    finally:
        run.descent.finish(run.best_position)
    return [member.training() for member in run.members]
