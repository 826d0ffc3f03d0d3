"""What training minimises, and its exact gradient: in one pass, or in two over chunks of rows.

The criterion depends on the rows through the statistics S = Σ_chunks S(chunk), which are functions
of the small factors f of the model:

    parameters → f → S → evidence

One pass keeps the graph of all rows. Two passes need the memory of a chunk: the first sums S up
without a graph; then the evidence is differentiated with respect to S alone; the second recomputes
the statistics of each chunk with its graph and sends ∂evidence/∂S back through it, into f. This is
the full gradient, not an estimate. The graphs of the first chunks are kept from the first pass, as
many as a fixed amount of memory holds: these are not computed twice. Leave-one-out also looks at
each row given S and so needs one more pass in between.

With several processes, each of which has some of the rows, S is the sum of theirs after the first
pass, and so is ∂evidence/∂f after the second: the same two passes, and the same gradient.

A batch of members has one value each. They share no parameter, so the gradient of their sum is that
of each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.record import Record
from sswim.base.validation import require_choice, require_restartable
from sswim.distributed.processes import ALONE, Processes
from sswim.model.observations import Observations, observe
from sswim.model.sswim import SSWIM, NegativeLogPrior
from sswim.posterior.linear_regression import (
    Posterior,
    leave_one_out,
    negative_log_evidence,
    posterior,
)
from sswim.posterior.statistics import Statistics, statistics, sum_statistics
from sswim.rows.rows import Rows
from sswim.rows.smaller_chunks import SmallerChunks
from sswim.training.chunk_sizes import chunk_size, kept_rows

Criterion = Literal["evidence", "leave-one-out"]


@dataclass(frozen=True)
class Objective:
    """A criterion of fit, and how much the hierarchical prior on the warps counts beside it.

    All are per row: nats divided by the number of rows (the sum of their weights).
    """

    criterion: Criterion = "evidence"
    """The log evidence, or the sum of the rows' leave-one-out log predictive densities."""
    prior_weight: float = 1.0
    """1 for the maximum a posteriori, 0 for maximum likelihood as published."""

    def __post_init__(self) -> None:
        require_choice("criterion", self.criterion, Criterion)
        if self.prior_weight < 0:
            raise ValueError(f"prior_weight must not be negative. Got {self.prior_weight}.")


MAP = Objective()
EVIDENCE = Objective(prior_weight=0.0)
LEAVE_ONE_OUT = Objective("leave-one-out", prior_weight=0.0)
OBJECTIVES = {"map": MAP, "evidence": EVIDENCE, "leave-one-out": LEAVE_ONE_OUT}


def backward(
    model: SSWIM,
    rows: Rows | Iterable[Rows],
    objective: Objective = MAP,
    chunk_rows: int | None = None,
    processes: Processes = ALONE,
) -> Float64[Tensor, "*B"]:
    """The objective's value, of every member; its gradient is added to that of the parameters.

    Args:
        model: On the device of the rows.
        rows: Rows in memory, or chunks of them in any iterable that can be started again. Of
            several processes each has its own rows, or an empty chunk.
        objective: What to minimise.
        chunk_rows: Rows looked at together; as many as there are in memory, or more, for one pass.
            By default chosen from the device, the number of rows and the memory at hand.
        processes: Whose rows all count.
    """
    if chunk_rows is not None and chunk_rows < 1:
        raise ValueError(f"A chunk has at least one row. Got chunk_rows={chunk_rows}.")
    n_members = math.prod(model.batch)

    def size_of(rows: Rows) -> int:
        return chunk_rows or chunk_size(model.architecture, rows, n_members)

    def kept(chunk: Rows) -> int:
        return kept_rows(model.architecture, chunk, n_members)

    if isinstance(rows, Rows):
        size = size_of(rows)  # once, for a GPU's free memory is another after the first pass
        if len(rows) <= size and processes.size == 1:
            value = whole(model, rows, objective)
            value.sum().backward()
            return value.detach()
        parts = SmallerChunks([rows], lambda _: size)
    else:
        parts = SmallerChunks(rows, size_of)
    return in_chunks(model, parts, objective, kept, processes)


