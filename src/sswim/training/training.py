"""Training: an optimiser on the exact gradient of the objective over all rows."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from sswim.base.devices import resolve_device
from sswim.distributed.processes import ALONE, Processes
from sswim.model.sswim import SSWIM
from sswim.rows.rows import Rows
from sswim.training.history import Callback, MemberCallback, Stopping, Training
from sswim.training.objective import MAP, Objective
from sswim.training.optimisation import run_adam, run_lbfgs
from sswim.training.optimisers import LBFGS, Adam
from sswim.training.training_run import StopTraining, TrainingRun
from sswim.training.training_state import StateStore


def train(
    model: SSWIM,
    rows: Rows | Iterable[Rows],
    objective: Objective = MAP,
    optimiser: Adam | LBFGS | None = None,
    *,
    stopping: Stopping | None = None,
    callback: Callback | None = None,
    device: str | torch.device = "auto",
    chunk_rows: int | None = None,
    processes: Processes = ALONE,
    checkpoint: StateStore | None = None,
) -> Training:
    """Train a model in place; it ends with the parameters of its best step, however it ends.

    Training is not random: the same start gives the same result.

    Args:
        model: Started by :func:`sswim.start`; moved to the device. Not a batch.
        rows: Rows in memory (moved to the device), or chunks on the device in any iterable that can
            be restarted.
        objective: What to minimise.
        optimiser: ``Adam()`` by default.
        stopping: Rule for ending before the last step.
        callback: Called after every step.
        device: ``"auto"`` is CUDA where there is one.
        chunk_rows: See ``sswim.training.objective.backward``.
        processes: The processes that train the model together, each with its own rows.
        checkpoint: Where the training is saved as it goes, and resumed from.
    """
    if model.batch:
        raise ValueError(
            f"train takes a single model. Got a batch {model.batch}; use train_batch, which "
            "returns the training of each member."
        )
    after_step = None if callback is None else lambda _, step: callback(step)
    [training] = train_batch(
        model,
        rows,
        objective,
        optimiser,
        stopping=stopping,
        callback=after_step,
        device=device,
        chunk_rows=chunk_rows,
        processes=processes,
        checkpoint=checkpoint,
    )
    return training


def train_batch(
    model: SSWIM,
    rows: Rows | Iterable[Rows],
    objective: Objective = MAP,
    optimiser: Adam | LBFGS | None = None,
    *,
    stopping: Stopping | None = None,
    callback: MemberCallback | None = None,
    device: str | torch.device = "auto",
    chunk_rows: int | None = None,
    processes: Processes = ALONE,
    checkpoint: StateStore | None = None,
) -> list[Training]:
    """Train a batch of members together, each as it would be alone; see :func:`train`.

    A member that no longer improves waits at its best parameters for the others. The callback is
    called for every member after each of its steps, and can end the training of all.

    Args:
        model: A batch made by ``sswim.model.member_batch.stack_models``, or a single model.
        rows: Rows shared by all members, or with the axes of members in front.
        objective: What to minimise.
        optimiser: ``Adam()`` by default; ``LBFGS`` takes a single model.
        stopping: Rule for ending a member before the last step.
        callback: Called with the number of a member and its step.
        device: ``"auto"`` is CUDA where there is one.
        chunk_rows: See ``sswim.training.objective.backward``.
        processes: The processes that train the members together, each with its own rows.
        checkpoint: Where the training is saved as it goes, and resumed from; Adam only.
    """
    optimiser = optimiser or Adam()
    if checkpoint is not None and isinstance(optimiser, LBFGS):
        raise ValueError("L-BFGS cannot be resumed from a checkpoint. Use Adam, or no checkpoint.")
    if model.batch and isinstance(optimiser, LBFGS):
        raise ValueError(
            f"L-BFGS trains a single model, because all parameters share one line search. Got "
            f"a batch {model.batch}; use Adam, or train its members one by one."
        )
    place = resolve_device(device)
    model.to(place)
    if isinstance(rows, Rows):
        rows = rows.to(device=place)
    run = TrainingRun(
        model, rows, objective, chunk_rows, stopping or Stopping(), callback, processes
    )
    try:
        if isinstance(optimiser, Adam):
            run_adam(run, optimiser, checkpoint)
        else:
            run_lbfgs(run, optimiser)
    except StopTraining:
        pass
    finally:
        run.restore_best()
    return [member.training() for member in run.members]
