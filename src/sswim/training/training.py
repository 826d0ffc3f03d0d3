"""Training: an optimiser on the exact gradient of the objective over all rows."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat

import numpy as np
import torch
from jaxtyping import Float64
from numpy.typing import NDArray
from scipy import optimize
from torch import Tensor

from sswim.base.cholesky import FactorisationError
from sswim.distributed.processes import ALONE, Processes
from sswim.model.sswim import SSWIM
from sswim.rows.rows import Rows
from sswim.training.cuda_graph import RecordedStep
from sswim.training.history import Callback, MemberCallback, MemberSteps, Step, Stopping, Training
from sswim.training.objective import MAP, Objective, backward
from sswim.training.row_schedule import growing
from sswim.training.training_state import StateStore, TrainingState, load_optimiser, pack_optimiser

__all__ = [
    "LBFGS",
    "Adam",
    "MemberCallback",
    "Step",
    "Stopping",
    "Training",
    "resolve_device",
    "train",
    "train_batch",
]


@dataclass(frozen=True)
class Adam:
    """Adam with a one-cycle schedule: the default, robust on thousands of pseudo-parameters."""

    steps: int = 150
    learning_rate: float = 0.03
    """The highest of the cycle."""
    noise_rate: float = 1.0
    """How many times as far the noise level steps: it may have to fall by orders of magnitude."""
    growing: bool = False
    """The first steps see few of the rows (see :mod:`sswim.training.row_schedule`); these must be in memory."""

    def __post_init__(self) -> None:
        if self.steps < 0 or self.learning_rate <= 0 or self.noise_rate <= 0:
            raise ValueError(
                f"steps must not be negative, learning_rate and noise_rate positive. Got {self}."
            )


@dataclass(frozen=True)
class LBFGS:
    """L-BFGS with a line search; several evaluations of the objective per step."""

    steps: int = 100
    memory: int = 20
    """How many past gradients the approximate Hessian is made of."""

    def __post_init__(self) -> None:
        if self.steps < 0 or self.memory < 1:
            raise ValueError(f"steps must not be negative, memory at least 1. Got {self}.")


def train(
    model: SSWIM,
    rows: Rows | Iterable[Rows],
    objective: Objective = MAP,
    optimiser: Adam | LBFGS | None = None,
    *,
    stopping: Stopping | None = None,
    callback: Callback | None = None,
    device: str | torch.device = "auto",
    chunk_rows: int | None = None,
    processes: Processes = ALONE,
    keeper: StateStore | None = None,
) -> Training:
    """Train a model in place; it ends with the parameters of its best step, however it ends.

    Nothing here is random: the same start gives the same result.

    Args:
        model: Started by :func:`sswim.model.sswim.start`; moved to the device. Not a batch.
        rows: Rows in memory (moved to the device), or chunks on the device in any iterable that can
            be started again.
        objective: What to minimise.
        optimiser: ``Adam()`` by default.
        stopping: When to end before the last step.
        callback: Called after every step.
        device: ``"auto"`` is CUDA where there is one.
        chunk_rows: See :func:`sswim.training.objective.backward`.
        processes: Which train the model together, each with its own rows.
        keeper: Keeps the training as it goes, and gives back what an earlier one left.
    """
    if model.batch:
        raise ValueError(
            f"A batch of models {model.batch} is trained by train_batch, which says of each how it "
            "went; train takes a single model."
        )
    after_step = None if callback is None else lambda _, step: callback(step)
    [training] = train_batch(
        model,
        rows,
        objective,
        optimiser,
        stopping=stopping,
        callback=after_step,
        device=device,
        chunk_rows=chunk_rows,
        processes=processes,
        keeper=keeper,
    )
    return training


def train_batch(
    model: SSWIM,
    rows: Rows | Iterable[Rows],
    objective: Objective = MAP,
    optimiser: Adam | LBFGS | None = None,
    *,
    stopping: Stopping | None = None,
    callback: MemberCallback | None = None,
    device: str | torch.device = "auto",
    chunk_rows: int | None = None,
    processes: Processes = ALONE,
    keeper: StateStore | None = None,
) -> list[Training]:
    """Train a batch of members together, each as it would be alone; see :func:`train`.

    A member that no longer improves waits at its best for the others. A callback is called for
    every member after each of its steps, and ends the training of all.

    Args:
        model: Members put together by :func:`sswim.model.member_batch.stack`, in place; or a single model.
        rows: Shared by all members, or with their axes in front.
        objective: What to minimise.
        optimiser: ``Adam()`` by default; ``LBFGS`` takes a single model.
        stopping: When a member ends before the last step.
        callback: Called with the number of a member and its step.
        device: ``"auto"`` is CUDA where there is one.
        chunk_rows: See :func:`sswim.training.objective.backward`.
        processes: Which train the members together, each with its own rows.
        keeper: Keeps the training as it goes, and gives back what an earlier one left; of Adam.
    """
    optimiser = optimiser or Adam()
    if keeper is not None and isinstance(optimiser, LBFGS):
        raise ValueError("L-BFGS cannot be taken up where it stopped. Use Adam, or no keeper.")
    if model.batch and isinstance(optimiser, LBFGS):
        raise ValueError(
            f"L-BFGS trains a single model, because its line search is one for all parameters. Got "
            f"a batch {model.batch}; use Adam, or train its members one by one."
        )
    place = resolve_device(device)
    model.to(place)
    if isinstance(rows, Rows):
        rows = rows.to(device=place)
    run = _Run(model, rows, objective, chunk_rows, stopping or Stopping(), callback, processes)
    try:
        if isinstance(optimiser, Adam):
            _adam(run, optimiser, keeper)
        else:
            _lbfgs(run, optimiser)
    except _Stop:
        pass
    finally:
        run.restore_best()
    return [member.training() for member in run.members]


def resolve_device(device: str | torch.device) -> torch.device:
    """A device from its name; ``"auto"`` is CUDA where there is one, and the CPU elsewhere."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(device)


