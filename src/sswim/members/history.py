"""The history of a training: its steps, and how they ended."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import astuple, dataclass, field
from typing import Any, Literal, get_args

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
    progress: tuple[int, float] = (0, math.inf)
    """The step and value of the last clear improvement."""
    ended: Ending | None = None

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

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able form for ``from_dict``."""
        return {
            "history": [astuple(step) for step in self.history],
            "best": None if self.best is None else astuple(self.best),
            "progress": self.progress,
            "ended": self.ended,
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> MemberSteps:
        """Check and restore what ``to_dict`` returned.

        Raises:
            ValueError: The content comes from something else.
        """
        history = [_step(step) for step in content["history"]]
        best, ended = content["best"], content["ended"]
        last, value = content["progress"]
        if [step.index for step in history] != list(range(len(history))):
            raise ValueError("the steps of a history must be numbered from 0")
        if ended not in (None, *get_args(Ending)):
            raise ValueError(f"training cannot end by {ended!r}")
        if not isinstance(last, int) or not 0 <= last <= len(history) or math.isnan(value):
            raise ValueError("the last improvement must be one of the steps")
        if best is not None and _step(best) not in history:
            raise ValueError("the best step must be one of the steps")
        return cls(history, None if best is None else _step(best), (last, float(value)), ended)

    def training(self) -> Training:
        """Return the finished training."""
        assert self.best is not None
        return Training(tuple(self.history), self.best, self.ended or "steps")


def _step(content: Any) -> Step:
    """Check and restore one step."""
    step = Step(*content)
    numbers = (step.value, step.gradient_norm, step.seconds)
    if not isinstance(step.index, int) or not all(
        isinstance(number, int | float) and math.isfinite(number) for number in numbers
    ):
        raise ValueError("a step must have an index and three finite numbers")
    return step
