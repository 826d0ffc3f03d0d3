from __future__ import annotations

import pytest
import torch
from helpers import small_rows

from sswim.chunking import CPU_CHUNK_ROWS, chunk_size, graph_bytes_per_row
from sswim.model import Architecture


def test_chunks_stay_in_cache_on_a_cpu(generator: torch.Generator) -> None:
    assert chunk_size(Architecture(), small_rows(generator)) == CPU_CHUNK_ROWS


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_single_precision_takes_half(depth: int, generator: torch.Generator) -> None:
    architecture = Architecture(depth=depth)
    rows = small_rows(generator, uncertain=True)
    double = graph_bytes_per_row(architecture, rows.inputs)
    single = graph_bytes_per_row(architecture, rows.inputs.to(dtype=torch.float32))
    assert single * 2 == double
