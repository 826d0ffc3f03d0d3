"""The state of a training that can be saved and resumed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor


@dataclass(frozen=True)
class TrainingState:
    """Everything that later steps depend on besides the rows."""

    tensors: dict[str, Tensor]
    content: dict[str, Any]
    """The part that JSON can hold."""

    def __or__(self, other: TrainingState) -> TrainingState:
        return TrainingState(self.tensors | other.tensors, self.content | other.content)


@runtime_checkable
class StateStore(Protocol):
    """A place where the state of one training is saved."""

    @property
    def every(self) -> int:
        """Number of steps from one save to the next."""
        ...

    def load(self) -> TrainingState | None:
        """Return the state that was saved last; None if there is none."""
        ...

    def save(self, state: TrainingState) -> None:
        """Replace the saved state."""
        ...


def pack_optimiser(
    optimiser: torch.optim.Optimizer, schedule: torch.optim.lr_scheduler.LRScheduler
) -> TrainingState:
    """Return the state of an optimiser and its schedule."""
    state = optimiser.state_dict()
    tensors = {
        f"optimiser.{number}.{name}": tensor
        for number, entries in state["state"].items()
        for name, tensor in entries.items()
    }
    return TrainingState(
        tensors, {"groups": state["param_groups"], "schedule": dict(schedule.state_dict())}
    )


def load_optimiser(
    saved: TrainingState,
    optimiser: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
) -> None:
    """Restore an optimiser and its schedule from what :func:`pack_optimiser` returned."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in saved.tensors.items():
        kind, *rest = key.split(".")
        if kind == "optimiser":
            number, name = rest
            state.setdefault(int(number), {})[name] = tensor
    optimiser.load_state_dict({"state": state, "param_groups": saved.content["groups"]})
    schedule.load_state_dict(saved.content["schedule"])
