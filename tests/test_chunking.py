from __future__ import annotations

import pytest
import torch
from helpers import small_rows

from sswim.chunking import CPU_CHUNK_ROWS, chunk_size, graph_bytes_per_row
from sswim.model import Architecture, NoiseName


def test_chunks_stay_in_cache_on_a_cpu(generator: torch.Generator) -> None:
    assert chunk_size(Architecture(), small_rows(generator)) == CPU_CHUNK_ROWS


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
