"""Training by neighbours: Adam on mini-batches of rows, given their neighbours.

The objective is the density of rows given their neighbours. Every row is predicted without itself,
so this is a leave-one-out criterion, and an unbiased estimate of it from a few rows costs the same
however many there are.

The members of a batch share the rows, of which each may see only some, and take their steps
together: neighbourhoods have nothing to do with each other, so those of all members are one batch
of small matrices.

Neighbours are looked up for a whole pool of rows at once, and again for the next pool, because the
warped space moves. A map or a series may have gaps, and hyper-parameters that have seen only the
nearest rows know nothing of larger distances. So, with few inputs, some rows find their neighbours
in a random choice of few rows, as if there were a gap around them.

The steps of the warps are less than half of those of length-scales, signal and noise, and gradients
are clipped: the density of a few rows in a steep part of a map has a gradient that would throw the
warps away. On a map, where each row says little about the warps, they are shorter still.

Before every pool, and at the end, the objective of the same few rows is compared with the best so
far. If that of a member is much worse, or a step fails, the member goes back to its best
parameters, with shorter steps.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Annotated

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from sswim.base.cholesky import FactorisationError, deferred_failures
from sswim.base.record import Record, concatenate, map_chunks, rows_at_once, stack_records
from sswim.base.validation import UserError
from sswim.distributed.processes import ALONE, Processes
from sswim.files.records import (
    LARGEST_FLOAT,
    Between,
    from_json,
    from_tensors,
    take_part,
    to_json,
    to_tensors,
)
from sswim.files.sealed_files import require_tensors, require_that
from sswim.members.checkpoints import (
    Ending,
    MemberCallback,
    MemberSteps,
    StateStore,
    Step,
    Training,
    TrainingState,
    resuming,
)
from sswim.members.descent import Descent, OneCycle
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


@dataclass(frozen=True)
class MiniBatches:
    """Adam with a one-cycle schedule on mini-batches of rows."""

    steps: int = 200
    learning_rate: float = 0.1
    """Largest learning rate of length-scales, signal and noise, and of the scales of inputs."""
    warp_rate: float = 0.4
    """Learning rate of all other parameters, over that."""
    map_warp_rate: float = 0.1
    """Ratio in place of ``warp_rate`` with at most three inputs, as on a map."""
    n_neighbors: int = 32
    """Largest number of neighbours of a row; predictions may have more."""
    batch_rows: int | None = None
    """Number of rows of a step; None for 128, or for 256 from 4,000 rows on."""
    pool_steps: int = 40
    """Number of steps from one look-up of neighbours to the next."""
    largest_gradient: float = 0.3
    """Norm at which the gradient of each group of parameters is clipped."""
    tolerance: float = 0.3
    """How much worse than the best the objective of a check may be, in nats per row."""
    retries: int = 4
    """Number of times that a member goes back to shorter steps before training gives up."""

    def __post_init__(self) -> None:
        if self.steps < 0 or not 0 < self.learning_rate < math.inf:
            raise UserError(f"steps must not be negative, and learning_rate positive. Got {self}.")


def neighbour_objective(
    model: SSWIM,
    rows: Rows,
    step: Pool,
    prior_weight: float = 1.0,
    total_weight: Float64[Tensor, " members"] | None = None,
    n_seen: Int64[Tensor, " members"] | None = None,
    processes: Processes = ALONE,
) -> Float64[Tensor, " members"]:
    """Return −E log p(y(x) | neighbours) − (log prior)/N in nats per row, differentiable.

    With several processes it is this process's part of the sum.

    Args:
        model: A single model, or a batch of members.
        rows: All rows.
        step: For every member some of the rows that it sees, and their neighbours.
        prior_weight: Weight of the prior of the warps.
        total_weight: Sum of the weights of the rows that every member sees; None for all rows.
        n_seen: Number of the rows that every member sees; None for all rows.
        processes: The processes that each take some rows of the step.
    """
    factors, prior = model.factors()
    n_members = len(step.own)
    if total_weight is None:
        total_weight = _total_weight(rows, [slice(None)] * n_members)
    n_rows = step.present.any(-1).sum(1).clamp(min=1)
    mean_weight = total_weight / (len(rows) if n_seen is None else n_seen)
    value = (prior_weight * prior.warps + prior.density).reshape(-1) / total_weight
    if not processes.is_first:
        value = value * 0
    begin, end = processes.share.span(step.own.shape[1])
    if begin == end:
        return value
    losses = _losses(model, factors, rows, step.map(lambda tensor: tensor[:, begin:end]))
    return value + losses.reshape(n_members, -1).sum(1) / (n_rows * mean_weight)


def _total_weight(
    rows: Rows, seen: Sequence[Int64[Tensor, " _"] | slice]
) -> Float64[Tensor, " members"]:
    """Return the sum of the weights of the rows that every member sees."""
    weight = rows.targets.new_ones(len(rows)) if rows.weight is None else rows.weight
    return torch.stack([weight[numbers].sum() for numbers in seen])


def _losses(model: SSWIM, factors: Factors, rows: Rows, step: Pool) -> Float64[Tensor, " BP"]:
    """Return −c·log p(y(x) | neighbours) of rows; zero for a row without neighbours.

    Neighbourhoods of all members lie along one axis.
    """
    numbers = torch.cat((step.neighbours, step.own[..., None]), dim=-1)  # (B, P, n)
    n_members, n_own, n_places = numbers.shape
    shares = n_own * n_places >= len(rows)  # more places than rows: neighbourhoods share rows
    used = rows if shares else rows.take(numbers.reshape(*model.batch, -1))
    observed = observe_neighbours(factors, used, model.noise() / model.signal())
    offset = len(rows) * torch.arange(n_members, device=numbers.device)[:, None, None]

    def placed(tensor: Tensor) -> Tensor:
        """Return the values of one tensor at the places of every neighbourhood."""
        tensor = tensor.expand(n_members, *tensor.shape[-2:])
        if shares:
            return tensor.flatten(0, 1)[(numbers + offset).flatten(0, 1)]
        return tensor.reshape(-1, n_places, tensor.shape[-1])

    def per_row(tensor: Tensor) -> Tensor:
        """Return the values of every member for each of its rows."""
        return tensor.reshape(n_members, -1).repeat_interleave(n_own, dim=0)

    ridge, weight = placed(observed.ridge), None
    if used.weight is not None:  # the row itself is one observation
        weight = placed(used.weight[..., None])[:, -1]
        ridge = torch.cat((ridge[:, :-1], ridge[:, -1:] * weight[:, None]), dim=1)
    points = placed(observed.points)
    present = step.present.flatten(0, 1)
    neighbourhoods = Neighbourhoods(
        points - points[:, -1:],
        None if observed.variance is None else placed(observed.variance),
        placed(observed.targets),
        ridge,
        torch.nn.functional.pad(present.to(torch.float64), (0, 1), value=1.0),
    )
    log_slope = placed(observed.log_slope)[:, -1]
    degrees = model.degrees()
    density = neighbour_log_density(
        neighbourhoods,
        model.architecture.kernel,
        per_row(model.signal()),
        None if degrees is None else per_row(degrees),
        (per_row(model.resolution) * log_slope.detach().exp()).square() / 12,
    )
    losses = -torch.where(present.any(-1), (density + log_slope).sum(-1), 0.0)
    return losses if weight is None else losses * weight[:, 0]


MAX_CANDIDATES = {"few inputs": 2**20, "many inputs": 2**16, "gpu": 2**20}
"""Largest number of rows among which neighbours are looked up, so that a step costs the same
however many rows there are."""

CHECK_ROWS, CHECK_SEED = 256, 2**40
"""Number of rows by which one pool's end is compared with another's, and their seed."""

EXTRA = 8
"""Neighbours that are looked up beyond those needed, in place of a row's own copies."""

