"""The history of a training: its steps, and how they ended."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Literal

from sswim.files.records import LARGEST_FLOAT, Between
from sswim.files.sealed_files import require_that

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
