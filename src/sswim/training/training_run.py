"""One training: it evaluates the objective and keeps histories and best parameters."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.cholesky import FactorisationError
from sswim.base.stored_tensors import require_tensors
from sswim.distributed.processes import Processes
from sswim.model.parameter_checks import check_parameters
from sswim.model.sswim import SSWIM
from sswim.rows.rows import Rows
from sswim.training.cuda_graph import RecordedStep
from sswim.training.history import MemberCallback, MemberSteps, Step, Stopping
from sswim.training.objective import Objective, backward
from sswim.training.training_state import TrainingState


class StopTraining(Exception):  # noqa: N818 (not an error)
    """Raised to end an optimiser from within a step."""


@dataclass
class TrainingRun:
    """The state of one training of a model or of a batch of members."""

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
        stopping = self.stopping if self.rows is self.last_rows else None  # not before all rows
        better = [n for n in running if self.members[n].finish_step(steps[n], stopping)]
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
        members = [member.to_dict() for member in self.members]
        return TrainingState(tensors, {"steps": self.steps, "members": members})

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
        best_state = {name: part.reshape(each.shape) for (name, each), part in named}
        for each in (state, state | best_state):
            check_parameters(each, self.model)
        members = [MemberSteps.from_dict(each) for each in saved.content["members"]]
        steps = saved.content["steps"]
        if len(members) != len(self.members):
            raise ValueError(f"{len(members)} members in place of {len(self.members)}")
        if steps != max(len(member.history) for member in members):
            raise ValueError(f"{steps!r} steps, but a history of others")
        self.model.load_state_dict(state)
        self.best_position = best.to(self.best_position.device)
        self.members, self.steps = members, int(steps)
        self.began -= max(member.history[-1].seconds for member in self.members)

    def restore_best(self) -> None:
        """Set the model to the best parameters seen."""
        self.move_to(self.best_position)
        self.model.zero_grad()
