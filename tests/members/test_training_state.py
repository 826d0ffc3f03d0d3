from __future__ import annotations

import copy
import json
from pathlib import Path

import torch
from builders.models import normal
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR

from sswim.members import Checkpoints
from sswim.members.checkpoints import StateStore, TrainingState, load_optimiser, pack_optimiser


def optimiser_of(parameter: nn.Parameter) -> tuple[torch.optim.Adam, OneCycleLR]:
    optimiser = torch.optim.Adam([parameter])
    return optimiser, OneCycleLR(optimiser, max_lr=0.1, total_steps=20)


def take_steps(
    parameter: nn.Parameter, optimiser: torch.optim.Adam, schedule: OneCycleLR, n_steps: int
) -> None:
    """Take steps towards zero."""
    for _ in range(n_steps):
        parameter.grad = parameter.detach().clone()
        optimiser.step()
        schedule.step()


def test_a_restored_optimiser_takes_the_same_steps(generator: torch.Generator) -> None:
    parameter = nn.Parameter(normal(generator, 5))
    optimiser, schedule = optimiser_of(parameter)
    take_steps(parameter, optimiser, schedule, 4)
    saved = copy.deepcopy(pack_optimiser(optimiser, schedule))
    saved = TrainingState(saved.tensors, json.loads(json.dumps(saved.content)))
    other = nn.Parameter(parameter.detach().clone())
    restored = optimiser_of(other)
    load_optimiser(saved, *restored)
    take_steps(parameter, optimiser, schedule, 6)
    take_steps(other, *restored, 6)
    assert torch.equal(other, parameter)
    assert restored[1].get_last_lr() == schedule.get_last_lr()


def test_states_are_joined() -> None:
    first = TrainingState({"a": torch.zeros(1)}, {"steps": 3})
    second = TrainingState({"b": torch.ones(1)}, {"groups": []})
    joined = first | second
    assert joined.tensors == first.tensors | second.tensors
    assert joined.content == {"steps": 3, "groups": []}


def test_a_checkpoint_file_returns_the_state_that_was_saved_last(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path).file("member")
    assert isinstance(store, StateStore)
    assert store.load() is None
    for steps in (1, 2):
        store.save(TrainingState({"a": torch.full((2,), float(steps))}, {"steps": steps}))
    found = store.load()
    assert found is not None
    assert found.content == {"steps": 2}
    assert torch.equal(found.tensors["a"], torch.full((2,), 2.0))
