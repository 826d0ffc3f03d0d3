"""Batches: members of the same architecture as one model, trained by the same tensor operations."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from sswim.model.sswim import SSWIM


def stack_models(models: Sequence[SSWIM]) -> SSWIM:
    """Copy models into one batch with a new first axis, on the device of the first model."""
    if not models:
        raise ValueError("A batch needs at least one model. Got none.")
    first = models[0]
    if any(_shape(model) != _shape(first) for model in models):
        raise ValueError(
            "Models of a batch must have the same architecture and the same numbers of inputs and "
            "targets. Got models that differ; train these in separate batches."
        )
    stacked = _new_model(first, (len(models), *first.batch))
    states = [model.state_dict() for model in models]
    stacked.load_state_dict(
        {name: torch.stack([state[name] for state in states]) for name in states[0]}
    )
    return stacked


def unstack_models(model: SSWIM) -> list[SSWIM]:
    """Copy the models along the first axis of a batch into models of their own."""
    if not model.batch:
        raise ValueError("Only a batch of models can be taken apart. Got a single model.")
    state = model.state_dict()
    models = []
    for index in range(model.batch[0]):
        member = _new_model(model, model.batch[1:])
        member.load_state_dict({name: tensor[index] for name, tensor in state.items()})
        models.append(member)
    return models


def _shape(model: SSWIM) -> tuple[object, ...]:
    return model.architecture, model.n_inputs, model.n_targets, model.batch


def _new_model(like: SSWIM, batch: tuple[int, ...]) -> SSWIM:
    """Return a model of the same architecture on the same device, with other axes of members."""
    model = SSWIM(like.architecture, like.n_inputs, like.n_targets, batch)
    return model.to(like.log_noise.device)
