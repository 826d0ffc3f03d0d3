"""Training on the exact gradient of the objective over all rows, by Adam.

The first steps may use few of the rows, and the last steps all of them: far from the optimum the
gradient of a few rows points the same way as that of all rows, at a fraction of the cost. On a GPU
the steps are recorded once as a CUDA graph and replayed with one launch each.

Every member of a batch has its own history, and ends with the parameters of its best step.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.cholesky import FactorisationError, deferred_failures
from sswim.base.validation import UserError
from sswim.distributed.processes import ALONE, Processes, resolve_device
from sswim.files.records import from_json, to_json
from sswim.files.sealed_files import require_tensors
from sswim.members.checkpoints import (
    Callback,
    MemberCallback,
    MemberSteps,
    StateStore,
    Step,
    Training,
    TrainingState,
    load_optimiser,
    pack_optimiser,
    resuming,
)
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
    """A function of parameters together with their gradients, recorded as a CUDA graph.

    The host waits for the device only once, at the end of a replay; the result then also says
    whether a factorisation failed.
    """

    def __init__(self, function: Callable[[], Tensor], parameters: Sequence[Tensor]) -> None:
        """Record a function.

        Args:
            function: Returns a few numbers and leaves gradients in the parameters. It has been
                called before, so that nothing is compiled while recording.
            parameters: Parameters whose values change in place between replays.
        """
        self.parameters = parameters
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
        self.gradients = [parameter.grad for parameter in parameters]

    def replay(self) -> list[float] | None:
        """Return the numbers and set the gradients; None if a factorisation failed."""
        self.graph.replay()
        for parameter, gradient in zip(self.parameters, self.gradients, strict=True):
            parameter.grad = gradient
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
    chunk_rows: int | None
    callback: MemberCallback | None
    processes: Processes

    def __post_init__(self) -> None:
        self.parameters = list(self.model.parameters())
        self.members = [MemberSteps() for _ in range(math.prod(self.model.batch))]
        self.best_position = self.position()
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
                self.recording = RecordedStep(self._compute, self.parameters)
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
        self.model.zero_grad()
        value = backward(
            self.model, self.rows, self.objective, self.chunk_rows, self.processes
        ).reshape(-1)
        if self.processes.size > 1:
            value = self._agree(value)
        return torch.cat((value, self.gradient().norm(dim=1)))

    def _agree(self, value: Float64[Tensor, " members"]) -> Float64[Tensor, " members"]:
        """Take the first process's objectives and gradients, so that all take the same step."""
        numbers = torch.cat((value[:, None], self.gradient()), dim=1)
        value, *gradients = self.processes.broadcast_tensor(numbers).split(
            [1, *self._sizes()], dim=1
        )
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient.reshape(parameter.shape).clone()
        return value[:, 0]

    def gradient(self) -> Float64[Tensor, "members parameters"]:
        """Return the gradients of the last evaluation, flattened."""
        return self._flat(
            [p.new_zeros(p.shape) if p.grad is None else p.grad for p in self.parameters]
        )

    def position(self) -> Float64[Tensor, "members parameters"]:
        """Return the parameters, flattened."""
        return self._flat([parameter.detach() for parameter in self.parameters])

    def _flat(self, tensors: list[Tensor]) -> Tensor:
        return torch.cat([tensor.reshape(len(self.members), -1) for tensor in tensors], dim=1)

    @torch.no_grad()
    def move_to(self, position: Float64[Tensor, "members parameters"]) -> None:
        """Set the parameters from flattened ones."""
        parts = position.split(self._sizes(), dim=1)
        for parameter, part in zip(self.parameters, parts, strict=True):
            parameter.copy_(part.reshape(parameter.shape))

    def _sizes(self) -> list[int]:
        return [parameter.numel() // len(self.members) for parameter in self.parameters]

    def finish_step(self, values: list[float], norms: list[float]) -> None:
        """Record an evaluated step; raises StopTraining if it was the last one."""
        seconds = time.perf_counter() - self.began
        running = [number for number, member in enumerate(self.members) if member.ended is None]
        steps = {n: Step(self.steps, values[n], norms[n], seconds) for n in running}
        all_rows = self.rows is self.last_rows
        better = [n for n in running if self.members[n].finish_step(steps[n], may_end=all_rows)]
        if len(better) == len(self.members):
            self.best_position = self.position()
        elif better:
            self.best_position[better] = self.position()[better]
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

    def restore_ended(self) -> None:
        """Put members that have ended back to their best parameters after an optimiser step."""
        ended = [number for number, member in enumerate(self.members) if member.ended]
        if ended:
            position = self.position()
            position[ended] = self.best_position[ended]
            self.move_to(position)

    def state(self) -> TrainingState:
        """Return the state of the run between two steps."""
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        tensors["best_position"] = self.best_position
        return TrainingState(tensors, {"run": to_json(RunContent(self.steps, self.members))})

    def resume(self, saved: TrainingState) -> None:
        """Continue from the saved state of another run; nothing changes if it is not one of this.

        Raises:
            ValueError: The state is not one of this training.
        """
        best, prefix = saved.tensors["best_position"], "model."
        require_tensors({"": best}, {"": self.best_position})
        state = {
            name.removeprefix(prefix): tensor
            for name, tensor in saved.tensors.items()
            if name != "best_position" and not name.startswith("optimiser.")
        }
        parts = best.split(self._sizes(), dim=1)
        named = zip(self.model.named_parameters(), parts, strict=True)
        best_state = {name: part.reshape(tensor.shape) for (name, tensor), part in named}
        for stored in (state, state | best_state):
            check_parameters(stored, self.model)
        run = from_json(RunContent, saved.content["run"], "the run")
        if len(run.members) != len(self.members):
            raise ValueError(f"{len(run.members)} members in place of {len(self.members)}")
        if run.steps != max(len(member.history) for member in run.members):
            raise ValueError(f"{run.steps!r} steps, but a history of others")
        self.model.load_state_dict(state)
        self.best_position = best.to(self.best_position.device)
        self.members, self.steps = run.members, run.steps
        self.began -= max(member.history[-1].seconds for member in self.members)

    def restore_best(self) -> None:
        """Set the model to the best parameters seen."""
        self.move_to(self.best_position)
        self.model.zero_grad()


def run_adam(run: TrainingRun, settings: Adam, checkpoint: StateStore | None) -> None:
    """Take the steps of Adam with a one-cycle schedule, from a checkpoint if there is one."""
    noise = run.model.log_noise
    others = [parameter for parameter in run.parameters if parameter is not noise]
    rates = [settings.learning_rate, settings.noise_rate * settings.learning_rate]
    groups = [{"params": parameters} for parameters in (others, [noise])]
    # One call for all parameters, where there are many of them and most are small.
    optimiser = torch.optim.Adam(groups, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, max_lr=rates, total_steps=settings.steps + 1
    )

    def save() -> None:
        assert checkpoint is not None
        checkpoint.save(run.state() | pack_optimiser(optimiser, schedule))

    saved = None if checkpoint is None else checkpoint.load()
    if saved is not None:
        with resuming():
            run.resume(saved)
            load_optimiser(saved, optimiser, schedule)
        if all(member.ended for member in run.members):
            run.report_last_steps()
            return
    begin = run.steps
    for number, rows in enumerate(_rows_of_steps(run, settings)):
        if number > begin:
            optimiser.step()
            schedule.step()
            run.restore_ended()
            if checkpoint is not None and number % checkpoint.every == 0:
                save()
        if number < begin:
            run.rows = rows  # the rows of steps before the checkpoint
        else:
            run.use_rows(rows)
            run.finish_step(*run.evaluate())
    for member in run.members:
        member.ended = member.ended or "steps"
    if checkpoint is not None:
        save()


def _rows_of_steps(run: TrainingRun, settings: Adam) -> Iterable[Rows | Iterable[Rows]]:
    """Return the rows that each step uses."""
    if not settings.growing:
        return repeat(run.rows, settings.steps + 1)
    if not isinstance(run.rows, Rows) or run.processes.size > 1:
        raise UserError(
            "growing=True needs all rows in the memory of one process. Got chunks of rows, or "
            "several processes."
        )
    return growing(run.rows, settings.steps + 1)


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
    run = TrainingRun(model, rows, objective, chunk_rows, callback, processes)
    try:
        run_adam(run, optimiser or Adam(), checkpoint)
    except StopTraining:
        pass
    finally:
        run.restore_best()
    return [member.training() for member in run.members]
