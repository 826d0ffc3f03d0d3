from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from builders.models import assert_close, small_rows
from torch import Tensor

from sswim.base.record import (
    Record,
    chunks,
    concatenate,
    map_chunks,
    rows_at_once,
    stack_records,
)
from sswim.rows import Rows


@dataclass(frozen=True)
class Leaf(Record):
    tensor: Tensor
    missing: Tensor | None = None


@dataclass(frozen=True)
class Tree(Record):
    kingdom: ClassVar[str] = "plants"  # is no field

    first: Leaf
    others: tuple[Leaf, ...]
    name: str


def test_records_are_mapped_as_trees_of_tensors() -> None:
    others = (Leaf(torch.ones(1)), Leaf(torch.full((3,), 2.0)))
    mapped = Tree(Leaf(torch.zeros(2)), others, "oak").map(lambda tensor: tensor + 1)
    assert isinstance(mapped, Tree)
    assert mapped.name == "oak"
    assert mapped.first.missing is None
    assert [tensor.tolist() for tensor in mapped.tensors()] == [[1, 1], [2], [3, 3, 3]]
    converted = mapped.to(dtype=torch.float64)
    assert {tensor.dtype for tensor in converted.tensors()} == {torch.float64}


def test_leaves_collect_gradients_without_touching_the_original() -> None:
    weight = torch.ones(2, requires_grad=True)
    cut = Leaf(weight * 3).leaves()
    cut.tensor.sum().backward()
    assert weight.grad is None
    assert torch.equal(cut.tensor.grad, torch.ones(2))  # type: ignore[arg-type]


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
    assert_close(together, rows, 0.0)


@pytest.mark.parametrize("size", [1, 3, 7, 8, 100])
@pytest.mark.parametrize("in_threads", [False, True])
def test_results_of_chunks_are_put_together(
    generator: torch.Generator, size: int, in_threads: bool
) -> None:
    rows = small_rows(generator, 7, n_targets=2, weighted=True).leaves()
    seen = []

    def doubled(chunk: Rows) -> Rows:
        seen.append(len(chunk))
        return chunk.map(lambda tensor: 2 * tensor)

    whole = map_chunks(doubled, rows, size, in_threads=in_threads)
    assert_close(whole, doubled(rows), 0.0)
    assert max(seen[:-1]) <= size
    assert sum(seen[:-1]) == 7
    if not in_threads:
        (gradient,) = torch.autograd.grad(whole.targets.sum(), rows.targets)
        assert torch.equal(gradient, torch.full_like(gradient, 2))
    assert rows_at_once(rows, in_threads=True) < rows_at_once(rows)


def test_rows_of_members_are_cut_along_their_own_axis(generator: torch.Generator) -> None:
    members = [small_rows(generator, 7, weighted=True, uncertain=True) for _ in range(2)]
    together = stack_records(members)
    assert len(together) == 7
    assert (members[0].axis, together.axis) == (0, 1)
    cut = list(chunks(together, 3, together.axis))
    assert len(cut) == 3
    for number, expected in enumerate(zip(*(chunks(rows, 3) for rows in members), strict=True)):
        assert_close(cut[number], stack_records(expected), 0.0)
