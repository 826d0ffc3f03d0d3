"""The loops of Adam and L-BFGS over the steps of a training."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import optimize

from sswim.base.cholesky import FactorisationError
from sswim.base.errors import UserError
from sswim.rows.rows import Rows
from sswim.training.optimisers import LBFGS, Adam
from sswim.training.row_schedule import growing
from sswim.training.training_run import TrainingRun
from sswim.training.training_state import StateStore, load_optimiser, pack_optimiser, resuming


def run_adam(run: TrainingRun, settings: Adam, checkpoint: StateStore | None) -> None:
    """Take the steps of Adam with a one-cycle schedule, from a checkpoint if there is one."""
    noise = run.model.log_noise
    others = [parameter for parameter in run.parameters if parameter is not noise]
    rates = [settings.learning_rate, settings.noise_rate * settings.learning_rate]
    groups = [{"params": parameters} for parameters in (others, [noise])]
    # One call for all parameters, where there are many of them and most are small.
    optimiser = torch.optim.Adam(groups, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, max_lr=rates, total_steps=settings.steps + 1
    )

    def save() -> None:
        assert checkpoint is not None
        checkpoint.save(run.state() | pack_optimiser(optimiser, schedule))

    saved = None if checkpoint is None else checkpoint.load()
    if saved is not None:
        with resuming():
            run.resume(saved)
            load_optimiser(saved, optimiser, schedule)
        if all(member.ended for member in run.members):
            run.report_last_steps()
            return
    begin = run.steps
    for number, rows in enumerate(_rows_of_steps(run, settings)):
        if number > begin:
            optimiser.step()
            schedule.step()
            run.restore_ended()
            if checkpoint is not None and number % checkpoint.every == 0:
                save()
        if number < begin:
            run.rows = rows  # the rows of steps before the checkpoint
        else:
            run.use_rows(rows)
            run.finish_step(*run.evaluate())
    for member in run.members:
        member.ended = member.ended or "steps"
    if checkpoint is not None:
        save()


def _rows_of_steps(run: TrainingRun, settings: Adam) -> Iterable[Rows | Iterable[Rows]]:
    """Return the rows that each step uses."""
    if not settings.growing:
        return repeat(run.rows, settings.steps + 1)
    if not isinstance(run.rows, Rows) or run.processes.size > 1:
        raise UserError(
            "growing=True needs all rows in the memory of one process. Got chunks of rows, or "
            "several processes."
        )
    return growing(run.rows, settings.steps + 1)


def run_lbfgs(run: TrainingRun, settings: LBFGS) -> None:
    """Run SciPy's L-BFGS-B on the flattened parameters of a single model."""
    [member] = run.members

    def evaluate(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        run.move_to(torch.from_numpy(point)[None])
        try:
            [value], _ = run.evaluate()
        except FactorisationError:
            # The line search went too far; a high but finite value makes it turn back.
            return 1e10, np.zeros_like(point)
        return value, run.gradient()[0].cpu().numpy()

    def finish_step(intermediate_result: optimize.OptimizeResult) -> None:
        # The line search accepts the point it evaluated last, where the model still stands.
        run.finish_step([float(intermediate_result.fun)], run.gradient().norm(dim=1).tolist())

    run.finish_step(*run.evaluate())
    result = optimize.minimize(
        evaluate,
        run.position()[0].cpu().numpy(),
        jac=True,
        method="L-BFGS-B",
        callback=finish_step,
        options={"maxiter": settings.steps, "maxcor": settings.memory, "ftol": 0, "gtol": 0},
    )
    if result.nit < settings.steps:
        member.ended = "converged"
