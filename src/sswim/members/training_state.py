"""The state of a training that can be saved and resumed."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from sswim.base.validation import UserError
from sswim.files.sealed_files import UNREADABLE, require_tensors, require_that


class CheckpointError(UserError):
    """A checkpoint that cannot be used."""


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
    """Restore an optimiser and its schedule from what :func:`pack_optimiser` returned.

    Everything is checked against the optimiser first: a wrong shape would end the interpreter in
    the fused step, without an error.

    Raises:
        ValueError: The state is not one of this optimiser.
    """
    state: dict[int, dict[str, Tensor]] = {}
    parameters = [each for group in optimiser.param_groups for each in group["params"]]
    for key, tensor in saved.tensors.items():
        kind, _, rest = key.partition(".")
        if kind == "optimiser":
            place, _, name = rest.partition(".")
            state.setdefault(int(place), {})[name] = tensor
    for number, entries in state.items():
        require_that(f"there is no parameter {number}", holds=0 <= number < len(parameters))
        like = parameters[number].detach()
        expected = {"step": like.new_zeros((), dtype=torch.float32)}
        require_tensors(entries, expected | dict.fromkeys(("exp_avg", "exp_avg_sq"), like))
        holds = bool((entries["exp_avg_sq"] >= 0).all()) and bool(entries["step"] >= 0)
        require_that("squares and steps of Adam must not be negative", holds=holds)
    groups, new_groups = saved.content["groups"], optimiser.state_dict()["param_groups"]
    require_that("groups differ in number", holds=len(groups) == len(new_groups))
    for group, new in zip(groups, new_groups, strict=True):
        _require_alike(group, new, ("lr", "betas"))
        require_numbers("rates", [group["lr"], *group["betas"]], len(new["betas"]) + 1)
        require_that("betas must lie below one", holds=max(group["betas"]) < 1)
    steps = saved.content["schedule"]
    _require_alike(steps, schedule.state_dict(), _SCHEDULE)
    require_numbers("rates", steps["_last_lr"], len(groups))
    last, total = steps["last_epoch"], getattr(schedule, "total_steps", LARGEST_COUNT)
    require_count("last_epoch", last, total)
    require_count("_step_count", steps["_step_count"], total + 1)
    optimiser.load_state_dict({"state": state, "param_groups": groups})
    schedule.load_state_dict(steps)


_SCHEDULE = ("last_epoch", "_step_count", "_last_lr", "_is_initial", "_get_lr_called_within_step")
"""Entries of a schedule that change with its steps; the last two only while it takes one."""

LARGEST_COUNT = 2**31 - 1
"""Largest number of steps."""


def require_numbers(name: str, values: Any, n: int) -> None:
    """Raise unless values are as many finite numbers as there must be, none of them negative."""
    is_list = isinstance(values, list) and len(values) == n
    if not (is_list and all(is_number(value) and value >= 0 for value in values)):
        raise ValueError(f"{name} must be {n} numbers that are not negative")


def require_count(name: str, value: Any, largest: int = LARGEST_COUNT) -> None:
    """Raise unless a value is an integer from zero to the largest."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= largest:
        raise ValueError(f"{name} must be an integer from 0 to {largest}")


def is_number(value: Any) -> bool:
    """Return whether a value from JSON is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _require_alike(found: Any, new: dict[str, Any], changing: Collection[str]) -> None:
    """Raise unless JSON is what a new state has, except for the entries that change."""
    expected = json.loads(json.dumps(new))
    require_that(
        "the optimiser has other entries",
        holds=isinstance(found, dict) and found.keys() == expected.keys(),
    )
    for name, value in expected.items():
        is_same = found[name] == value and type(found[name]) is type(value)
        require_that(f"{name!r} differs from this fit's", holds=name in changing or is_same)


@contextmanager
def resuming() -> Iterator[None]:
    """Raise a :class:`CheckpointError` about a state that is not one of this training."""
    try:
        yield
    except UNREADABLE as error:
        raise CheckpointError(
            f"A checkpoint must have the state of this training. Got another: {str(error)[:1000]}. "
            "Delete the checkpoint, and its members are trained again."
        ) from error
