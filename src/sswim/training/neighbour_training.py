"""Training by neighbours: Adam on mini-batches of rows, given their neighbours.

The steps of the warps are less than half of those of length-scales, signal and noise, and gradients
are clipped: the density of a few rows in a steep part of a map has a gradient that would throw the
warps away. On a map, where each row says little about the warps, they are shorter still.

Before every pool, and at the end, the objective of the same few rows is compared with the best so
far. If it is much worse, or a step fails, training goes back to the best parameters, with shorter
steps.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sswim.base.cholesky import FactorisationError
from sswim.base.errors import UserError
from sswim.distributed.processes import ALONE, Processes
from sswim.model.sswim import SSWIM
from sswim.posterior.neighbour_index import MAP_INPUTS
from sswim.rows.rows import Rows
from sswim.training.history import MemberCallback, MemberSteps, Step, Training
from sswim.training.neighbour_objective import neighbour_objective
from sswim.training.neighbour_pool import Pool, PoolSource, step_of
from sswim.training.neighbour_state import read_neighbour_state
from sswim.training.training_state import (
    StateStore,
    TrainingState,
    load_optimiser,
    pack_optimiser,
    resuming,
)


@dataclass(frozen=True)
class MiniBatches:
    """Adam with a one-cycle schedule on mini-batches of rows."""

    steps: int = 200
    learning_rate: float = 0.1
    """Largest learning rate of length-scales, signal and noise, and of the scales of inputs."""
    warp_rate: float = 0.4
    """Learning rate of all other parameters, over that."""
    map_warp_rate: float = 0.1
    """The same ratio where there are at most three inputs, as on a map."""
    batch_rows: int | None = None
    """Number of rows of a step; None for 128, or for 256 from 4,000 rows on."""
    pool_steps: int = 40
    """Number of steps from one look-up of neighbours to the next."""
    largest_gradient: float = 0.3
    """Norm at which the gradient of each group of parameters is clipped."""
    tolerance: float = 0.3
    """How much worse than the best the objective of a check may be, in nats per row."""
    retries: int = 4
    """Number of times that training goes back to shorter steps before it gives up."""

    def __post_init__(self) -> None:
        if self.steps < 0 or not 0 < self.learning_rate < math.inf:
            raise UserError(f"steps must not be negative, and learning_rate positive. Got {self}.")


class NeighbourRun:
    """One training of a model by neighbours."""

    def __init__(
        self,
        model: SSWIM,
        rows: Rows,
        settings: MiniBatches,
        prior_weight: float,
        seed: int,
        processes: Processes,
    ) -> None:
        self.model, self.rows, self.settings = model, rows, settings
        self.prior_weight, self.processes = prior_weight, processes
        self.batch_rows = min(settings.batch_rows or (128 if len(rows) < 4000 else 256), len(rows))
        self.source = PoolSource(rows, seed, processes)
        self.pool: Pool | None = None
        self.member = MemberSteps()
        self.steps = 0
        self.rate = 1.0  # factor of all learning rates, smaller after a failure
        self.failures = 0
        self.kernel = [model.spectrum.log_length_scales, model.log_signal, model.log_noise]
        if model.log_degrees is not None:
            self.kernel.append(model.log_degrees)
        for layer in model.warp_layers():
            if layer.projection is not None:  # scales of inputs, in place of their length-scales
                self.kernel.append(layer.projection.log_scales)
        known = {id(parameter) for parameter in self.kernel}
        self.others = [p for p in model.parameters() if id(p) not in known]
        groups = [{"params": part} for part in (self.kernel, self.others) if part]
        ratio = settings.map_warp_rate if model.warped_dim <= MAP_INPUTS else settings.warp_rate
        rates = [settings.learning_rate, ratio * settings.learning_rate]
        self.optimiser = torch.optim.Adam(groups, lr=settings.learning_rate, fused=True)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimiser,
            max_lr=rates[: len(groups)],
            total_steps=max(settings.steps + 1, 6),  # five would divide by zero
            pct_start=0.2,
            div_factor=5,
            final_div_factor=20,
        )
        self.began = time.perf_counter()
        self.best = (math.inf, self._snapshot())

    def _snapshot(self) -> dict[str, Tensor]:
        return {name: tensor.clone() for name, tensor in self.model.state_dict().items()}

    def next_step(self) -> Pool:
        """Return the rows of the next step, from a new pool if the present one is used up."""
        size, n_steps = self.batch_rows, self.settings.pool_steps
        if self.pool is None or self.steps % n_steps == 0:
            self.check()
            n_steps = min(n_steps, self.settings.steps + 1 - self.steps)
            self.pool = self.source.draw(self.model, self.steps * size, n_steps * size)
        return step_of(self.pool, self.steps % self.settings.pool_steps, size)

    @torch.no_grad()
    def check(self) -> None:
        """Compare with the best parameters so far; go back to them if these are much worse."""
        rows = self.source.check(self.model)
        try:
            value = neighbour_objective(
                self.model, self.rows, rows, self.prior_weight, self.processes
            )
        except FactorisationError as error:
            if self.processes.size == 1:
                return self.go_back(error)
            value = self.model.log_noise.new_tensor(math.nan)  # all processes learn of it below
        if self.processes.size > 1:
            [value] = self.processes.all_sum_tensors([value.reshape(1)])
        number = value.item()
        if math.isfinite(number) and number <= self.best[0]:
            self.best = (number, self._snapshot())
        elif not number <= self.best[0] + self.settings.tolerance:
            return self.go_back(
                FactorisationError(
                    f"The objective rose from {self.best[0]:.4g} to {number:.4g}. Likely cause: "
                    "parameters that diverged. Lower the learning rate, or standardise the rows."
                )
            )
        return None

    def evaluate(self) -> tuple[float, float]:
        """Return the objective of the next rows and its gradient norm; parameters get gradients."""
        rows = self.next_step()
        self.model.zero_grad()
        try:
            objective = neighbour_objective(
                self.model, self.rows, rows, self.prior_weight, self.processes
            )
            objective.backward()
            value = objective.detach()
        except FactorisationError:
            if self.processes.size == 1:
                raise
            value = self.model.log_noise.new_tensor(math.nan)  # all processes learn of it below
        number = self._add_up(value)
        norms = [
            nn.utils.clip_grad_norm_(part, self.settings.largest_gradient)
            for part in (self.kernel, self.others)
            if part
        ]
        norm = torch.stack(norms).norm().item()
        if not (math.isfinite(number) and math.isfinite(norm)):
            raise FactorisationError(
                f"The objective and its gradient must be finite; they are {number} and {norm} at "
                f"step {self.steps}. Likely cause: parameters that diverged. Lower the learning "
                "rate, or standardise the rows."
            )
        return number, norm

    def _add_up(self, value: Tensor) -> float:
        """Add up objective and gradients over processes, each of which has some of the rows."""
        if self.processes.size == 1:
            return value.item()
        parameters = self.kernel + self.others
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        parts = [value.reshape(1), *(gradient.reshape(-1) for gradient in gradients)]
        [total] = self.processes.all_sum_tensors([torch.cat(parts)])
        total = self.processes.broadcast_tensor(total)  # the same to the last bit
        first, *summed = total.split([part.numel() for part in parts])
        for parameter, gradient in zip(parameters, summed, strict=True):
            parameter.grad = gradient.reshape(parameter.shape).clone()
        return first.item()

    def go_back(self, error: FactorisationError) -> None:
        """Return to the best parameters, with shorter steps; give up after too many failures."""
        self.failures += 1
        if self.failures > self.settings.retries:
            raise error
        self.model.load_state_dict(self.best[1])
        self.rate *= 0.3
        self.optimiser.state.clear()

    def move(self) -> None:
        """Take a step along the gradient."""
        for group in self.optimiser.param_groups:
            group["lr"] *= self.rate
        self.optimiser.step()
        for group in self.optimiser.param_groups:
            group["lr"] /= self.rate
        self.schedule.step()

    def finish_step(self, value: float, norm: float, callback: MemberCallback | None) -> None:
        """Record a step, and tell the callback of it."""
        step = Step(self.steps, value, norm, time.perf_counter() - self.began)
        self.member.history.append(step)
        self.member.best = step  # one batch of rows does not tell better from worse
        self.steps += 1
        stop = callback is not None and callback(0, step) is True
        if self.processes.any(stop):
            self.member.ended = "callback"

    def state(self) -> TrainingState:
        """Return the state between two steps."""
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in self.best[1].items()}
        if self.pool is not None:
            names = ("own", "neighbours", "present")
            tensors |= {f"pool.{name}": getattr(self.pool, name) for name in names}
        content = {
            "best": self.best[0],
            "steps": self.steps,
            "rate": self.rate,
            "failures": self.failures,
            "members": [self.member.to_dict()],
        }
        return TrainingState(tensors, content) | pack_optimiser(self.optimiser, self.schedule)

    def resume(self, saved: TrainingState) -> None:
        """Continue from the state of another run; nothing changes if it is not one of this.

        Raises:
            ValueError: The state is not one of this training.
        """
        found = read_neighbour_state(saved, self.model, len(self.rows), self.settings.retries)
        load_optimiser(saved, self.optimiser, self.schedule)
        self.model.load_state_dict(found.model)
        self.best, self.pool, self.member = found.best, found.pool, found.member
        self.rate, self.failures, self.steps = found.rate, found.failures, len(found.member.history)
        self.began -= found.member.history[-1].seconds


def train_by_neighbours(
    model: SSWIM,
    rows: Rows,
    settings: MiniBatches,
    *,
    prior_weight: float = 1.0,
    seed: int = 0,
    callback: MemberCallback | None = None,
    processes: Processes = ALONE,
    checkpoint: StateStore | None = None,
) -> Training:
    """Train a single model in place on the density of rows given their neighbours.

    The same start and seed give the same result.

    Args:
        model: A model that predicts by neighbours, on the device of the rows.
        rows: All rows, the same in every process.
        settings: Number and size of the steps.
        prior_weight: Weight of the prior of the warps.
        seed: Seed of the order of the rows.
        callback: Called with 0 and each step; returning True ends the training.
        processes: The processes that train the model together.
        checkpoint: Where the training is saved as it goes, and resumed from.
    """
    run = NeighbourRun(model, rows, settings, prior_weight, seed, processes)
    saved = None if checkpoint is None else checkpoint.load()
    if saved is not None:
        with resuming():
            run.resume(saved)
    if run.member.ended is not None and callback is not None:
        callback(0, run.member.history[-1])
    while run.member.ended is None:
        try:
            value, norm = run.evaluate()
        except FactorisationError as error:
            run.go_back(error)
            continue
        run.finish_step(value, norm, callback)
        if run.steps > settings.steps:
            run.check()
            run.member.ended = run.member.ended or "steps"
        else:
            run.move()
        due = checkpoint is not None and run.steps % checkpoint.every == 0
        if checkpoint is not None and (due or run.member.ended):
            checkpoint.save(run.state())
    model.zero_grad()
    return run.member.training()