def whole(model: SSWIM, rows: Rows, objective: Objective) -> Float64[Tensor, "*B"]:
    """The objective of every member as one differentiable function, the graph of all rows kept."""
    factors, prior = model.condition()
    observations = observe(factors, rows)
    total = statistics(observations)
    if objective.criterion == "evidence":
        criterion = negative_log_evidence(total, model.noise(), model.signal())
    else:
        conditioned = posterior(total, model.noise(), model.signal())
        criterion = _negative_log_leave_one_out(observations, conditioned)
    return (criterion + _weighted(prior, objective)) / total.count


def in_chunks(
    model: SSWIM,
    rows: Iterable[Rows],
    objective: Objective,
    kept_rows: Callable[[Rows], int] = lambda chunk: 0,
    processes: Processes = ALONE,
) -> Float64[Tensor, "*B"]:
    """The objective's value, of every member; its gradient is added to that of the parameters.

    Args:
        model: On the device of the rows.
        rows: Chunks, in an iterable that can be started again.
        objective: What to minimise.
        kept_rows: Of how many rows the first pass keeps the graph, by the look of a chunk.
        processes: Whose rows all count.
    """
    require_restartable(rows)
    factors, prior = model.condition()
    seen = factors.leaves()
    kept: list[Statistics] = []

    def first_pass() -> Iterator[Statistics]:
        n_rows = 0
        for number, chunk in enumerate(rows):
            n_rows += len(chunk)
            keep = number == len(kept) and n_rows <= kept_rows(chunk)
            with torch.set_grad_enabled(keep):
                part = statistics(observe(seen, chunk))
            if keep:
                kept.append(part)
            yield part.map(torch.detach)

    summed = processes.all_sum(sum_statistics(first_pass()))
    total = summed.leaves()
    if objective.criterion == "evidence":
        criterion = negative_log_evidence(total, model.noise(), model.signal()) / summed.count
        criterion.sum().backward()
    else:
        conditioned = posterior(total, model.noise(), model.signal())
        given = conditioned.leaves()
        criterion = torch.zeros_like(summed.count)
        for chunk in rows:
            part = _negative_log_leave_one_out(observe(seen, chunk), given) / summed.count
            part.sum().backward()
            criterion += part.detach()
        [criterion] = processes.all_sum_tensors([criterion])
        _sum_gradients(given, processes)
        send_back(conditioned, given)
    n_kept = len(kept)
    while kept:
        send_back(kept.pop(), total)  # and its graph is freed
    for chunk in islice(rows, n_kept, None):
        send_back(statistics(observe(seen, chunk), gradients_only=True), total)
    _sum_gradients(seen, processes)
    penalty = _weighted(prior, objective) / summed.count
    send_back(factors, seen, penalty.sum())
    return (criterion + penalty).detach()


def _sum_gradients(leaves: Record, processes: Processes) -> None:
    """Replace the gradients of leaves by the sums of all processes'."""
    if processes.size == 1:
        return
    tensors = leaves.tensors()
    # Which leaves have a gradient is the same everywhere but where there were no rows.
    gradients = [torch.zeros_like(t) if t.grad is None else t.grad for t in tensors]
    for tensor, gradient in zip(tensors, processes.all_sum_tensors(gradients), strict=True):
        tensor.grad = gradient.to(tensor.dtype)


def _weighted(prior: NegativeLogPrior, objective: Objective) -> Float64[Tensor, "*B"]:
    """Without their prior the warps are those of the paper; the density always has its own."""
    return objective.prior_weight * prior.warps + prior.density


def _negative_log_leave_one_out(
    rows: Observations, conditioned: Posterior
) -> Float64[Tensor, "*B"]:
    """−Σ c·log p(y), the density of y on its own scale."""
    prediction = leave_one_out(rows, conditioned)
    density = (prediction.log_density(rows.targets) + rows.log_slope).sum(-1)
    return -(density if rows.multiplicity is None else rows.multiplicity * density).sum(-1)


def send_back(computed: Record, leaves: Record, *scalars: Tensor) -> None:
    """Backpropagate the gradients collected in the leaves, and those of scalars, in one sweep."""
    tensors: list[Tensor] = []
    gradients: list[Tensor | None] = []
    for tensor, leaf in zip(computed.tensors(), leaves.tensors(), strict=True):
        if tensor.requires_grad and leaf.grad is not None:
            tensors.append(tensor)
            gradients.append(leaf.grad)
    for scalar in scalars:
        if scalar.requires_grad:
            tensors.append(scalar)
            gradients.append(None)
    torch.autograd.backward(tensors, gradients)
