"""The training objective and its exact gradient, in one pass or in two passes over chunks.

The criterion depends on the rows through the statistics S = Σ_chunks S(chunk), which are functions
of the small factors f of the model:

    parameters → f → S → evidence

One pass keeps the graph of all rows. Two passes need the memory of one chunk: the first pass sums
S without a graph; then the evidence is differentiated with respect to S alone; the second pass
recomputes the statistics of each chunk with their graph and backpropagates ∂evidence/∂S through it
into f. This is the full gradient, not an estimate. The graphs of the first chunks are kept from the
first pass, as many as a fixed amount of memory holds, so that these are not computed twice.
Leave-one-out predicts each row given S, which takes one more pass in between.

If several processes each have some of the rows, they add up their S after the first pass and their
∂evidence/∂f after the second: the same two passes and the same gradient.

The objective of a batch has one value per member. Members share no parameter, so the gradient of
the sum is the gradient of each. How many rows a chunk has, and how many members a batch, is limited
by the memory of their features.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.record import Record
from sswim.base.validation import UserError, require_choice, require_restartable
from sswim.distributed.processes import ALONE, Processes
from sswim.members.linear_regression import (
    Posterior,
    Statistics,
    leave_one_out,
    negative_log_evidence,
    posterior,
    statistics,
    sum_statistics,
)
from sswim.members.model import SSWIM, Architecture, NegativeLogPrior, Observations, observe
from sswim.rows.rows import Measure, Rows, SmallerChunks

CPU_GRAPH_BYTES = 2**28
"""Bytes of the graphs kept on a CPU, whose features are then not computed twice."""

CPU_CHUNK_BYTES = 2**23
"""Bytes of a chunk's features for all members. Chunks that stay in cache are the fast path for many
rows, not a compromise."""

CPU_BATCH_BYTES = 2**26
"""Bytes of the graph of members trained together on a CPU; larger batches leave the cache."""

MIN_CHUNK_ROWS = 250
"""Smallest chunk on a CPU; below this, calls cost more than the cache saves."""


def graph_bytes_per_row(architecture: Architecture, inputs: Measure) -> int:
    """Estimate the bytes of one row's graph: some tensors of F and of K numbers for each GP."""
    n_inputs = inputs.mean.shape[-1]
    n_features, n_warp_features = 2 * architecture.n_frequencies, 2 * architecture.warp_frequencies
    n_gps = architecture.depth * (1 if architecture.warps == "joint" else 2)
    numbers = n_gps * (n_warp_features + architecture.n_pseudo) + 3 * n_features
    warped_dim = architecture.warped_dim(n_inputs)
    numbers += 20 * architecture.depth * warped_dim  # measures
    n_entries = 0  # of the matrices of all warps
    if architecture.warp_matrix == "full":
        n_entries = warped_dim * (n_inputs + (architecture.depth - 1) * warped_dim)
        numbers += 3 * n_entries
    if architecture.inputs == "normal-scores":
        numbers += n_inputs
    if architecture.noise == "input-dependent":
        numbers += 6 * architecture.n_noise_frequencies + n_features  # ψ, and the weighted features
    if inputs.input_variance is not None:
        numbers += n_gps * n_warp_features // 2 + n_features
        numbers += 8 * architecture.depth * warped_dim**2  # slopes
        numbers += 3 * n_entries * max(n_inputs, warped_dim)
    return numbers * inputs.mean.dtype.itemsize


