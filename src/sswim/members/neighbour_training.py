"""Training by neighbours: Adam on mini-batches of rows, given their neighbours.

The objective is the density of rows given their neighbours. Every row is predicted without itself,
so this is a leave-one-out criterion, and an unbiased estimate of it from a few rows costs the same
however many there are.

Neighbours are looked up for a whole pool of rows at once, and again for the next pool, because the
warped space moves. A map or a series may have gaps, and hyper-parameters that have seen only the
nearest rows know nothing of larger distances. So, with few inputs, some rows find their neighbours
in a random choice of few rows, as if there were a gap around them.

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
from operator import itemgetter
from typing import Annotated

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor, nn

from sswim.base.cholesky import FactorisationError
from sswim.base.record import Record, concatenate, map_chunks, rows_at_once
from sswim.base.validation import UserError
from sswim.distributed.processes import ALONE, Processes
from sswim.files.records import (
    LARGEST_FLOAT,
    Between,
    from_json,
    from_tensors,
    require_all_taken,
    take_part,
    to_json,
    to_tensors,
)
from sswim.files.sealed_files import require_that
from sswim.members.checkpoints import (
    MemberCallback,
    MemberSteps,
    StateStore,
    Step,
    Training,
    TrainingState,
    load_optimiser,
    pack_optimiser,
    resuming,
)
from sswim.members.model import SSWIM, Factors, check_parameters, kernel_points
from sswim.members.neighbourhood import (
    MAP_INPUTS,
    Neighbourhoods,
    NeighbourIndex,
    neighbour_log_density,
    observe_neighbours,
    thinned,
)
from sswim.rows.rows import Rows
from sswim.search import TREE_DIMENSIONS


def neighbour_objective(
    model: SSWIM,
    rows: Rows,
    step: Pool,
    prior_weight: float = 1.0,
    processes: Processes = ALONE,
) -> Float64[Tensor, ""]:
    """Return −E log p(y(x) | neighbours) − (log prior)/N in nats per row, differentiable.

    With several processes it is this process's part of the sum.

    Args:
        model: A single model.
        rows: All rows.
        step: Some of them, and their neighbours.
        prior_weight: Weight of the prior of the warps.
        processes: The processes that each take some rows of the step.
    """
    factors, prior = model.factors()
    n_rows = step.present.any(-1).sum().clamp(min=1)
    mean_weight = 1.0 if rows.weight is None else rows.weight.mean()
    total_weight = len(rows) * mean_weight
    value = (prior_weight * prior.warps + prior.density) / total_weight
    if not processes.is_first:
        value = value * 0
    mine = step.map(itemgetter(slice(*processes.share.span(len(step.own)))))
    if len(mine.own) == 0:
        return value
    losses = _losses(model, factors, rows, mine)
    return value + losses.sum() / (n_rows * mean_weight)


def _losses(model: SSWIM, factors: Factors, rows: Rows, step: Pool) -> Float64[Tensor, " B"]:
    """Return −c·log p(y(x) | neighbours) of rows; zero for a row without neighbours."""
    together = torch.cat((step.neighbours, step.own[:, None]), dim=1)
    used, place = together.unique(return_inverse=True)  # rows share neighbours
    taken = rows.take(used)
    seen = observe_neighbours(factors, taken, model.noise() / model.signal())
    ridge = seen.ridge[place]
    if taken.weight is not None:  # the row itself is one observation
        own = ridge[:, -1:] * taken.weight[place[:, -1]][:, None, None]
        ridge = torch.cat((ridge[:, :-1], own), dim=1)
    points = seen.points[place]
    neighbourhoods = Neighbourhoods(
        points - points[:, -1:],
        None if seen.variance is None else seen.variance[place],
        seen.targets[place],
        ridge,
        torch.nn.functional.pad(step.present.to(torch.float64), (0, 1), value=1.0),
    )
    log_slope = seen.log_slope[place[:, -1]]
    density = neighbour_log_density(
        neighbourhoods,
        model.architecture.kernel,
        model.signal(),
        model.degrees(),
        (model.resolution * log_slope.detach().exp()).square() / 12,
    )
    losses = -torch.where(step.present.any(-1), (density + log_slope).sum(-1), 0.0)
    return losses if taken.weight is None else losses * taken.weight[place[:, -1]]


N_NEIGHBORS = 32
"""Largest number of neighbours in training; predictions may have more."""

MAX_CANDIDATES = {"few inputs": 2**20, "many inputs": 2**16, "gpu": 2**20}
"""Largest number of rows among which neighbours are looked up, so that a step costs the same
however many rows there are."""

CHECK_ROWS, CHECK_SEED = 512, 2**40
"""Number of rows by which one pool's end is compared with another's, and their seed."""

EXTRA = 8
"""Neighbours that are looked up beyond those needed, in place of a row's own copies."""