class _Stop(Exception):  # noqa: N818 (not an error)
    """Ends an optimiser from within."""


@dataclass
class _Run:
    """One training: evaluates the objective, keeps members' histories and best parameters."""

    model: SSWIM
    rows: Rows | Iterable[Rows]
    objective: Objective
    chunk_rows: int | None
    stopping: Stopping
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
        self.refused = False
        self.fresh = True

    @property
    def can_record(self) -> bool:
        """Whether there is a GPU, and rows that stay where they are, all in this process."""
        on_gpu = self.model.log_noise.is_cuda
        return on_gpu and isinstance(self.rows, Rows) and self.processes.size == 1

    def look_at(self, rows: Rows | Iterable[Rows]) -> None:
        """Go on with other rows: what was best on others is forgotten."""
        if rows is self.rows:
            return
        self.rows, self.recording, self.fresh = rows, None, True
        for member in self.members:
            member.begin_again()

    def evaluate(self) -> tuple[list[float], list[float]]:
        """The members' objectives, and the norms of their gradients, which the parameters have.

        The first evaluation compiles what there is to compile; where it can be, the second is
        recorded, and later ones are replayed.
        """
        if not self.fresh and self.recording is None and self.can_record and not self.refused:
            try:
                self.recording = RecordedStep(self._compute, self.parameters)
            except RuntimeError:  # of a driver or a library, or for want of memory: slower without
                self.refused = True
        numbers = None if self.recording is None else self.recording.replay()
        if numbers is None:
            numbers = self._compute().tolist()
        self.fresh = False
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
        """The first process's objectives and gradients, so that all take the same step."""
        numbers = torch.cat((value[:, None], self.gradient()), dim=1)
        value, *gradients = self.processes.broadcast_tensor(numbers).split(
            [1, *self._sizes()], dim=1
        )
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient.reshape(parameter.shape).clone()
        return value[:, 0]

    def gradient(self) -> Float64[Tensor, "members parameters"]:
        """The gradients of the last evaluation, flattened."""
        return self._flat(
            [p.new_zeros(p.shape) if p.grad is None else p.grad for p in self.parameters]
        )

    def position(self) -> Float64[Tensor, "members parameters"]:
        """The parameters, flattened."""
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
        """Note a step whose objectives and gradients have been evaluated; may raise _Stop."""
        seconds = time.perf_counter() - self.began
        running = [number for number, member in enumerate(self.members) if member.ended is None]
        steps = {n: Step(self.steps, values[n], norms[n], seconds) for n in running}
        stopping = self.stopping if self.rows is self.last_rows else None  # not before all are seen
        better = [n for n in running if self.members[n].finish_step(steps[n], stopping)]
        if len(better) == len(self.members):
            self.best_position = self.position()
        elif better:
            self.best_position[better] = self.position()[better]
        self.steps += 1
        callback = self.callback or (lambda member, step: None)
        answers = [callback(n, step) for n, step in steps.items()]  # of all, before one is heard
        if self.processes.any(any(answer is True for answer in answers)):
            for n in running:
                self.members[n].ended = "callback"
        if all(member.ended for member in self.members):
            raise _Stop

    def tell_last(self) -> None:
        """Tell of the last steps of members that have ended all."""
        for number, member in enumerate(self.members):
            if self.callback is not None:
                self.callback(number, member.history[-1])

    def hold_ended(self) -> None:
        """Keep members that have ended at their best, wherever the optimiser goes on to."""
        ended = [number for number, member in enumerate(self.members) if member.ended]
        if ended:
            position = self.position()
            position[ended] = self.best_position[ended]
            self.move_to(position)

    def keep(self) -> TrainingState:
        """The run as it is between two steps."""
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        tensors["best_position"] = self.best_position
        members = [member.to_dict() for member in self.members]
        return TrainingState(tensors, {"steps": self.steps, "members": members})

    def resume(self, kept: TrainingState) -> None:
        """Go on where another run was."""
        prefix = "model."
        state = {
            name.removeprefix(prefix): tensor
            for name, tensor in kept.tensors.items()
            if name.startswith(prefix)
        }
        self.model.load_state_dict(state)
        self.best_position = kept.tensors["best_position"].to(self.best_position.device)
        self.members = [MemberSteps.from_dict(each) for each in kept.content["members"]]
        self.steps = int(kept.content["steps"])
        self.began -= max(member.history[-1].seconds for member in self.members)

    def restore_best(self) -> None:
        """Give the model the best parameters seen."""
        self.move_to(self.best_position)
        self.model.zero_grad()


