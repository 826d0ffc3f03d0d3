from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from builders.models import small_rows
from torch import Tensor

from sswim.base.record import Record, chunks, concatenate, map_chunks, rows_at_once, stack_records
from sswim.rows import Rows


@dataclass(frozen=True)
class Leaf(Record):
    tensor: Tensor
    missing: Tensor | None = None


@dataclass(frozen=True)
class Tree(Record):
    first: Leaf
    others: tuple[Leaf, ...]
    name: str


def tree() -> Tree:
    return Tree(Leaf(torch.zeros(2)), (Leaf(torch.ones(1)), Leaf(torch.full((3,), 2.0))), "oak")


def test_tensors_come_in_the_order_of_the_fields() -> None:
    assert [len(tensor) for tensor in tree().tensors()] == [2, 1, 3]


def test_map_keeps_the_structure() -> None:
    mapped = tree().map(lambda tensor: tensor + 1)
    assert isinstance(mapped, Tree)
    assert mapped.name == "oak"
    assert mapped.first.missing is None
    assert [tensor[0].item() for tensor in mapped.tensors()] == [1, 2, 3]


def test_leaves_collect_gradients_without_touching_the_original() -> None:
    weight = torch.ones(2, requires_grad=True)
    leaf = Leaf(weight * 3)
    cut = leaf.leaves()
    cut.tensor.sum().backward()
    assert weight.grad is None
    assert torch.equal(cut.tensor.grad, torch.ones(2))  # type: ignore[arg-type]


def test_to_converts_every_tensor() -> None:
    converted = tree().to(dtype=torch.float64)
    assert {tensor.dtype for tensor in converted.tensors()} == {torch.float64}


@pytest.mark.parametrize("size", [1, 5, 23, 100])
@pytest.mark.parametrize("extras", [False, True])
def test_chunks_put_together_are_the_rows(
    size: int, extras: bool, generator: torch.Generator
) -> None:
    rows = small_rows(generator, 23, weighted=extras, uncertain=extras)
    parts = list(chunks(rows, size))
    assert [len(part) for part in parts] == [min(size, 23 - i) for i in range(0, 23, size)]
    together = concatenate(parts)
    assert (together.weight is None) == (rows.weight is None)
    for ours, theirs in zip(together.tensors(), rows.tensors(), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("size", [1, 3, 7, 8, 100])
@pytest.mark.parametrize("in_threads", [False, True])
def test_results_of_chunks_are_put_together(
    generator: torch.Generator, size: int, in_threads: bool
) -> None:
    rows = small_rows(generator, 7, n_targets=2, weighted=True)
    seen = []

    def doubled(chunk: Rows) -> Rows:
        seen.append(len(chunk))
        return chunk.map(lambda tensor: 2 * tensor)

    whole = map_chunks(doubled, rows, size, in_threads=in_threads)
    for ours, theirs in zip(whole.tensors(), rows.tensors(), strict=True):
        assert torch.equal(ours, 2 * theirs)
    assert max(seen) <= size
    assert sum(seen) == 7


def test_chunks_are_differentiable_outside_threads(generator: torch.Generator) -> None:
    rows = small_rows(generator, 7).leaves()
    squared = map_chunks(lambda chunk: chunk.map(torch.square), rows, 3)
    (gradient,) = torch.autograd.grad(squared.targets.sum(), rows.targets)
    assert torch.equal(gradient, 2 * rows.targets)


def test_threads_have_smaller_chunks(generator: torch.Generator) -> None:
    rows = small_rows(generator, 7)
    assert rows_at_once(rows, in_threads=True) < rows_at_once(rows)


def test_rows_of_members_are_cut_along_their_own_axis(generator: torch.Generator) -> None:
    each = [small_rows(generator, 7, weighted=True, uncertain=True) for _ in range(2)]
    together = stack_records(each)
    assert len(together) == 7
    assert (each[0].axis, together.axis) == (0, 1)
    cut = list(chunks(together, 3, together.axis))
    for number, expected in enumerate(zip(*(chunks(rows, 3) for rows in each), strict=True)):
        parts = zip(cut[number].tensors(), stack_records(expected).tensors(), strict=True)
        assert all(torch.equal(ours, theirs) for ours, theirs in parts)
    assert len(cut) == 3
