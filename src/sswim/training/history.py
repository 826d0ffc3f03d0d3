"""The steps of a training: what is known after each, and when they end."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import astuple, dataclass, field
from typing import Any, Literal


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
    """How training of one member went; it has the parameters of its best step.

    Where the rows grew in number, that is the best of those on the last of them.
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
    """The steps of one member so far, and how they end."""

    history: list[Step] = field(default_factory=list)
    best: Step | None = None
    progress: tuple[int, float] = (0, math.inf)
    """The step and value of the last clear improvement."""
    ended: Ending | None = None

    def finish_step(self, step: Step, stopping: Stopping | None) -> bool:
        """Record a step, after which it may end; whether it is the best so far."""
        self.history.append(step)
        if stopping is not None:
            if step.value < self.progress[1] - stopping.tolerance:
                self.progress = (step.index, step.value)
            if step.index - self.progress[0] >= stopping.patience:
                self.ended = "converged"
        better = self.best is None or step.value < self.best.value
        if better:
            self.best = step
        return better

    def begin_again(self) -> None:
        """Compare later steps with each other alone."""
        self.best, self.progress = None, (len(self.history), math.inf)

    def to_dict(self) -> dict[str, Any]:
        """What JSON can hold, and ``from_dict`` takes back."""
        return {
            "history": [astuple(step) for step in self.history],
            "best": None if self.best is None else astuple(self.best),
            "progress": self.progress,
            "ended": self.ended,
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> MemberSteps:
        """Take back what ``to_dict`` gave."""
        best = content["best"]
        return cls(
            [Step(*step) for step in content["history"]],
            None if best is None else Step(*best),
            (int(content["progress"][0]), float(content["progress"][1])),
            content["ended"],
        )

    def training(self) -> Training:
        """How it went."""
        assert self.best is not None
        return Training(tuple(self.history), self.best, self.ended or "steps")
