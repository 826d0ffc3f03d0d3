"""Training the members of an ensemble on standardised rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from sklearn.utils import check_random_state
from torch import Tensor

from sswim.model import SSWIM, Architecture, start
from sswim.noise_learning import learn_noise
from sswim.objective import Objective
from sswim.rows import Rows
from sswim.training import Adam, Step, Training, resolve_device, train

START_SAMPLE_ROWS = 50_000
"""Rows looked at to start length-scales and pseudo-points."""

RandomState = int | np.random.RandomState | None
MemberCallback = Callable[[int, Step], object]
"""Called with the number of a member and each of its training steps."""


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
    """Train members one after the other, each from draws of its own.

    A callback that returns True ends the member's training, and no further member is trained.
    Input-dependent noise is learnt last, for all members together.
    """
    random = check_random_state(random_state)
    constant = replace(architecture, noise="constant")
    place = resolve_device(device)
    placed = rows.to(device=place)
    models: list[SSWIM] = []
    trainings: list[Training] = []
    for member in range(n_members):
        generator = draw_generator(random)
        sample = start_sample(rows, generator)
        model = start(constant, sample, rows.targets.shape[1], generator, length_scale)

        def after_step(step: Step, member: int = member) -> object:
            return callback(member, step)

        trainings.append(
            train(model, placed, objective, optimiser, callback=after_step, device=place)
        )
        models.append(model)
        if trainings[-1].ended == "callback":
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