def _adam(run: _Run, settings: Adam, keeper: StateStore | None) -> None:
    noise = run.model.log_noise
    others = [parameter for parameter in run.parameters if parameter is not noise]
    rates = [settings.learning_rate, settings.noise_rate * settings.learning_rate]
    groups = [{"params": parameters} for parameters in (others, [noise])]
    # One call for all parameters, where there are many of them and most are small.
    optimiser = torch.optim.Adam(groups, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, max_lr=rates, total_steps=settings.steps + 1
    )

    def keep() -> None:
        assert keeper is not None
        keeper.save(run.keep() | pack_optimiser(optimiser, schedule))

    kept = None if keeper is None else keeper.load()
    if kept is not None:
        run.resume(kept)
        load_optimiser(kept, optimiser, schedule)
        if all(member.ended for member in run.members):
            run.tell_last()
            return
    begin = run.steps
    for number, rows in enumerate(_stages(run, settings)):
        if number > begin:
            optimiser.step()
            schedule.step()
            run.hold_ended()
            if keeper is not None and number % keeper.every == 0:
                keep()
        if number < begin:
            run.rows = rows  # what it looked at before it was taken up again
        else:
            run.look_at(rows)
            run.finish_step(*run.evaluate())
    for member in run.members:
        member.ended = member.ended or "steps"
    if keeper is not None:
        keep()


def _stages(run: _Run, settings: Adam) -> Iterable[Rows | Iterable[Rows]]:
    """The rows that each step sees."""
    if not settings.growing:
        return repeat(run.rows, settings.steps + 1)
    if not isinstance(run.rows, Rows) or run.processes.size > 1:
        raise ValueError(
            "Only rows in the memory of one process can grow in number. Got chunks of rows, or "
            "several processes."
        )
    return growing(run.rows, settings.steps + 1)


def _lbfgs(run: _Run, settings: LBFGS) -> None:
    """SciPy's L-BFGS-B on the flattened parameters of a single model."""
    [member] = run.members

    def evaluate(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        run.move_to(torch.from_numpy(point)[None])
        try:
            [value], _ = run.evaluate()
        except FactorisationError:
            # The line search went too far; a high value, but finite, makes it turn back.
            return 1e10, np.zeros_like(point)
        return value, run.gradient()[0].cpu().numpy()

    def finish_step(intermediate_result: optimize.OptimizeResult) -> None:
        # The line search accepts the point it evaluated last, where the model still stands.
        run.finish_step([float(intermediate_result.fun)], run.gradient().norm(dim=1).tolist())

    run.finish_step(*run.evaluate())
    result = optimize.minimize(
        evaluate,
        run.position()[0].cpu().numpy(),
        jac=True,
        method="L-BFGS-B",
        callback=finish_step,
        options={"maxiter": settings.steps, "maxcor": settings.memory, "ftol": 0, "gtol": 0},
    )
    if result.nit < settings.steps:
        member.ended = "converged"
