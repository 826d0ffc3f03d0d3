from __future__ import annotations

import pytest
import torch
from builders.models import small_rows

from sswim.members import Architecture
from sswim.members.model import NoiseName
from sswim.members.objective import (
    CPU_BATCH_BYTES,
    CPU_CHUNK_BYTES,
    CPU_GRAPH_BYTES,
    MIN_CHUNK_ROWS,
    chunk_size,
    graph_bytes_per_row,
    kept_rows,
    members_together,
)


def test_chunks_stay_in_cache_on_a_cpu(generator: torch.Generator) -> None:
    architecture = Architecture()
    most = CPU_CHUNK_BYTES // (512 * 8)  # rows of 512 features in double precision
    assert chunk_size(architecture, small_rows(generator, n=most), 1) == most
    assert chunk_size(architecture, small_rows(generator, n=most + 1), 1) == most // 2 + 1
    assert chunk_size(architecture, small_rows(generator, n=4 * most), 4) == most // 4
    assert (
        chunk_size(architecture, small_rows(generator, n=4 * MIN_CHUNK_ROWS), 100) == MIN_CHUNK_ROWS
    )


@pytest.mark.parametrize("n_members", [1, 3])
def test_graphs_are_kept_within_a_fixed_amount_of_memory(
    n_members: int, generator: torch.Generator
) -> None:
    architecture = Architecture()
    for n in (100, 10_000):
        rows = small_rows(generator, n=n)
        row = n_members * graph_bytes_per_row(architecture, rows.inputs)
        kept = kept_rows(architecture, rows, n_members)
        assert kept * row <= CPU_GRAPH_BYTES < (kept + 1) * row


@pytest.mark.parametrize("depth", [0, 1, 3])
@pytest.mark.parametrize("noise", ["constant", "input-dependent"])
def test_single_precision_takes_half(
    depth: int, noise: NoiseName, generator: torch.Generator
) -> None:
    architecture = Architecture(depth=depth, noise=noise)
    rows = small_rows(generator, uncertain=True)
    double = graph_bytes_per_row(architecture, rows.inputs)
    single = graph_bytes_per_row(architecture, rows.inputs.to(dtype=torch.float32))
    assert single * 2 == double


def test_noise_of_its_own_takes_more(generator: torch.Generator) -> None:
    inputs = small_rows(generator).inputs
    plain, own, finer = (
        graph_bytes_per_row(architecture, inputs)
        for architecture in (
            Architecture(),
            Architecture(noise="input-dependent"),
            Architecture(noise="input-dependent", n_noise_frequencies=64),
        )
    )
    assert plain < own < finer


def test_members_are_trained_together_where_they_are_small(generator: torch.Generator) -> None:
    architecture, rows = Architecture(), small_rows(generator, n=100)
    most = CPU_BATCH_BYTES // (100 * graph_bytes_per_row(architecture, rows.inputs))
    assert members_together(architecture, rows.inputs, 100, most) == most > 1
    assert members_together(architecture, rows.inputs, 100, most + 1) == most
    assert members_together(architecture, rows.inputs, 10_000, 4) == 1


def test_fewer_frequencies_in_the_warps_take_less(generator: torch.Generator) -> None:
    inputs = small_rows(generator).inputs
    fewer, plain = (
        graph_bytes_per_row(Architecture(n_warp_frequencies=n), inputs) for n in (64, None)
    )
    assert fewer < plain
