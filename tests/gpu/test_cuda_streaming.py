"""Streams and several processes on a GPU. Skipped where there is no GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from builders.distributed_fits import SAMPLE_ROWS, assert_same, fit_arrays, fit_shards
from builders.models import gradients, relative_error, small_model, small_rows
from builders.processes import run_processes

from sswim.distributed.processes import ALONE, Processes, Share
from sswim.members.linear_regression import total_statistics
from sswim.members.objective import MAP, backward
from sswim.rows import ArraySource, Stream, as_rows, no_scaling, summary

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
CUDA = torch.device("cuda")
ON_GPU = {"depth": 1, "device": "cuda"}


def test_a_chunk_without_rows_adds_nothing(generator: torch.Generator) -> None:
    rows = small_rows(generator).to(device=CUDA)
    model = small_model(rows, generator).to(CUDA)
    value = backward(model, rows, MAP)
    expected = gradients(model)
    empty = rows.map(lambda tensor: tensor[:0])
    model.zero_grad()
    assert torch.allclose(backward(model, [empty, rows, empty], MAP), value)
    for name, gradient in gradients(model).items():
        assert relative_error(gradient, expected[name]) < 1e-8, name
    factors, _ = model.factors()
    for tensor in total_statistics(factors, [empty]).tensors():
        assert not tensor.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_stream_brings_rows_to_the_gpu(dtype: torch.dtype) -> None:
    random = np.random.default_rng(0)
    x, y = random.normal(size=(100, 3)), random.normal(size=100)
    scaling = no_scaling(as_rows(x, y))
    stream = Stream(ArraySource(x, y), Share(1, 4), scaling, dtype, CUDA)
    rows = stream.in_memory()
    assert rows.inputs.mean.is_cuda
    assert rows.inputs.mean.dtype == dtype
    assert rows.targets.dtype == torch.float64
    assert np.allclose(rows.inputs.mean.cpu(), x[25:50], atol=1e-6)


def test_streamed_and_dealt_on_one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes on one GPU communicate by gloo, because NCCL refuses to."""
    expected = fit_arrays(ALONE, ON_GPU)
    for ours in run_processes(2, fit_arrays, ON_GPU):
        assert_same(ours, expected)
    monkeypatch.setattr(summary, "SAMPLE_ROWS", SAMPLE_ROWS)
    expected = fit_arrays(ALONE, ON_GPU)
    assert_same(fit_shards(ALONE, ON_GPU, SAMPLE_ROWS, 0), expected)


def test_nccl_accepts_all_messages(tmp_path: Path) -> None:
    """With a single GPU, the process sends them to itself."""
    store = (tmp_path / "store").as_uri()
    dist.init_process_group("nccl", init_method=store, rank=0, world_size=1)
    try:
        pretended = Processes(0, 2)
        tensors = [torch.arange(6.0, device=CUDA, dtype=torch.float64).reshape(2, 3)]
        assert torch.equal(pretended.all_sum_tensors(tensors)[0], tensors[0])
        assert torch.equal(pretended.broadcast_tensor(tensors[0]), tensors[0])
        assert pretended.broadcast("hello") == "hello"
    finally:
        dist.destroy_process_group()
