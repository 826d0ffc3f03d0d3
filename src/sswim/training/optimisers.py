"""Settings of the optimisers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sswim.base.errors import UserError


@dataclass(frozen=True)
class Adam:
    """Adam with a one-cycle schedule: the default, robust for thousands of pseudo-parameters."""

    steps: int = 150
    learning_rate: float = 0.03
    """Largest learning rate of the cycle."""
    noise_rate: float = 1.0
    """Learning rate of the noise level over the others': it may fall by orders of magnitude."""
    growing: bool = False
    """Whether the first steps use few rows (``sswim.training.row_schedule``); needs memory."""

    def __post_init__(self) -> None:
        rates = (self.learning_rate, self.noise_rate)
        if self.steps < 0 or not all(0 < rate < math.inf for rate in rates):
            raise UserError(
                f"steps must not be negative, learning_rate and noise_rate positive. Got {self}."
            )


@dataclass(frozen=True)
class LBFGS:
    """L-BFGS with a line search; several evaluations of the objective per step."""

    steps: int = 100
    memory: int = 20
    """Number of past gradients that approximate the Hessian."""

    def __post_init__(self) -> None:
        if self.steps < 0 or self.memory < 1:
            raise UserError(f"steps must not be negative, memory at least 1. Got {self}.")
