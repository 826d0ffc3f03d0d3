"""Training the members of an ensemble on standardised rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from sklearn.utils import check_random_state
from torch import Tensor

from sswim.chunking import members_together
from sswim.members import stack, unstack
from sswim.model import SSWIM, Architecture, start
from sswim.noise_learning import learn_noise
from sswim.objective import Objective
from sswim.rows import Rows
from sswim.training import (
    Adam,
    MemberCallback,
    Step,
    Training,
    resolve_device,
    train_batch,
)

START_SAMPLE_ROWS = 50_000
"""Rows looked at to start length-scales and pseudo-points."""

RandomState = int | np.random.RandomState | None


def train_members(
    n_members: int,
    architecture: Architecture,
    rows: Rows,
    objective: Objective,
    optimiser: Adam,
    random_state: RandomState,
    length_scale: float | None,
    device: str,
    callback: MemberCallback,
) -> tuple[list[SSWIM], list[Training]]:
    """Train members, each from draws of its own and as it would be alone.

    As many as is fast are trained together, and so on until all are. A callback that returns True
    ends the training of those, and no further ones are trained. Input-dependent noise is learnt
    last.
    """
    random = check_random_state(random_state)
    constant = replace(architecture, noise="constant")
    place = resolve_device(device)
    placed = rows.to(device=place)
    size = members_together(constant, placed, n_members)
    models: list[SSWIM] = []
    trainings: list[Training] = []
    for first in range(0, n_members, size):
        started: list[SSWIM] = []
        for _ in range(min(size, n_members - first)):
            generator = draw_generator(random)
            sample = start_sample(rows, generator)
            started.append(start(constant, sample, rows.targets.shape[1], generator, length_scale))

        def after_step(number: int, step: Step, first: int = first) -> object:
            return callback(first + number, step)

        # A single model is faster than a batch of one.
        batch = started[0] if len(started) == 1 else stack(started)
        trainings += train_batch(
            batch, placed, objective, optimiser, callback=after_step, device=place
        )
        models += unstack(batch) if batch.batch else started
        if any(training.ended == "callback" for training in trainings):
            break
    if architecture.noise == "input-dependent":
        models = learn_noise(models, placed, sample, generator)
    return models, trainings


@contextmanager
def shown_progress(
    verbose: bool, n_members: int, n_steps: int, callback: MemberCallback | None
) -> Iterator[MemberCallback]:
    """What to call after every step: the progress bar if verbose, and the user's callback."""
    callback = callback or (lambda member, step: None)
    if not verbose:
        yield callback
        return
    from sswim.progress import training_progress  # noqa: PLC0415 (rich is not needed to fit)

    with training_progress(n_members, n_steps) as show:

        def both(member: int, step: Step) -> object:
            show(member, step)
            return callback(member, step)

        yield both


def draw_generator(random_state: RandomState) -> torch.Generator:
    """PyTorch's generator from scikit-learn's random state."""
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    return torch.Generator().manual_seed(seed)


def start_sample(rows: Rows, generator: torch.Generator) -> Float[Tensor, "S D"]:
    """Distinct rows that count, in an order of their own.

    So that a row of weight two is the row twice, and the order of rows does not matter.
    """
    inputs = rows.inputs.mean if rows.weight is None else rows.inputs.mean[rows.weight > 0]
    if len(inputs) > START_SAMPLE_ROWS:
        inputs = inputs[torch.randperm(len(inputs), generator=generator)[:START_SAMPLE_ROWS]]
    return inputs.unique(dim=0)