def members_together(
    architecture: Architecture, inputs: Measure, n_rows: int, n_members: int
) -> int:
    """Return how many members to train in one batch: all on a GPU, few on a CPU.

    Args:
        architecture: Architecture of each member.
        inputs: Some inputs, for their device, precision and number of columns.
        n_rows: Number of rows that each member is trained on.
        n_members: Number of members.
    """
    if inputs.mean.device.type != "cpu":
        return n_members
    member_bytes = n_rows * graph_bytes_per_row(architecture, inputs)
    return max(1, min(n_members, CPU_BATCH_BYTES // member_bytes))


def chunk_size(architecture: Architecture, rows: Rows, n_members: int) -> int:
    """Return the number of rows per chunk from the device and the free memory."""
    device = rows.targets.device
    if device.type == "cpu":
        features = 2 * architecture.n_frequencies * rows.inputs.mean.dtype.itemsize
        most = max(MIN_CHUNK_ROWS, CPU_CHUNK_BYTES // (n_members * features))
        n_chunks = max(1, math.ceil(len(rows) / most))
        return max(1, math.ceil(len(rows) / n_chunks))  # chunks of equal size
    bytes_per_row = n_members * graph_bytes_per_row(architecture, rows.inputs)
    free, _ = torch.cuda.mem_get_info(device)
    reusable = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return max(1000, (free + reusable) // 2 // bytes_per_row)


def kept_rows(architecture: Architecture, rows: Rows, n_members: int) -> int:
    """Return the number of rows whose graphs are kept after the first pass; none on a GPU."""
    if rows.targets.device.type != "cpu":
        return 0
    return CPU_GRAPH_BYTES // (n_members * graph_bytes_per_row(architecture, rows.inputs))


Criterion = Literal["evidence", "leave-one-out"]


@dataclass(frozen=True)
class Objective:
    """A criterion of fit and the weight of the hierarchical prior on the warps.

    Values are in nats per row: divided by the number of rows (the sum of their weights).
    """

    criterion: Criterion = "evidence"
    """The log evidence, or the sum of the rows' leave-one-out log predictive densities."""
    prior_weight: float = 1.0
    """Weight of the prior: 1 for maximum a posteriori, 0 for maximum likelihood as published."""

    def __post_init__(self) -> None:
        require_choice("criterion", self.criterion, Criterion)
        if self.prior_weight < 0:
            raise UserError(f"prior_weight must not be negative. Got {self.prior_weight}.")


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
    """Return the objective of every member, and add its gradient to the parameters.

    Args:
        model: Model or batch, on the device of the rows.
        rows: Rows in memory, or chunks in any iterable that can be restarted. Each process has its
            own rows, or an empty chunk.
        objective: The objective to minimise.
        chunk_rows: Rows per chunk; at least the number of rows in memory for one pass. By default
            chosen from the device, the number of rows and the free memory.
        processes: The processes whose rows are added up.
    """
    if chunk_rows is not None and chunk_rows < 1:
        raise ValueError(f"chunk_rows must be at least 1. Got chunk_rows={chunk_rows}.")

    def size_of(rows: Rows) -> int:
        return chunk_rows or chunk_size(model.architecture, rows, math.prod(model.batch))

    if isinstance(rows, Rows):
        size = size_of(rows)  # once, because a GPU's free memory changes in the first pass
        if len(rows) <= size and processes.size == 1:
            value = one_pass(model, rows, objective)
            value.sum().backward()
            return value.detach()
        parts = SmallerChunks([rows], lambda _: size)
    else:
        parts = SmallerChunks(rows, size_of)
    return two_passes(model, parts, objective, processes)


def one_pass(model: SSWIM, rows: Rows, objective: Objective) -> Float64[Tensor, "*B"]:
    """Return the objective of every member, differentiable, with the graph of all rows."""
    factors, prior = model.factors()
    observations = observe(factors, rows)
    total = statistics(observations)
    if objective.criterion == "evidence":
        criterion = negative_log_evidence(total, model.noise(), model.signal())
    else:
        conditioned = posterior(total, model.noise(), model.signal())
        criterion = _negative_log_leave_one_out(observations, conditioned)
    return (criterion + _weighted(prior, objective)) / total.count


def two_passes(
    model: SSWIM,
    rows: Iterable[Rows],
    objective: Objective,
    processes: Processes = ALONE,
) -> Float64[Tensor, "*B"]:
    """Return the objective of every member, and add its gradient to the parameters.

    Args:
        model: Model or batch, on the device of the rows.
        rows: Chunks in an iterable that can be restarted.
        objective: The objective to minimise.
        processes: The processes whose rows are added up.
    """
    require_restartable(rows)
    factors, prior = model.factors()
    seen = factors.leaves()
    kept: list[Statistics] = []

    def first_pass() -> Iterator[Statistics]:
        n_rows = 0
        for number, chunk in enumerate(rows):
            n_rows += len(chunk)
            most = kept_rows(model.architecture, chunk, math.prod(model.batch))
            keep = number == len(kept) and n_rows <= most
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
        send_back(kept.pop(), total)  # frees its graph
    for chunk in islice(rows, n_kept, None):
        send_back(statistics(observe(seen, chunk), gradients_only=True), total)
    _sum_gradients(seen, processes)
    penalty = _weighted(prior, objective) / summed.count
    send_back(factors, seen, penalty.sum())
    return (criterion + penalty).detach()


def _sum_gradients(leaves: Record, processes: Processes) -> None:
    """Replace the gradients of leaves by their sums over all processes."""
    if processes.size == 1:
        return
    tensors = leaves.tensors()
    # All processes with rows have gradients in the same leaves; one without rows has none.
    gradients = [torch.zeros_like(t) if t.grad is None else t.grad for t in tensors]
    for tensor, gradient in zip(tensors, processes.all_sum_tensors(gradients), strict=True):
        tensor.grad = gradient.to(tensor.dtype)


def _weighted(prior: NegativeLogPrior, objective: Objective) -> Float64[Tensor, "*B"]:
    """Return the weighted prior of the warps plus the full prior of output warp and noise."""
    return objective.prior_weight * prior.warps + prior.density


def _negative_log_leave_one_out(
    rows: Observations, conditioned: Posterior
) -> Float64[Tensor, "*B"]:
    """Return −Σ c·log p(y), with the density of y on its own scale."""
    prediction = leave_one_out(rows, conditioned)
    density = (prediction.log_density(rows.targets) + rows.log_slope).sum(-1)
    return -(density if rows.multiplicity is None else rows.multiplicity * density).sum(-1)


def send_back(computed: Record, leaves: Record, *scalars: Tensor) -> None:
    """Backpropagate the gradients collected in the leaves, and those of scalars, at once."""
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
