"""Members of one architecture as one model, so that a single tensor program trains them all."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from sswim.model.sswim import SSWIM


def stack(models: Sequence[SSWIM]) -> SSWIM:
    """A batch of copies of models, along a new first axis; on the device of the first."""
    if not models:
        raise ValueError("A batch needs at least one model. Got none.")
    first = models[0]
    if any(_shape(model) != _shape(first) for model in models):
        raise ValueError(
            "Models of a batch must have the same architecture and the same numbers of inputs and "
            "targets. Train those that differ in batches of their own."
        )
    stacked = _empty(first, (len(models), *first.batch))
    states = [model.state_dict() for model in models]
    stacked.load_state_dict(
        {name: torch.stack([state[name] for state in states]) for name in states[0]}
    )
    return stacked


def unstack(model: SSWIM) -> list[SSWIM]:
    """Copies of the models along the first axis of a batch."""
    if not model.batch:
        raise ValueError("Only a batch of models can be taken apart. Got a single model.")
    state = model.state_dict()
    models = []
    for index in range(model.batch[0]):
        member = _empty(model, model.batch[1:])
        member.load_state_dict({name: tensor[index] for name, tensor in state.items()})
        models.append(member)
    return models


def _shape(model: SSWIM) -> tuple[object, ...]:
    return model.architecture, model.n_inputs, model.n_targets, model.batch


def _empty(like: SSWIM, batch: tuple[int, ...]) -> SSWIM:
    model = SSWIM(like.architecture, like.n_inputs, like.n_targets, batch)
    return model.to(like.log_noise.device)