MAP_SPACINGS = ((1, 0.9), (64, 0.1))
"""(one row in n is a candidate, share of the rows of a pool), for maps."""


@dataclass(frozen=True)
class Pool(Record):
    """Rows of the next steps and their neighbours, as numbers of rows."""

    own: Int64[Tensor, " P"]
    neighbours: Int64[Tensor, "P m"]
    present: Bool[Tensor, "P m"]
    """False for the place of a missing neighbour."""


class PoolSource:
    """Draws pools of rows, each row as often as the others."""

    def __init__(self, rows: Rows, seed: int, processes: Processes = ALONE) -> None:
        """Draw from rows.

        Args:
            rows: All rows, the same in every process.
            seed: Seed of the order of the rows.
            processes: The processes that draw together; each looks for neighbours in some rows.
        """
        self.rows, self.seed, self.processes = rows, seed, processes

    @torch.no_grad()
    def draw(self, model: SSWIM, begin: int, size: int) -> Pool:
        """Return the rows from a place on in the order of all rows, and their neighbours.

        Neighbours are looked up in the present warped space of the model.
        """
        generator = self._generator(begin)
        own = self._own(begin, size).to(self.rows.targets.device)
        spacings = MAP_SPACINGS if model.warped_dim <= MAP_INPUTS else ((1, 1.0),)
        sizes = _sizes(size, spacings)
        pools = [
            self._look_up(model, part, spacing, generator)
            for part, (spacing, _) in zip(own.split(sizes), spacings, strict=True)
        ]
        joined = concatenate(pools)
        order = torch.randperm(size, generator=generator)  # every step has rows of all spacings
        return joined.map(lambda tensor: tensor[order.to(tensor.device)])

    @torch.no_grad()
    def check(self, model: SSWIM) -> Pool:
        """Return rows that are the same in every check, and their neighbours as they are now."""
        generator = self._generator(CHECK_SEED)
        own = torch.randperm(len(self.rows), generator=generator)[:CHECK_ROWS]
        return self._look_up(model, own.to(self.rows.targets.device), 1, generator)

    def _own(self, begin: int, size: int) -> Int64[Tensor, " P"]:
        """Return rows by their places in one permutation of all rows after another."""
        n_rows = len(self.rows)
        first, last = begin // n_rows, (begin + size - 1) // n_rows
        orders = [
            torch.randperm(n_rows, generator=self._generator(-1 - epoch))
            for epoch in range(first, last + 1)
        ]
        start = begin - first * n_rows
        return torch.cat(orders)[start : start + size]

    def _generator(self, number: int) -> torch.Generator:
        return torch.Generator().manual_seed((self.seed * 1_000_003 + number) % 2**63)

    def _look_up(
        self, model: SSWIM, own: Int64[Tensor, " P"], spacing: int, generator: torch.Generator
    ) -> Pool:
        n_rows, device = len(self.rows), own.device
        wanted = min(model.architecture.n_neighbors, N_NEIGHBORS)
        most = max_candidates(model.warped_dim, device)
        n_candidates = min(max(n_rows // spacing, 4 * wanted), most, n_rows)
        candidates = torch.arange(n_rows, device=device)
        if n_candidates < n_rows:
            candidates = torch.randperm(n_rows, generator=generator)[:n_candidates].to(device)
        factors, _ = model.factors()
        begin, end = self.processes.share.span(n_candidates)
        own_candidates = candidates[begin:end]
        index = NeighbourIndex(
            self._points(factors, own_candidates),
            thinned(self.rows.inputs.mean[own_candidates]),
            begin,
            self.processes,
        )
        points = self._points(factors, own)
        nearest = index.neighbours(points, min(wanted + 1 + EXTRA, n_candidates))
        return _without_copies(self.rows, own, candidates, nearest, wanted)

    def _points(self, factors: Factors, numbers: Int64[Tensor, " n"]) -> Float64[Tensor, "n D"]:
        inputs = self.rows.inputs.map(lambda tensor: tensor[numbers])
        size = rows_at_once(inputs)
        return map_chunks(lambda chunk: kernel_points(factors, chunk), inputs, size).mean


def max_candidates(n_dimensions: int, device: torch.device) -> int:
    """Return the largest number of rows among which neighbours are looked up in training.

    Args:
        n_dimensions: Dimension of the warped space.
        device: Device of the rows.
    """
    if device.type != "cpu":
        return MAX_CANDIDATES["gpu"]
    return MAX_CANDIDATES["few inputs" if n_dimensions <= TREE_DIMENSIONS else "many inputs"]


def _sizes(size: int, spacings: tuple[tuple[int, float], ...]) -> list[int]:
    """Return the number of rows of a pool for each spacing."""
    others = [round(share * size) for _, share in spacings[1:]]
    return [size - sum(others), *others]


def _without_copies(
    rows: Rows,
    own: Int64[Tensor, " P"],
    candidates: Int64[Tensor, " C"],
    nearest: Int64[Tensor, "P k"],
    wanted: int,
) -> Pool:
    """Return the first neighbours that are not the row itself, nor copies of its inputs."""
    present = nearest >= 0
    neighbours = candidates[nearest.clamp(min=0)]
    inputs = rows.inputs.mean
    present &= (inputs[neighbours] != inputs[own][:, None]).any(-1)
    order = (~present).to(torch.int8).argsort(dim=1, stable=True)[:, :wanted]
    return Pool(own, neighbours.gather(1, order), present.gather(1, order))


def step_of(pool: Pool, number: int, size: int) -> Pool:
    """Return the rows of one step of a pool."""
    return pool.map(lambda tensor: tensor[number * size : (number + 1) * size])


@dataclass(frozen=True)
class NeighbourContent:
    """The part of a training's state between two steps that JSON holds."""

    best: Annotated[float, Between(-LARGEST_FLOAT, math.inf)]
    """Best objective so far."""
    rate: Annotated[float, Between(1e-30, 1)]
    failures: int
    member: MemberSteps


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
            tensors |= to_tensors(self.pool, "pool")
        run = NeighbourContent(self.best[0], self.rate, self.failures, self.member)
        content = {"run": to_json(run)}
        return TrainingState(tensors, content) | pack_optimiser(self.optimiser, self.schedule)

    def resume(self, saved: TrainingState) -> None:
        """Continue from the state of another run; nothing changes if it is not one of this.

        Raises:
            ValueError: The state is not one of this training.
        """
        tensors, device = dict(saved.tensors), self.model.log_noise.device
        parameters, best = take_part(tensors, "model"), take_part(tensors, "best")
        for part in (parameters, best):
            check_parameters(part, self.model)
        pool = None
        if "pool.own" in tensors:
            pool = from_tensors(Pool, tensors, "pool", {}).to(device=device)
            for numbers in (pool.own, pool.neighbours):
                require_that(
                    "a pool must have numbers of rows",
                    holds=((numbers >= 0) & (numbers < len(self.rows))).all(),
                )
        take_part(tensors, "optimiser")
        require_all_taken(tensors)
        run = from_json(NeighbourContent, saved.content["run"], "the run")
        require_that(
            f"failures must be at most {self.settings.retries}",
            holds=run.failures <= self.settings.retries,
        )
        last = run.member.history[-1]
        load_optimiser(saved, self.optimiser, self.schedule)
        self.model.load_state_dict(parameters)
        self.best = (run.best, {name: tensor.to(device) for name, tensor in best.items()})
        self.pool, self.member = pool, run.member
        self.rate, self.failures, self.steps = run.rate, run.failures, last.index + 1
        self.began -= last.seconds


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
