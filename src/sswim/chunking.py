"""How many rows to look at together."""

from __future__ import annotations

import torch

from sswim.measure import Measure
from sswim.model import Architecture
from sswim.rows import Rows

CPU_CHUNK_ROWS = 2000
"""On a CPU chunks that stay in cache are the fast path, not a compromise."""


def graph_bytes_per_row(architecture: Architecture, inputs: Measure) -> int:
    """What the graph of one row takes: some tensors of F and of K numbers for each process."""
    n_features = 2 * architecture.n_frequencies
    per_process = 3 * n_features + 3 * architecture.n_pseudo
    numbers = 2 * architecture.depth * per_process + 4 * n_features
    if architecture.noise == "input-dependent":
        numbers += 6 * architecture.n_noise_frequencies + n_features  # ψ, and the weighted features
    if inputs.input_variance is not None:
        # A covariance meets every frequency: M·D numbers in every process above the first warp.
        n_inputs = inputs.mean.shape[-1]
        meetings = max(0, 2 * architecture.depth - 1)
        numbers += 2 * meetings * architecture.n_frequencies * n_inputs
        numbers += 4 * architecture.depth * (n_features + 4 * n_inputs**2) + 2 * n_features
    return numbers * inputs.mean.dtype.itemsize


def chunk_size(architecture: Architecture, rows: Rows) -> int:
    """Rows per chunk, from the device, the number of rows and the memory at hand."""
    device = rows.targets.device
    if device.type == "cpu":
        return CPU_CHUNK_ROWS
    free, _ = torch.cuda.mem_get_info(device)
    reusable = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    bytes_per_row = graph_bytes_per_row(architecture, rows.inputs)
    return max(1000, (free + reusable) // 2 // bytes_per_row)