MAP_SPACINGS = ((1, 0.9), (64, 0.1))
"""(one row in n is a candidate, share of the rows of a pool), for maps."""


@dataclass(frozen=True)
class Pool(Record):
    """Rows of the next steps of every member and their neighbours, as numbers of rows."""

    own: Int64[Tensor, "*B P"]
    neighbours: Int64[Tensor, "*B P m"]
    present: Bool[Tensor, "*B P m"]
    """False for the place of a missing neighbour."""


class PoolSource:
    """Draws pools of the rows that each member sees, each row as often as the others."""

    def __init__(
        self,
        rows: Rows,
        seen: Sequence[Int64[Tensor, " _"]],
        seeds: Sequence[int],
        processes: Processes = ALONE,
        is_far: Bool[Tensor, " N"] | None = None,
        n_neighbors: int = MiniBatches.n_neighbors,
    ) -> None:
        """Draw from rows.

        Args:
            rows: All rows, the same in every process.
            seen: For every member the numbers of the rows that it sees.
            seeds: For every member the seed of the order of its rows.
            processes: The processes that draw together; each looks for neighbours in some rows.
            is_far: Whether each row can be a far neighbour; None to choose by its inputs.
            n_neighbors: Largest number of neighbours of a row.
        """
        self.n_neighbors = n_neighbors
        self.rows, self.seen, self.seeds, self.processes = rows, seen, seeds, processes
        self.is_far = thinned(rows.inputs.mean) if is_far is None else is_far

    @torch.no_grad()
    def draw(self, model: SSWIM, begin: int, size: int) -> Pool:
        """Return the rows from a place on in the order of all rows, and their neighbours.

        Neighbours are looked up in the present warped space of every member.
        """
        spacings = MAP_SPACINGS if model.warped_dim <= MAP_INPUTS else ((1, 1.0),)
        sizes = _sizes(size, spacings)

        def draw_member(member: int, factors: Factors) -> Pool:
            generator = self._generator(member, begin)
            own = self._own(member, begin, size)
            pools = [
                self._look_up(member, factors, model, part, spacing, generator)
                for part, (spacing, _) in zip(own.split(sizes), spacings, strict=True)
            ]
            order = torch.randperm(size, generator=generator)  # steps have rows of all spacings
            return concatenate(pools).map(lambda tensor: tensor[order.to(tensor.device)])

        return self._of_members(model, draw_member)

    @torch.no_grad()
    def check(self, model: SSWIM) -> Pool:
        """Return rows that are the same in every check, and their neighbours as they are now."""
        size = min(CHECK_ROWS, *map(len, self.seen))

        def draw_member(member: int, factors: Factors) -> Pool:
            generator = self._generator(member, CHECK_SEED)
            own = self._shuffled(member, generator)[:size]
            return self._look_up(member, factors, model, own, 1, generator)

        return self._of_members(model, draw_member)

    def _of_members(self, model: SSWIM, draw_member: Callable[[int, Factors], Pool]) -> Pool:
        """Draw a pool for every member, and stack them."""
        factors, _ = model.factors()
        pools = [
            draw_member(member, factors.map(itemgetter(member)) if model.batch else factors)
            for member in range(len(self.seen))
        ]
        most = max(pool.neighbours.shape[1] for pool in pools)

        def padded(tensor: Tensor) -> Tensor:
            missing = most - tensor.shape[1] if tensor.ndim == 2 else 0
            return torch.nn.functional.pad(tensor, (0, missing)) if missing else tensor

        return stack_records(pool.map(padded) for pool in pools)

    def _own(self, member: int, begin: int, size: int) -> Int64[Tensor, " P"]:
        """Return rows by their places in one permutation of all rows after another."""
        n_rows = len(self.seen[member])
        first, last = begin // n_rows, (begin + size - 1) // n_rows
        orders = [
            self._shuffled(member, self._generator(member, -1 - epoch))
            for epoch in range(first, last + 1)
        ]
        start = begin - first * n_rows
        return torch.cat(orders)[start : start + size]

    def _shuffled(self, member: int, generator: torch.Generator) -> Int64[Tensor, " n"]:
        """Return the rows that a member sees in a random order."""
        seen = self.seen[member]
        return seen[torch.randperm(len(seen), generator=generator).to(seen.device)]

    def _generator(self, member: int, number: int) -> torch.Generator:
        seed = self.seeds[member] * 1_000_003 + number
        return torch.Generator().manual_seed(seed % 2**63)

    def _look_up(
        self,
        member: int,
        factors: Factors,
        model: SSWIM,
        own: Int64[Tensor, " P"],
        spacing: int,
        generator: torch.Generator,
    ) -> Pool:
        candidates = self.seen[member]
        n_rows, device = len(candidates), own.device
        wanted = min(model.architecture.n_neighbors, self.n_neighbors)
        most = max_candidates(model.warped_dim, device)
        n_candidates = min(max(n_rows // spacing, 4 * wanted), most, n_rows)
        if n_candidates < n_rows:
            chosen = torch.randperm(n_rows, generator=generator)[:n_candidates]
            candidates = candidates[chosen.to(device)]
        begin, end = self.processes.share.span(n_candidates)
        own_candidates = candidates[begin:end]
        index = NeighbourIndex(
            self._points(factors, own_candidates),
            self.is_far[own_candidates],
            begin,
            self.processes,
        )
        rows, place = own.unique(return_inverse=True)  # few rows are in a pool several times
        nearest = index.neighbours(
            self._points(factors, rows), min(wanted + 1 + EXTRA, n_candidates)
        )
        pool = _without_copies(self.rows, rows, candidates, nearest, wanted)
        return pool.map(lambda tensor: tensor[place])

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


@dataclass(frozen=True)
class NeighbourContent:
    """The part of a training's state between two steps that JSON holds."""

    best: list[Annotated[float, Between(-LARGEST_FLOAT, math.inf)]]
    """Best objective of every member so far."""
    rates: list[Annotated[float, Between(1e-30, 1)]]
    failures: list[int]
    members: list[MemberSteps]


KERNEL_PARAMETERS = ("spectrum.log_length_scales", "log_signal", "log_noise", "log_degrees")
"""Whole names of parameters that take the longest steps: warps have some of the same ends."""


def _is_of_kernel(name: str) -> bool:
    """Return whether a parameter takes the longest steps, by its name."""
    scales = "projection.log_scales"  # of inputs, in place of their length-scales
    return name in KERNEL_PARAMETERS or name.endswith(scales)


class NeighbourRun:
    """One training of a batch of members by neighbours."""

    def __init__(
        self,
        model: SSWIM,
        rows: Rows,
        settings: MiniBatches,
        prior_weight: float,
        source: PoolSource,
    ) -> None:
        self.model, self.rows, self.settings, self.source = model, rows, settings, source
        self.prior_weight, self.processes = prior_weight, source.processes
        n_rows = min(map(len, source.seen))
        self.batch_rows = min(settings.batch_rows or (128 if n_rows < 4000 else 256), n_rows)
        self.total_weight = _total_weight(rows, source.seen)
        self.n_seen = torch.tensor([*map(len, source.seen)], device=rows.targets.device)
        self.pool: Pool | None = None
        ratio = settings.map_warp_rate if model.warped_dim <= MAP_INPUTS else settings.warp_rate
        self.descent = Descent(
            model,
            lambda name: 1.0 if _is_of_kernel(name) else ratio,
            OneCycle(max(settings.steps + 1, 6), warm_up=0.2, begin=1 / 5, end=1 / 100),
            settings.learning_rate,
        )
        n_members = self.descent.n_members
        self.members = [MemberSteps() for _ in range(n_members)]
        self.steps = 0
        self.rate = torch.ones_like(self.descent.count)  # smaller after a failure
        self.failures = [0] * n_members
        self.best = [math.inf] * n_members
        self.best_position = self.descent.position.clone()
        self.began = time.perf_counter()

    def next_step(self) -> Pool:
        """Return the rows of the next step, from a new pool if the present one is used up."""
        size, n_steps = self.batch_rows, self.settings.pool_steps
        if self.pool is None or self.steps % n_steps == 0:
            self.check()
            n_steps = min(n_steps, self.settings.steps + 1 - self.steps)
            self.pool = self.source.draw(self.model, self.steps * size, n_steps * size)
        begin = self.steps % self.settings.pool_steps * size
        return self.pool.map(lambda tensor: tensor[:, begin : begin + size])

    def _objective(self, step: Pool) -> Float64[Tensor, " members"]:
        return neighbour_objective(
            self.model,
            self.rows,
            step,
            self.prior_weight,
            self.total_weight,
            self.n_seen,
            self.processes,
        )

    @torch.no_grad()
    def check(self) -> None:
        """Compare with the best parameters so far; go back to them if these are much worse."""
        step = self.source.check(self.model)
        value = _with_failures(lambda: self._objective(step))
        [value] = self.processes.all_sum_tensors([value])
        worse = []
        for member, number in enumerate(value.tolist()):
            if math.isfinite(number) and number <= self.best[member]:
                self.best[member] = number
                self.best_position[member] = self.descent.position[member]
            elif not number <= self.best[member] + self.settings.tolerance:
                worse.append(member)
        self.go_back(worse, "rose by more than it may")

    def evaluate(self) -> tuple[list[float], list[float]]:
        """Return objectives and gradient norms of the next rows; parameters get the gradients.

        Members whose step failed go back to their best parameters, and have no gradient.
        """
        step = self.next_step()

        def compute() -> Tensor:
            self.descent.clear()
            value = self._objective(step)
            if value.requires_grad:  # unless a process has no rows, and there is no prior
                value.sum().backward()
            return value.detach()

        value = _with_failures(compute)
        gradient = self.descent.collect()
        if self.processes.size > 1:  # each process has some of the rows
            [total] = self.processes.all_sum_tensors([torch.cat((value[:, None], gradient), dim=1)])
            total = self.processes.broadcast_tensor(total)  # the same to the last bit
            value = total[:, 0]
            gradient.copy_(total[:, 1:])
        norm = self._clip(gradient)
        failed = (~(value.isfinite() & norm.isfinite())).nonzero()[:, 0].tolist()
        self.go_back(failed, "or its gradient is not finite")
        values, norms = value.tolist(), norm.tolist()
        for member in failed:
            values[member], norms[member] = self.best[member], 0.0
        return values, norms

    def _clip(self, gradient: Float64[Tensor, "*B P"]) -> Float64[Tensor, " members"]:
        """Clip the gradients of the kernel and of all else; return their norms after that."""
        of_kernel = self.descent.columns(_is_of_kernel)
        for part in (of_kernel, ~of_kernel):
            norm = gradient[:, part].norm(dim=1, keepdim=True)
            most = self.settings.largest_gradient
            gradient[:, part] *= (most / (norm + 1e-6)).clamp(max=1)
        return gradient.norm(dim=1)

    def go_back(self, members: Sequence[int], reason: str) -> None:
        """Return members to their best parameters, with shorter steps; or give up."""
        for member in members:
            self.failures[member] += 1
            hopeless = math.isinf(self.best[member])  # the start itself fails
            if hopeless or self.failures[member] > self.settings.retries:
                raise FactorisationError(
                    f"The objective {reason} at step {self.steps}. Likely cause: parameters that "
                    "diverged. Lower the learning rate, or standardise the rows."
                )
        if members:
            self.descent.restart(self.best_position, list(members))
            self.rate[list(members)] *= 0.3

    def finish_step(
        self, values: list[float], norms: list[float], callback: MemberCallback | None
    ) -> None:
        """Record a step, and tell the callback of it."""
        seconds = time.perf_counter() - self.began
        steps = [Step(self.steps, *pair, seconds) for pair in zip(values, norms, strict=True)]
        for member, step in zip(self.members, steps, strict=True):
            member.history.append(step)
            member.best = step  # one batch of rows does not tell better from worse
        self.steps += 1
        answers = [callback is not None and callback(n, step) for n, step in enumerate(steps)]
        if self.processes.any(any(answer is True for answer in answers)):
            self.end("callback")

    def end(self, ending: Ending) -> None:
        """End the training of all members."""
        for member in self.members:
            member.ended = member.ended or ending

    def state(self) -> TrainingState:
        """Return the state between two steps."""
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        tensors |= {"best_position": self.best_position, **self.descent.saved()}
        if self.pool is not None:
            tensors |= to_tensors(self.pool, "pool")
        run = NeighbourContent(self.best, self.rate[:, 0].tolist(), self.failures, self.members)
        return TrainingState(tensors, {"run": to_json(run)})

    def resume(self, saved: TrainingState) -> None:
        """Continue from the state of another run; nothing changes if it is not one of this.

        Raises:
            ValueError: The state is not one of this training.
        """
        tensors, device = dict(saved.tensors), self.model.log_noise.device
        parameters, best = take_part(tensors, "model"), tensors.pop("best_position")
        require_tensors({"": best}, {"": self.best_position})
        for part in (parameters, parameters | self.descent.state_at(best)):
            check_parameters(part, self.model)
        pool = None
        if "pool.own" in tensors:
            sizes = {"*B": len(self.members)}
            pool = from_tensors(Pool, tensors, "pool", sizes).to(device=device)
            for numbers in (pool.own, pool.neighbours):
                require_that(
                    "a pool must have numbers of rows",
                    holds=((numbers >= 0) & (numbers < len(self.rows))).all(),
                )
        run = from_json(NeighbourContent, saved.content["run"], "the run")
        lengths = {len(run.best), len(run.rates), len(run.failures), len(run.members)}
        require_that("a run has all members", holds=lengths == {len(self.members)})
        require_that(
            f"failures must be at most {self.settings.retries}",
            holds=max(run.failures) <= self.settings.retries,
        )
        last = run.members[0].history[-1]
        require_that(
            "members must have taken as many steps",
            holds=all(len(member.history) == last.index + 1 for member in run.members),
        )
        self.descent.load(tensors)
        self.model.load_state_dict(parameters)
        self.best, self.failures, self.members = run.best, run.failures, run.members
        self.best_position.copy_(best)
        self.rate = self.rate.new_tensor(run.rates)[:, None]
        self.pool, self.steps = pool, last.index + 1
        self.began -= last.seconds


def _with_failures(
    compute: Callable[[], Float64[Tensor, " members"]],
) -> Float64[Tensor, " members"]:
    """Return the values of all members; NaN where a matrix could not be factorised.

    Failures are collected first, so that those of one member do not end the step of the others.
    """
    with deferred_failures() as failures:
        value = compute()
    failed = torch.zeros_like(value, dtype=torch.bool)
    for flags in failures:
        failed |= flags.reshape(len(value), -1).any(1)
    if not failed.any():
        return value
    try:
        return compute()  # with jitter
    except FactorisationError:
        with deferred_failures():  # gradients too are those of the others again
            return torch.where(failed, math.nan, compute())


def train_by_neighbours(
    model: SSWIM,
    rows: Rows,
    settings: MiniBatches,
    *,
    prior_weight: float = 1.0,
    seen: Sequence[Int64[Tensor, " _"]] | None = None,
    seeds: Sequence[int] = (0,),
    callback: MemberCallback | None = None,
    processes: Processes = ALONE,
    checkpoint: StateStore | None = None,
) -> list[Training]:
    """Train members in place on the density of rows given their neighbours.

    The same start and seeds give the same result.

    Args:
        model: A model or a batch that predicts by neighbours, on the device of the rows.
        rows: All rows, the same in every process.
        settings: Number and size of the steps.
        prior_weight: Weight of the prior of the warps.
        seen: For every member the numbers of the rows that it sees; None for all rows.
        seeds: For every member the seed of the order of its rows.
        callback: Called with the number of a member and each of its steps; returning True ends the
            training of all.
        processes: The processes that train the members together.
        checkpoint: Where the training is saved as it goes, and resumed from.
    """
    if seen is None:
        seen = [torch.arange(len(rows), device=rows.targets.device)] * len(seeds)
    with _scored_once(model, rows) as scored:
        is_far = thinned(rows.inputs.mean)  # the same rows as in predictions
        source = PoolSource(scored, seen, seeds, processes, is_far, settings.n_neighbors)
        run = NeighbourRun(model, scored, settings, prior_weight, source)
        saved = None if checkpoint is None else checkpoint.load()
        if saved is not None:
            with resuming():
                run.resume(saved)
        if run.members[0].ended is not None and callback is not None:
            for number, member in enumerate(run.members):
                callback(number, member.history[-1])
        while run.members[0].ended is None:
            values, norms = run.evaluate()
            run.finish_step(values, norms, callback)
            if run.steps > settings.steps:
                run.check()
                run.end("steps")
            else:
                run.descent.move(run.steps - 1, run.rate)
            due = checkpoint is not None and run.steps % checkpoint.every == 0
            if checkpoint is not None and (due or run.members[0].ended):
                checkpoint.save(run.state())
        run.descent.finish(run.descent.position)
    return [member.training() for member in run.members]


@contextmanager
def _scored_once(model: SSWIM, rows: Rows) -> Iterator[Rows]:
    """Map the rows to normal scores once, not in every step: the map is not learnt."""
    scores = model.normal_scores
    if scores is None or any(
        (tensor != tensor[:1]).any() for tensor in scores.buffers() if model.batch
    ):
        yield rows
        return
    shared = scores.factors().map(itemgetter(0)) if model.batch else scores.factors()
    model.normal_scores = None
    try:
        size = rows_at_once(rows.inputs)
        yield replace(rows, inputs=map_chunks(shared.forward, rows.inputs, size))
    finally:
        model.normal_scores = scores
