"""Training: an optimiser on the exact gradient of the objective over all rows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import optimize
from torch import Tensor
from torch.nn.utils import parameters_to_vector

from sswim.factorisation import FactorisationError
from sswim.model import SSWIM
from sswim.objective import MAP, Objective, backward
from sswim.rows import Rows


@dataclass(frozen=True)
class Adam:
    """Adam with a one-cycle schedule: the default, robust on thousands of pseudo-parameters."""

    steps: int = 150
    learning_rate: float = 0.03
    """The highest of the cycle."""

    def __post_init__(self) -> None:
        if self.steps < 0 or self.learning_rate <= 0:
            raise ValueError(f"steps must not be negative, learning_rate positive. Got {self}.")


@dataclass(frozen=True)
class LBFGS:
    """L-BFGS with a line search; several evaluations of the objective per step."""

    steps: int = 100
    memory: int = 20
    """How many past gradients the approximate Hessian is made of."""

    def __post_init__(self) -> None:
        if self.steps < 0 or self.memory < 1:
            raise ValueError(f"steps must not be negative, memory at least 1. Got {self}.")


@dataclass(frozen=True)
class Stopping:
    """End early when ``patience`` steps have not improved the objective by ``tolerance``."""

    patience: int = 50
    tolerance: float = 1e-6
    """In nats per row."""


@dataclass(frozen=True)
class Step:
    """What is known after a step."""

    index: int
    value: float
    """The objective, in nats per row."""
    gradient_norm: float
    seconds: float
    """Since training began."""


Ending = Literal["steps", "converged", "callback"]


@dataclass(frozen=True)
class Training:
    """How training went; the model has the parameters of its best step."""

    history: tuple[Step, ...]
    best: Step
    ended: Ending


Callback = Callable[[Step], object]
"""Called after every step; returning True ends the training."""


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
) -> Training:
    """Train a model in place; it ends with the parameters of its best step, however it ends.

    Nothing here is random: the same start gives the same result.

    Args:
        model: Started by :func:`sswim.model.start`; moved to the device.
        rows: Rows in memory (moved to the device), or chunks on the device in any iterable that can
            be started again.
        objective: What to minimise.
        optimiser: ``Adam()`` by default.
        stopping: When to end before the last step.
        callback: Called after every step.
        device: ``"auto"`` is CUDA where there is one.
        chunk_rows: See :func:`sswim.objective.backward`.
    """
    optimiser = optimiser or Adam()
    place = resolve_device(device)
    model.to(place)
    if isinstance(rows, Rows):
        rows = rows.to(device=place)
    run = _Run(model, rows, objective, chunk_rows, stopping or Stopping(), callback)
    try:
        ended = _adam(run, optimiser) if isinstance(optimiser, Adam) else _lbfgs(run, optimiser)
    except _Stop as stop:
        ended = stop.reason
    finally:
        run.restore_best()
    assert run.best is not None
    return Training(tuple(run.history), run.best, ended)


def resolve_device(device: str | torch.device) -> torch.device:
    """A device from its name; ``"auto"`` is CUDA where there is one, and the CPU elsewhere."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(device)


class _Stop(Exception):  # noqa: N818 (not an error)
    """Ends an optimiser from within."""

    def __init__(self, reason: Ending) -> None:
        self.reason = reason


@dataclass
class _Run:
    """One training: evaluates the objective, keeps the history and the best parameters."""

    model: SSWIM
    rows: Rows | Iterable[Rows]
    objective: Objective
    chunk_rows: int | None
    stopping: Stopping
    callback: Callback | None
    history: list[Step] = field(default_factory=list)
    best: Step | None = None

    def __post_init__(self) -> None:
        self.parameters = list(self.model.parameters())
        self.best_position = self.position()
        self.began = time.perf_counter()
        self.progress = (0, math.inf)  # the step and value of the last clear improvement

    def evaluate(self) -> float:
        """The objective at the model's parameters, with its gradient in them."""
        self.model.zero_grad()
        value = backward(self.model, self.rows, self.objective, self.chunk_rows)
        if not math.isfinite(value):
            raise FactorisationError(
                f"The objective must be finite; it is {value} at step {len(self.history)}. Likely "
                "cause: parameters that diverged. Lower the learning rate, or standardise the rows."
            )
        return value

    def gradient(self) -> Tensor:
        """The gradient of the last evaluation, flattened."""
        gradients = [p.new_zeros(p.shape) if p.grad is None else p.grad for p in self.parameters]
        return parameters_to_vector(gradients)

    def position(self) -> Tensor:
        """The parameters, flattened."""
        return parameters_to_vector(self.parameters).detach()

    @torch.no_grad()
    def move_to(self, position: Tensor) -> None:
        """Set the parameters from a flattened vector."""
        parts = position.split([parameter.numel() for parameter in self.parameters])
        for parameter, part in zip(self.parameters, parts, strict=True):
            parameter.copy_(part.view_as(parameter))

    def finish_step(self, value: float) -> None:
        """Record a step whose objective and gradient have been evaluated; may raise _Stop."""
        norm = self.gradient().norm().item()
        step = Step(len(self.history), value, norm, time.perf_counter() - self.began)
        self.history.append(step)
        if self.best is None or value < self.best.value:
            self.best, self.best_position = step, self.position()
        if value < self.progress[1] - self.stopping.tolerance:
            self.progress = (step.index, value)
        if self.callback is not None and self.callback(step) is True:
            raise _Stop("callback")
        if step.index - self.progress[0] >= self.stopping.patience:
            raise _Stop("converged")

    def restore_best(self) -> None:
        """Give the model the best parameters seen."""
        self.move_to(self.best_position)
        self.model.zero_grad()


def _adam(run: _Run, settings: Adam) -> Ending:
    optimiser = torch.optim.Adam(run.parameters, lr=settings.learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, max_lr=settings.learning_rate, total_steps=settings.steps + 1
    )
    run.finish_step(run.evaluate())
    for _ in range(settings.steps):
        optimiser.step()
        schedule.step()
        run.finish_step(run.evaluate())
    return "steps"


def _lbfgs(run: _Run, settings: LBFGS) -> Ending:
    """SciPy's L-BFGS-B on the flattened parameters."""

    def evaluate(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        run.move_to(torch.from_numpy(point))
        try:
            value = run.evaluate()
        except FactorisationError:
            # The line search went too far; a high value, but finite, makes it turn back.
            return 1e10, np.zeros_like(point)
        return value, run.gradient().cpu().numpy()

    def finish_step(intermediate_result: optimize.OptimizeResult) -> None:
        # The line search accepts the point it evaluated last, where the model still stands.
        run.finish_step(float(intermediate_result.fun))

    run.finish_step(run.evaluate())
    result = optimize.minimize(
        evaluate,
        run.position().cpu().numpy(),
        jac=True,
        method="L-BFGS-B",
        callback=finish_step,
        options={"maxiter": settings.steps, "maxcor": settings.memory, "ftol": 0, "gtol": 0},
    )
    return "steps" if result.nit >= settings.steps else "converged"
