"""How many rows to look at together."""

from __future__ import annotations

import math

import torch

from sswim.model.architecture import Architecture
from sswim.rows.measure import Measure
from sswim.rows.rows import Rows

CPU_GRAPH_BYTES = 2**28
"""Of the graphs that are kept on a CPU, which saves the features' second computation."""

CPU_CHUNK_BYTES = 2**23
"""Of a chunk's features, of all members. Chunks that stay in cache are the fast path for many rows,
not a compromise."""

CPU_BATCH_BYTES = 2**26
"""Of the graph of members trained together on a CPU: more would drive each other from cache."""

FEWEST_ROWS = 250
"""Of a chunk that many members see: fewer would cost more in calls than the cache saves."""


def graph_bytes_per_row(architecture: Architecture, inputs: Measure) -> int:
    """What the graph of one row takes: some tensors of F and of K numbers for each process."""
    n_inputs = inputs.mean.shape[-1]
    n_features, n_warp_features = 2 * architecture.n_frequencies, 2 * architecture.warp_frequencies
    if architecture.linear:
        n_features += n_inputs + 1
    n_processes = architecture.depth * (1 if architecture.warps == "joint" else 2)
    numbers = n_processes * (n_warp_features + architecture.n_pseudo) + 3 * n_features
    numbers += 20 * architecture.depth * n_inputs  # measures
    if architecture.linear:
        numbers += n_features  # the Fourier and linear features, put together
    if architecture.inputs == "normal-scores":
        numbers += n_inputs
    if architecture.noise == "input-dependent":
        numbers += 6 * architecture.n_noise_frequencies + n_features  # ψ, and the weighted features
    if inputs.input_variance is not None:
        numbers += n_processes * n_warp_features // 2 + n_features
        numbers += 8 * architecture.depth * n_inputs**2  # slopes
    return numbers * inputs.mean.dtype.itemsize


def members_together(
    architecture: Architecture, inputs: Measure, n_rows: int, n_members: int
) -> int:
    """How many members to train together: all on a GPU, on a CPU as many as stay small.

    Args:
        architecture: Of each.
        inputs: Some of the rows, which tell the device, the precision and the number of columns.
        n_rows: How many each is trained on.
        n_members: How many there are.
    """
    if inputs.mean.device.type != "cpu":
        return n_members
    each = n_rows * graph_bytes_per_row(architecture, inputs)
    return max(1, min(n_members, CPU_BATCH_BYTES // each))


def chunk_size(architecture: Architecture, rows: Rows, n_members: int) -> int:
    """Rows per chunk, each seen by all members, from the device and the memory at hand."""
    device = rows.targets.device
    if device.type == "cpu":
        features = 2 * architecture.n_frequencies * rows.inputs.mean.dtype.itemsize
        most = max(FEWEST_ROWS, CPU_CHUNK_BYTES // (n_members * features))
        n_chunks = max(1, math.ceil(len(rows) / most))
        return max(1, math.ceil(len(rows) / n_chunks))  # all of the same size
    bytes_per_row = n_members * graph_bytes_per_row(architecture, rows.inputs)
    free, _ = torch.cuda.mem_get_info(device)
    reusable = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return max(1000, (free + reusable) // 2 // bytes_per_row)


def kept_rows(architecture: Architecture, rows: Rows, n_members: int) -> int:
    """Of how many rows in chunks the graph is kept: of none on a GPU, where a chunk is large."""
    if rows.targets.device.type != "cpu":
        return 0
    return CPU_GRAPH_BYTES // (n_members * graph_bytes_per_row(architecture, rows.inputs))
