"""Numbers of rows per chunk, and of members per batch, while training."""

from __future__ import annotations

import math

import torch

from sswim.model.architecture import Architecture
from sswim.rows.measure import Measure
from sswim.rows.rows import Rows

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
    if architecture.linear:
        n_features += n_inputs + 1
    n_gps = architecture.depth * (1 if architecture.warps == "joint" else 2)
    numbers = n_gps * (n_warp_features + architecture.n_pseudo) + 3 * n_features
    warped_dim = architecture.warped_dim(n_inputs)
    numbers += 20 * architecture.depth * warped_dim  # measures
    n_entries = 0  # of the matrices of all warps
    if architecture.warp_matrix == "full":
        n_entries = warped_dim * (n_inputs + (architecture.depth - 1) * warped_dim)
        numbers += 3 * n_entries
    if architecture.linear:
        numbers += n_features  # the Fourier and linear features, put together
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
    each = n_rows * graph_bytes_per_row(architecture, inputs)
    return max(1, min(n_members, CPU_BATCH_BYTES // each))


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
