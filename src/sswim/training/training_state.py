"""A training that is kept on the way, so that another can go on where it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor


@dataclass(frozen=True)
class TrainingState:
    """All that the steps to come depend on, besides the rows."""

    tensors: dict[str, Tensor]
    content: dict[str, Any]
    """What JSON can hold."""

    def __or__(self, other: TrainingState) -> TrainingState:
        return TrainingState(self.tensors | other.tensors, self.content | other.content)


@runtime_checkable
class StateStore(Protocol):
    """What keeps a training."""

    @property
    def every(self) -> int:
        """After how many steps the training is kept."""
        ...

    def load(self) -> TrainingState | None:
        """What was kept last; None if nothing was."""
        ...

    def save(self, kept: TrainingState) -> None:
        """Keep this instead of what was kept before."""
        ...


def pack_optimiser(
    optimiser: torch.optim.Optimizer, schedule: torch.optim.lr_scheduler.LRScheduler
) -> TrainingState:
    """The state of an optimiser and of its schedule."""
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
    kept: TrainingState,
    optimiser: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
) -> None:
    """Undo :func:`pack_optimiser`."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in kept.tensors.items():
        kind, *rest = key.split(".")
        if kind == "optimiser":
            number, name = rest
            state.setdefault(int(number), {})[name] = tensor
    optimiser.load_state_dict({"state": state, "param_groups": kept.content["groups"]})
    schedule.load_state_dict(kept.content["schedule"])
